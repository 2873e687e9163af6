"""Paints the labels over the curves: captions, leaders, the gutter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.gutter import Gutter, Label
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.clip import stretches
from clew_gui.plotting.axes.layout import Box, Placement
from clew_gui.plotting.axes.numbers import goal_text, value_text
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.curves.readout import x_text
from clew_gui.plotting.curves.scene import Drawn, PlotScene, Scene
from clew_gui.views.charts.chart_widget import SIZES
from clew_gui.views.charts.painter import box_of, paint
from clew_gui.views.plots.drawing import marks
from clew_gui.views.plots.drawing.lines import stands_out
from clew_gui.views.plots.drawing.pixels import TITLE, Frame, Stack
from clew_gui.views.theme.theme import Theme, alpha, font

_CROWDED: Final = 8.0
"""The pixels between strokes for spikes out of sight; if they are closer, one line along the border says the same."""
_EVERY: Final = 4
"""Pixels between the points of a line that labels keep off."""
_LEFT = Qt.AlignmentFlag.AlignLeft


class LabelPainter:
    """One frame: a scene in a stack of rectangles, with its words and where they go."""

    def __init__(self, scene: Scene, stack: Stack, theme: Theme, lifted: str = "", unit_label: str = "") -> None:
        self.scene = scene
        self.stack = stack
        self.theme = theme
        self.lifted = lifted
        self.unit_label = unit_label
        self._caption = font("caption")
        self._metrics = QFontMetricsF(self._caption)
        self.frames = tuple(
            Frame(rect, scene.grid.span, plot.span) for rect, plot in zip(stack.plots, scene.plots, strict=True)
        )
        pairs = zip(scene.plots, self.frames, strict=True) if stack.gutter else ()
        self.gutters = [self._gutter(plot, frame) for plot, frame in pairs]

    def _gutter(self, plot: PlotScene, frame: Frame) -> Gutter:
        gutter = Gutter(box_of(QRectF(frame.rect.right(), frame.rect.top(), self.stack.gutter, frame.rect.height())))
        gutter.place(self._labels(plot, frame), key(plot))
        return gutter

    def colour(self, run: RunStyle) -> str:
        """The colour of a run's curves."""
        return self.theme.curve(run.index).colour

    def goals(self, plot: PlotScene) -> list[tuple[str, float]]:
        """The goals in sight: what each says, and its axis coordinate."""
        result = []
        for goal in plot.setup.goals:
            if not plot.log or goal.value > 0:
                at = float(np.log10(goal.value)) if plot.log else goal.value
                if plot.span.low <= at <= plot.span.high:
                    result.append((f"Goal {goal_text(goal.value, plot.setup.format)}", at))
        return result

    def has_dot(self, item: Drawn, frame: Frame) -> bool:
        """Whether a curve's last point carries a dot."""
        return self._end_in_sight(item, frame) and (item.run.live or stands_out(item, self.lifted))

    @staticmethod
    def _end_in_sight(item: Drawn, frame: Frame) -> bool:
        end = item.curve.end
        return end is not None and item.curve.ends and frame.holds(*end)

    def width_of(self, text: str) -> float:
        """Returns the width of a caption, in pixels."""
        return self._metrics.horizontalAdvance(text)

    @staticmethod
    def broken(item: Drawn, frame: Frame) -> tuple[float, float] | None:
        """Returns where in sight a curve became NaN or infinite: its x, and the pixel row of its last value before."""
        x = item.curve.bad_x
        if x is None or not item.headline or not frame.x.low <= x <= frame.x.high:
            return None
        before = item.curve.at(x) or item.curve.end
        row = frame.row(before[1]) if before is not None else frame.rect.center().y()
        return x, min(max(row, frame.rect.top() + 8), frame.rect.bottom() - 8)

    def points_of(self, index: int) -> FloatArray:
        """Pixels of the main lines of one plot, to keep labels off them; of evaluations also between the points."""
        frame = self.frames[index]
        parts = [np.empty((0, 2))]
        for item in self.scene.plots[index].curves:
            every = 1 if item.curve.sparse else _EVERY
            x, y = frame.px(item.curve.x[::every]), frame.py(item.curve.y[::every])
            if item.curve.sparse and x.size:
                dense = np.arange(x[0], x[-1] + 1, _EVERY)
                parts.append(np.column_stack((dense, np.interp(dense, x, y))))
            parts.append(np.column_stack((x, y)))
        return np.concatenate(parts)

    # ------------------------------------------------------------ painting
    def paint(self, painter: QPainter) -> None:
        """Paint all of it."""
        for index, (plot, frame) in enumerate(zip(self.scene.plots, self.frames, strict=True)):
            if not self.stack.gutter:
                box = QRectF(0, frame.rect.top() - TITLE, frame.rect.right(), TITLE - 6)
                self._write(painter, box, heading(plot), self.theme.text3, _LEFT)
            for item in plot.curves:
                self._beyond(painter, plot, frame, item)
                self._leader(painter, frame, item)
            for caption in captions(self, index):
                self._caption_at(painter, caption)
        drawing = Drawing(self.theme, SIZES)
        for plot, gutter in zip(self.scene.plots, self.gutters, strict=False):
            gutter.draw(drawing, heading(plot), key(plot))
        paint(painter, drawing.items)
        self._notes(painter)
        if self.scene.empty and not any(plot.ghost is not None for plot in self.scene.plots):
            self._write(painter, self.stack.area, empty_sentence(self.scene.runs), self.theme.text3)

    def _beyond(self, painter: QPainter, plot: PlotScene, frame: Frame, item: Drawn) -> None:
        """Marks spikes outside the plot: a stroke at the border where raw values lie far outside although the line is
        in sight, and a quiet line along it where they do so all the time."""
        curve, far = item.curve, 0.5 * plot.span.size
        if not curve.raw_x.size or not curve.x.size:
            return
        main = np.interp(curve.raw_x, curve.x, curve.y)
        seen = (main >= plot.span.low) & (main <= plot.span.high)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        ink = QColor(self.colour(item.run))
        ink.setAlphaF(0.6)
        painter.setPen(QPen(ink, 1))
        for outside, y, out in (
            (curve.raw_y > plot.span.high + far, frame.rect.top(), -1.0),
            (curve.raw_y < plot.span.low - far, frame.rect.bottom(), 1.0),
        ):
            columns = np.unique(np.round(frame.px(curve.raw_x[seen & outside])))
            columns = columns[(columns >= frame.rect.left()) & (columns <= frame.rect.right())]
            for first, last in stretches(columns, _CROWDED):
                stroke = QLineF(first, y, first, y + 4 * out)
                painter.drawLine(stroke if last - first < _CROWDED else QLineF(first, y + 2 * out, last, y + 2 * out))

    def _leader(self, painter: QPainter, frame: Frame, item: Drawn) -> None:
        end = item.curve.end
        if end is None or not item.headline or not self._end_in_sight(item, frame):
            return
        point = frame.at(*end)
        if point.x() < frame.rect.right() - 8:
            start = point + QPointF(marks.DOT + 1, 0) if self.has_dot(item, frame) else point
            live = item.run.live and not item.run.stale
            marks.leader(painter, start, frame.rect.right(), QColor(self.colour(item.run)), live=live)

    def _notes(self, painter: QPainter) -> None:
        """Writes at the foot what cannot be seen, or else what the lines are."""
        text = " ".join(self.scene.notes) or self.scene.legend
        if text and self.frames:
            r = self.frames[-1].rect
            box = QRectF(r.left(), self.stack.height - 18, self.stack.width - r.left() - 8, 16)
            text = self._metrics.elidedText(text, Qt.TextElideMode.ElideRight, box.width())
            self._write(painter, box, text, self.theme.warn if self.scene.notes else self.theme.text3, _LEFT)

    # ------------------------------------------------------------ text
    def _caption_at(self, painter: QPainter, caption: Caption) -> None:
        spot = caption.box
        box = QRectF(spot.x, spot.y, spot.width, spot.height)
        if caption.ground:
            painter.fillRect(box, alpha(self.theme.surface, 0.85))
        self._write(painter, box, caption.text, caption.ink)

    def _write(
        self,
        painter: QPainter,
        box: QRectF,
        text: str,
        ink: str,
        align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignHCenter,
    ) -> None:
        painter.setFont(self._caption)
        painter.setPen(QColor(ink))
        painter.drawText(box, align | Qt.AlignmentFlag.AlignVCenter, text)

    def _labels(self, plot: PlotScene, frame: Frame) -> list[Label]:
        labels = []
        for item in plot.curves:
            end = item.curve.end
            if not item.headline or end is None:
                continue
            x, y = end
            if x > self.scene.grid.span.high:  # the view is zoomed: what is at its right border counts
                x, y = item.curve.at(self.scene.grid.span.high) or end
            broken = item.curve.bad_x is not None and x < item.curve.bad_x
            # The very number that was recorded, which the end of a smoothed or decimated line is not.
            value = item.curve.last if item.curve.ends and item.curve.last is not None else plot.value(y)
            labels.append(
                Label(
                    run=item.run,
                    at=min(max(frame.row(y), frame.rect.top()), frame.rect.bottom()),
                    seen=plot.span.low <= y <= plot.span.high,
                    value=item.curve.bad_word if broken else value_text(value, plot.setup.format),
                    strong=stands_out(item, self.lifted),
                    bad=broken,
                )
            )
        return labels


def heading(plot: PlotScene) -> str:
    """The plot's title, with its scale where that is logarithmic."""
    return plot.setup.title + (", log scale" if plot.log else "")


def key(plot: PlotScene) -> str:
    """Explains which line is which of a plot's several metrics, a line of text for each; empty for one metric."""
    styles: dict[str, str] = {}
    for item in sorted(plot.curves, key=lambda d: not d.headline):
        style = f"{plot.mark_of(item.curve.metric)}s" if item.curve.sparse else "line" if item.headline else "thin"
        styles.setdefault(item.curve.metric, style)
    if len(styles) < 2:
        return ""
    if sum(item.curve.sparse for item in {item.curve.metric: item for item in plot.curves}.values()) == 1:
        styles = {metric: "points" if style.startswith("dot") else style for metric, style in styles.items()}
    return "\n".join(f"{style}: {plot.setup.label(metric)}" for metric, style in styles.items())


def empty_sentence(runs: Sequence[RunStyle]) -> str:
    """The text of a plot in which no shown run has a value."""
    if runs and not any(run.live or run.coming for run in runs):
        return "There are no values: it ended before the first one."
    if any(run.coming for run in runs):
        return "The values are being read."
    return "The curves appear here with the run's first values."


# --- Captions: at goals, events and breaks, and at the expected curve. None lies on another ---------------------------

_HEIGHT: Final = 18.0
_AIR: Final = 8.0
_MARK: Final = 7.0
"""Half the size of a mark, in pixels."""


@dataclass(frozen=True)
class Caption:
    """A text in its box; ``ground`` clears what lies under it."""

    box: Box
    text: str
    ink: str
    ground: bool = True


@dataclass(frozen=True)
class _CaptionRequest:
    """A text with the upper left corners at which it may be, the best first."""

    text: str
    ink: str
    corners: tuple[tuple[float, float], ...]
    ground: bool = True


def captions(label_painter: LabelPainter, index: int) -> list[Caption]:
    """The captions of one plot. Those about trouble are placed first; those that find no room are left out."""
    placements = (
        *_breaks(label_painter, index),
        *_goals(label_painter, index),
        *_events(label_painter, index),
        *_expected(label_painter, index),
        *_metrics(label_painter, index),
    )
    if not placements:
        return []
    r = label_painter.frames[index].rect
    room = Box(r.left(), r.top(), r.width(), r.height())
    placement = Placement(room, np.concatenate([label_painter.points_of(index), *_marks(label_painter, index)]))
    found = []
    for wanted in placements:
        wide = label_painter.width_of(wanted.text) + _AIR
        box = placement.take([Box(x, y, wide, _HEIGHT) for x, y in wanted.corners])
        if box is not None:
            found.append(Caption(box, wanted.text, wanted.ink, wanted.ground))
    return found


def _marks(label_painter: LabelPainter, index: int) -> Iterator[FloatArray]:
    """Pixels of the marks on the lines."""
    plot, frame = label_painter.scene.plots[index], label_painter.frames[index]
    places = [item.curve.end for item in plot.curves if label_painter.has_dot(item, frame)]
    places += [item.curve.best for item in plot.curves]
    for event, step in label_painter.scene.events:
        curve = plot.headline(event.run_id)
        places.append(curve.at(step) if curve is not None else None)
    around = np.array([(dx, dy) for dx in (-_MARK, 0.0, _MARK) for dy in (-_MARK, 0.0, _MARK)])
    for place in places:
        if place is not None:
            yield around + np.array([frame.column(place[0]), frame.row(place[1])])
    if plot.ghost is not None and plot.ghost[0].size:
        x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
        dense = np.linspace(x.min(), x.max(), 400)
        yield np.column_stack((dense, np.interp(dense, x, y)))


def _metrics(label_painter: LabelPainter, index: int) -> Iterator[_CaptionRequest]:
    """Names each metric of a plot with several at its curve's end, for one run."""
    plot, frame = label_painter.scene.plots[index], label_painter.frames[index]
    alone = len({item.run.run_id for item in plot.curves}) == 1
    mine = [item for item in plot.curves if alone or item.run.selected]
    if len({item.curve.metric for item in mine}) < 2:
        return
    for item in mine:
        end = item.curve.end
        if end is None or not frame.holds(*end):
            continue
        text = plot.setup.label(item.curve.metric)
        column, row = frame.column(end[0]), frame.row(end[1])
        left = column - label_painter.width_of(text) - _AIR - 10
        corners = (
            *((column + 8, row + by) for by in (-9.0, -18.0, 0.0)),
            *((left + back, row + by) for back in (0.0, -40.0) for by in (-22.0, 4.0, -34.0, 16.0)),
        )
        yield _CaptionRequest(text, label_painter.colour(item.run), corners)


def _beside(column: float, away: float, wide: float, tops: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((x, top) for top in tops for x in (column + away, column - away - wide))


def _breaks(label_painter: LabelPainter, index: int) -> Iterator[_CaptionRequest]:
    """Labels the points where a curve became NaN or infinite."""
    frame = label_painter.frames[index]
    for item in label_painter.scene.plots[index].curves:
        at = label_painter.broken(item, frame)
        if at is not None:
            where = x_text(label_painter.scene.x_value(at[0]), label_painter.scene.grid.unit)
            word = item.curve.bad_word
            text = f"{word[:1].upper()}{word[1:]} at {where[0].lower()}{where[1:]}"
            tops = [at[1] - 9 + by for by in (0.0, -20.0, 20.0, -40.0, 40.0)]
            corners = _beside(frame.column(at[0]), 9, label_painter.width_of(text) + _AIR, tops)
            yield _CaptionRequest(text, label_painter.theme.bad, corners)


def _events(label_painter: LabelPainter, index: int) -> Iterator[_CaptionRequest]:
    """Labels the run's events, in the lowest plot."""
    frame = label_painter.frames[index]
    if index < len(label_painter.frames) - 1:
        return
    for event, x in label_painter.scene.events:
        column = frame.column(x)
        if frame.rect.left() <= column <= frame.rect.right():
            ink = label_painter.theme.bad if event.bad else label_painter.theme.text2
            foot, wide = frame.rect.bottom() - 20, label_painter.width_of(event.text) + _AIR
            sides = _beside(column, 4, wide, (foot, foot - 20, frame.rect.top() + 2))
            fits = column + 4 + wide <= frame.rect.right()  # left of its line it would seem to be the one before's
            yield _CaptionRequest(event.text, ink, sides[::2] if fits else sides[1::2])


def _goals(label_painter: LabelPainter, index: int) -> Iterator[_CaptionRequest]:
    """Labels each goal. If two texts would touch, the upper goal's is above both lines and the lower goal's below; more
    than two share one text."""
    frame = label_painter.frames[index]
    groups: list[list[tuple[float, str]]] = []
    for row, text in sorted(
        (frame.row(at), text) for text, at in label_painter.goals(label_painter.scene.plots[index])
    ):
        if groups and row - groups[-1][-1][0] < _HEIGHT:
            groups[-1].append((row, text))
        else:
            groups.append([(row, text)])
    for group in groups:
        above, below = group[0][0] - 20, group[-1][0] + 3
        texts = list(dict.fromkeys(text for _, text in group))
        if len(texts) == 2 and above >= frame.rect.top():
            placed: list[tuple[str, tuple[float, ...]]] = [(texts[0], (above,)), (texts[1], (below,))]
        elif len(texts) == 2:
            placed = [(texts[0], (below,)), (texts[1], (below + _HEIGHT - 2,))]
        else:
            shared = " and ".join(text.removeprefix("Goal ") for text in texts)
            placed = [(f"Goal{'s' if len(texts) > 1 else ''} {shared}", (below, above))]
        for text, tops in placed:
            wide = label_painter.width_of(text) + _AIR
            room = max(frame.rect.width() - wide - 32, 0.0)
            lefts = [frame.rect.left() + 12 + part * room for part in (1.0, 0.0, 0.75, 0.5, 0.25)]
            yield _CaptionRequest(text, label_painter.theme.ok, tuple((x, top) for x in lefts for top in tops))


def _expected(label_painter: LabelPainter, index: int) -> Iterator[_CaptionRequest]:
    """Labels the expected curve, which is drawn while nothing has run."""
    plot, frame = label_painter.scene.plots[index], label_painter.frames[index]
    if plot.ghost is None or not plot.ghost[0].size or plot.setup.ghost is None:
        return
    x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
    corners = []
    for part in (0.62, 0.5, 0.38, 0.25):
        left = frame.rect.left() + part * frame.rect.width()
        height = float(np.interp(left, x, y))
        corners += [(left, height - 34), (left, height + 16)]
    yield _CaptionRequest(plot.setup.ghost.text, label_painter.theme.text3, tuple(corners), ground=False)
