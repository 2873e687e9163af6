"""Predict, then run: a person draws the curve that they expect before the run begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from clew_gui.charts.axes import draw_foot, draw_grid
from clew_gui.charts.drawing import Drawing, Stroke
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span, Tick, linear_ticks, log_ticks, nice_step, settled_span
from clew_gui.views.charts.painter import SIZES, paint
from clew_gui.views.form.fields import NumberEdit, combo
from clew_gui.views.presentation import words
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance, Button, label, row
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import ParamSpec, convert
from clew_shared.spec import Prediction

_HELP = (
    "Drag from left to right to draw the curve that you expect, or use the arrow keys: Left and Right choose a step, Up"
    " and Down set its value, Delete removes it. The curve is written into the run's journal before the first step, and"
    " is shown dashed beside the result."
)
_COLUMNS = 60
"""Points of a drawing at most, evenly over the steps."""
_FINE, _COARSE = 0.02, 0.1
"""Parts of the axis by which Up and Down move a point, without and with Shift."""
_LEFT, _BOTTOM, _TOP, _RIGHT = 58, 26, 10, 24
_ENDS = (
    ParamSpec(name="bottom", kind="float", label="Axis from", default=0.0),
    ParamSpec(name="top", kind="float", label="to", default=3.0),
)
_LEAST, _MOST = -6.0, 1.0
"""The decades of a logarithmic axis for what nobody has measured yet."""


class PredictDialog(Dialog):
    """Draws one curve and hands it over; ``steps`` are those of the run. ``seen`` has the values of metrics in
    earlier runs, which the axes show. A metric that its plot shows on a logarithmic axis has one here, too."""

    drawn = Signal(Prediction)

    def __init__(
        self,
        parent: QWidget,
        appearance: Appearance,
        card: ExerciseCard,
        steps: int,
        seen: Callable[[str], Sequence[npt.NDArray[np.floating[Any]]]],
    ) -> None:
        super().__init__(parent, "Predict the curve", _HELP)
        self._card, self._seen = card, seen
        self.metrics = combo([(one.name, one.label.capitalize()) for one in _judged(card)], "Metric")
        self.metrics.currentIndexChanged.connect(lambda _index: self._metric_changed())
        self.ends = tuple(map(NumberEdit, _ENDS))
        self._end_labels = tuple(label(spec.label) for spec in _ENDS)
        for field, spec in zip(self.ends, _ENDS, strict=True):
            field.setAccessibleName(spec.label.capitalize())
            field.edited.connect(self._ends_changed)
        line = row(label("Metric"), self.metrics, gap=8)
        line.setStretch(1, 2)
        for text, field in zip(self._end_labels, self.ends, strict=True):
            line.addWidget(text)
            line.addWidget(field, 1)
        self.add(line)
        self.board = DrawingBoard(appearance, steps)
        self.board.changed.connect(self._edited)
        self.add(self.board)
        clear = Button(appearance, "Clear", "quiet", "reset")
        clear.clicked.connect(self.board.clear)
        cancel = Button(appearance, "Cancel")
        cancel.clicked.connect(self.reject)
        self.go = Button(appearance, "Keep for the next run", "primarySmall", "check")
        self.go.setDefault(True)
        self.go.clicked.connect(self._keep)
        self.finish(clear, None, cancel, self.go)
        self.setMinimumWidth(560)
        self._metric_changed()

    def _metric_changed(self) -> None:
        metric = self._metric()
        percent = metric is not None and metric.format == "percent"
        for widget in (*self._end_labels, *self.ends):
            widget.setVisible(not percent)
        for field, value in zip(self.ends, (0.0, 1.0) if percent else self._usual_ends(), strict=True):
            field.set_value(value)
        self._ends_changed()
        self.board.clear()

    def _metric(self) -> MetricSpec | None:
        return next((one for one in self._card.metrics if one.name == self.metrics.currentData()), None)

    def _log(self) -> bool:
        return any(plot.log for plot in self._card.plots if self.metrics.currentData() in plot.metrics)

    def _usual_ends(self) -> tuple[float, float]:
        """Ends of an axis for what earlier runs have measured: decades, or from zero to a round value above all."""
        log, seen = self._log(), self._seen(str(self.metrics.currentData()))
        values, starts = (np.concatenate([np.zeros(0), *some]) for some in (seen, [one[:1] for one in seen]))
        if log:
            values, starts = np.log10(values[values > 0]), np.log10(starts[starts > 0])
        found = settled_span(values, "none", log, starts)
        if log:
            low, high = (found.low, found.high) if found is not None else (_LEAST, _MOST)
            bottom = math.floor(low)
            return 10.0**bottom, 10.0 ** max(math.ceil(high), bottom + 1)
        low, high = (min(found.low, 0.0), found.high) if found is not None else (0.0, 3.0)
        step = nice_step(max(high - low, 1e-9), 4)
        return math.floor(low / step) * step, math.ceil(high / step) * step

    def _ends_changed(self) -> None:
        """Shows the axis between the two values; one that makes none of them is ignored while someone types."""
        found = [convert(spec, field.raw()) for spec, field in zip(_ENDS, self.ends, strict=True)]
        values = [value for value, wrong in found if wrong is None and isinstance(value, float)]
        log, metric = self._log(), self._metric()
        if len(values) == len(found) and values[0] < values[1] and (values[0] > 0 or not log):
            span = Span(*(math.log10(value) if log else value for value in values))
            self.board.set_axis(span, log, metric.format if metric is not None else "number")

    def prediction(self) -> Prediction | None:
        """Returns the drawn prediction; None without two points."""
        points = self.board.points()
        if len(points) < 2:
            return None
        steps, values = zip(*points, strict=True)
        return Prediction(str(self.metrics.currentData()), steps, values)

    def _edited(self) -> None:
        self.go.allow(self.prediction() is not None, "Draw a curve first")

    def _keep(self) -> None:
        found = self.prediction()
        if found is not None:
            self.drawn.emit(found)
            self.accept()


def _judged(card: ExerciseCard) -> list[MetricSpec]:
    """Metrics that can be better or worse: those of each step first."""
    found = [one for one in card.metrics if one.better != "none"]
    return sorted(found or card.metrics, key=lambda one: not one.per_step)


class DrawingBoard(QWidget):
    """Axes on which a curve is drawn by hand: one value for each of some columns of steps."""

    changed = Signal()

    def __init__(self, appearance: Appearance, steps: int) -> None:
        super().__init__()
        self._appearance, self._steps = appearance, max(1, steps)
        self._columns = min(_COLUMNS, self._steps)
        self._shares: dict[int, float] = {}
        self._span, self._log = Span(0.0, 1.0), False
        self._format: Literal["number", "percent"] = "number"
        self._last: tuple[int, float] | None = None
        self._cursor = 0
        """The column that the arrow keys act on."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(240)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setAccessibleName("The curve that you expect")
        self._describe()

    def set_axis(self, span: Span, log: bool, form: Literal["number", "percent"]) -> None:
        """Set what the axis shows: the values of ``span``, or the powers of ten where it is logarithmic."""
        self._span, self._log, self._format = span, log, form
        self.update()
        self.changed.emit()

    def clear(self) -> None:
        """Take the curve away."""
        self._shares = {}
        self.update()
        self.changed.emit()

    def points(self) -> Sequence[tuple[int, float]]:
        """(step, value) pairs, steps rising."""
        return [
            (round(column * self._steps / self._columns), float(f"{self._value(share):.4g}"))
            for column, share in sorted(self._shares.items())
        ]

    def _value(self, share: float) -> float:
        at = self._span.low + share * self._span.size
        return 10.0**at if self._log else at

    def _frame(self) -> Frame:
        box = Box(0, 0, self.width(), self.height()).inset(_LEFT, _TOP, _RIGHT, _BOTTOM)
        return Frame(box, Span(0.0, self._columns), Span(0.0, 1.0))

    def _at(self, place: QPointF) -> tuple[int, float]:
        column, share = self._frame().place(place.x(), place.y())
        return round(min(max(column, 0), self._columns)), min(max(share, 0.0), 1.0)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a stroke."""
        self._last = None
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go on with it; columns that the pointer jumped over lie on the line between."""
        column, share = self._at(event.position())
        before, start = self._last or (column, share)
        for one in range(min(before, column), max(before, column) + 1):
            part = (one - before) / (column - before) if column != before else 1.0
            self._shares[one] = start + part * (share - start)
        self._last = (column, share)
        self.update()
        self.changed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Chooses a column with Left and Right (Shift: far), moves its point with Up and Down, removes it with
        Delete."""
        far = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        across = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        up = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()), 0)
        if across:
            self._cursor = min(max(self._cursor + across * (10 if far else 1), 0), self._columns)
        elif up:
            share = self._share_at(self._cursor) + up * (_COARSE if far else _FINE)
            self._shares[self._cursor] = min(max(share, 0.0), 1.0)
        elif event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._shares.pop(self._cursor, None)
        else:
            super().keyPressEvent(event)
            return
        self._describe()
        self.update()
        if not across:
            self.changed.emit()

    def _share_at(self, column: int) -> float:
        """The height of the curve at a column; half of the axis if there is no curve yet."""
        if not self._shares:
            return 0.5
        known = sorted(self._shares.items())
        before = [one for one in known if one[0] <= column][-1:] or known[:1]
        after = [one for one in known if one[0] >= column][:1] or known[-1:]
        (left, low), (right, high) = before[0], after[0]
        return low if right == left else low + (high - low) * (column - left) / (right - left)

    def _describe(self) -> None:
        """Describes the cursor's position for screen readers."""
        value = self._value(self._share_at(self._cursor))
        step = words.count(round(self._cursor * self._steps / self._columns))
        none = "" if self._cursor in self._shares else ", no point"
        self.setAccessibleDescription(f"Step {step}, value {value:.3g}{none}")

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the cursor."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Hide it."""
        super().focusOutEvent(event)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the axes, and the curve dashed, as it will be shown."""
        del event
        theme, frame = self._appearance.theme, self._frame()
        drawing = Drawing(theme, SIZES)
        parts = [k / 4 for k in range(5)]
        found = (log_ticks if self._log else linear_ticks)(self._span, len(parts), self._format)
        draw_grid(drawing, frame, [Tick((tick.at - self._span.low) / self._span.size, tick.text) for tick in found])
        steps = [math.floor(part * self._steps) for part in parts]
        ticks = [Tick(part * self._columns, words.count(step)) for part, step in zip(parts, steps, strict=True)]
        draw_foot(drawing, frame, ticks)
        line = sorted(self._shares.items())
        x, y = np.array([place for place, _ in line], np.float64), np.array([share for _, share in line], np.float64)
        drawing.path(frame.px(x), frame.py(y), Stroke(theme.accent, 2.0, (8, 4)))
        if self.hasFocus():
            column, row = frame.at(self._cursor, self._share_at(self._cursor))
            drawing.line(column, frame.box.y, column, frame.box.bottom, Stroke(theme.text3))
            drawing.marks([column], [row], theme.accent, 10.0, edge=Stroke(theme.surface, 1.5))
        if not line:
            drawing.text(*frame.box.centre, "Draw here", across="middle")
        painter = QPainter(self)
        paint(painter, drawing.items)
        painter.end()
