"""What is over the curves: captions, leaders, the gutter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.clip import stretches
from clew_gui.plotting.model import RunStyle
from clew_gui.plotting.numbers import value_text
from clew_gui.plotting.pyramid import FloatArray
from clew_gui.plotting.scene import Drawn, PlotScene, Scene
from clew_gui.views.plots.curves.captions import Caption, captions
from clew_gui.views.plots.curves.gutter import Gutter, Label, heading, key
from clew_gui.views.plots.drawing import marks
from clew_gui.views.plots.drawing.geometry import TITLE, Frame, Stack
from clew_gui.views.plots.drawing.lines import stands_out
from clew_gui.views.theme.theme import Theme, alpha, font

_CROWDED: Final = 8.0
"""Pixels between strokes for spikes out of sight; where they stand closer, one line along the border says the same."""
_EVERY: Final = 4
"""Pixels between the points of a line that labels keep off."""
_LEFT = Qt.AlignmentFlag.AlignLeft


class FramePainter:
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
        gutter = Gutter(QRectF(frame.rect.right(), frame.rect.top(), self.stack.gutter, frame.rect.height()))
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
                    result.append((f"Goal {value_text(goal.value, plot.setup.format)}", at))
        return result

    def has_dot(self, item: Drawn, frame: Frame) -> bool:
        """Whether a curve's last point carries a dot."""
        return self._end_in_sight(item, frame) and (item.run.live or stands_out(item, self.lifted))

    @staticmethod
    def _end_in_sight(item: Drawn, frame: Frame) -> bool:
        end = item.curve.end
        return end is not None and item.curve.ends and frame.holds(*end)

    def width_of(self, text: str) -> float:
        """How wide a caption is, in pixels."""
        return self._metrics.horizontalAdvance(text)

    @staticmethod
    def broken(item: Drawn, frame: Frame) -> tuple[float, float] | None:
        """Where a curve stopped being a number, in sight: its x, and the pixel row of what was there before."""
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
        for plot, gutter in zip(self.scene.plots, self.gutters, strict=False):
            gutter.paint(painter, self.theme, heading(plot), key(plot))
        self._notes(painter)
        if self.scene.empty and not any(plot.ghost is not None for plot in self.scene.plots):
            self._write(painter, self.stack.area, empty_sentence(self.scene.runs), self.theme.text3)

    def _beyond(self, painter: QPainter, plot: PlotScene, frame: Frame, item: Drawn) -> None:
        """No spike is lost: at the border a stroke where raw values lie far outside though the line is in sight, and a
        quiet line along it where they do so all the time."""
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
        """At the foot: what cannot be seen, or else what the lines are."""
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
                    value="NaN" if broken else value_text(value, plot.setup.format),
                    colour=QColor(self.colour(item.run)),
                    strong=stands_out(item, self.lifted),
                    bad=broken,
                )
            )
        return labels


def empty_sentence(runs: Sequence[RunStyle]) -> str:
    """What stands where no shown run has a value."""
    if runs and not any(run.live for run in runs):
        return "There are no values: it ended before the first step."
    return "The curves appear here with the run's first values."
