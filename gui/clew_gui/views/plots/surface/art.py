"""Paints a loss surface: the map, the paths on it, axes, the list of runs and the scale of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPen

from clew_gui.charts.gutter import gutter_width
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.clip import clip_lines
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.numbers import value_text
from clew_gui.plotting.axes.ticks import Span, linear_ticks
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.curves.readout import prominent
from clew_gui.plotting.loss_surface import Colour, Heights, Inks
from clew_gui.plotting.surface_path import Chart
from clew_gui.views.charts.painter import polygon
from clew_gui.views.plots.drawing import marks
from clew_gui.views.plots.drawing.lines import LIFTED_WIDTH, RUN_WIDTH, dashed, swatch
from clew_gui.views.theme.theme import Theme, alpha, font

LEFT: Final = 46.0
TOP: Final = 24.0
FOOT: Final = 26.0
NOTE: Final = 18.0
ROW: Final = 18.0
_DENSE: Final = 12.5
"""The least height of a row where many runs are listed."""
ROOMY: Final = 540
"""The width from which on the list of runs is beside the map."""
_HALO: Final = 2.4
_SCALE: Final = 54.0
_REACH: Final = 200.0
_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class Sheet:
    """The division of a picture: the map's box, and the gutter right of it (0: none)."""

    width: float
    height: float
    box: Box
    gutter: float


def sheet(width: float, height: float, listed: bool = True) -> Sheet:
    """Divide a picture; a line at the foot is left for a note, because the map must not jump when one comes.

    Without ``listed`` the list of runs is left out: the curves beside it have one.
    """
    gutter = gutter_width(width) if listed and width >= ROOMY else 0.0
    across = max(width - LEFT - (gutter or 14.0), 40.0)
    high = max(height - TOP - FOOT - NOTE, 40.0)
    return Sheet(width, height, Box(LEFT, TOP, across, high), gutter)


@dataclass(frozen=True)
class PathHead:
    """A run's present point on the surface: its values at its last step, and the loss there (None: not known)."""

    run: RunStyle
    step: float
    x: float
    y: float
    loss: float | None


def inks(theme: Theme) -> Inks:
    """The map's colours: quiet ones, that the paths stand out from; light or dark as the ground of all plots."""
    strong = 0.42 if theme.dark else 0.34
    return Inks(
        low=_rgb(theme.surface),
        high=_mix(theme.surface, theme.accent, strong),
        line=_mix(theme.surface, theme.accent, strong + 0.16),
        beyond=_rgb(theme.sunken),
    )


def _rgb(colour: str) -> Colour:
    found = QColor(colour)
    return found.red(), found.green(), found.blue()


def _mix(one: str, other: str, part: float) -> Colour:
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(_rgb(one), _rgb(other), strict=True))
    return red, green, blue


def map_image(heights: Heights, chart: Chart, theme: Theme, scale: float) -> QImage:
    """The map with ``scale`` pixels for each logical one."""
    width, height = max(round(chart.box.width * scale), 2), max(round(chart.box.height * scale), 2)
    x = chart.x.low + (np.arange(width) + 0.5) / width * chart.x.size
    y = chart.y.high - (np.arange(height) + 0.5) / height * chart.y.size
    pixels = np.ascontiguousarray(heights.picture(x, y, inks(theme)))
    return QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32).copy()


def draw_path(
    painter: QPainter, stretch: FloatArray, box: Box, pen: QPen, offset: float = 0.0, reach: float = _REACH
) -> None:
    """Draw a stretch of a path as far as ``reach`` pixels around the map; files need 0, because they cannot clip.

    ``offset`` is the length in pixels that was drawn before, so that dashes go on.
    """
    if pen.style() is Qt.PenStyle.CustomDashLine:
        pen.setDashOffset(offset / pen.widthF())
    painter.setPen(pen)
    wide = Box(box.x - reach, box.y - reach, box.width + 2 * reach, box.height + 2 * reach)
    for x, y in clip_lines(stretch[:, 0], stretch[:, 1], wide):
        painter.drawPolyline(polygon(x, y))


def path_pens(run: RunStyle, theme: Theme) -> tuple[QPen, QPen]:
    """The pens of a path's halo, which keeps it apart from the map and from others, and of the path itself."""
    style, width = theme.curve(run.index), LIFTED_WIDTH if run.selected else RUN_WIDTH
    halo = QPen(alpha(theme.surface, 0.75), width + _HALO)
    line = dashed(QColor(style.colour), width, style.dash)
    for pen in (halo, line):
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    halo.setCapStyle(Qt.PenCapStyle.FlatCap)
    return halo, line


def length(stretch: FloatArray) -> float:
    """Returns the length of a stretch in pixels."""
    return float(np.nansum(np.hypot(*np.diff(stretch, axis=0).T))) if len(stretch) > 1 else 0.0


class SurfaceArt:
    """Paints everything but map and paths, which are kept as pixels while nothing but the runs changes."""

    def __init__(self, heights: Heights, chart: Chart, paper: Sheet, theme: Theme) -> None:
        self.heights, self.chart, self.paper, self.theme = heights, chart, paper, theme
        self.rows: list[tuple[QRectF, str]] = []
        """The place of each run in the list beside the map."""

    @property
    def rect(self) -> QRectF:
        """The map's rectangle."""
        box = self.chart.box
        return QRectF(box.x, box.y, box.width, box.height)

    def run_at(self, point: QPointF) -> str:
        """The run whose line in the list is at this pixel."""
        return next((run for box, run in self.rows if box.contains(point)), "")

    # ------------------------------------------------------------ marks
    def marks(self, painter: QPainter, start: tuple[float, float] | None, heads: Sequence[PathHead]) -> None:
        """The minimum, the start, and where each run is."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.save()
        painter.setClipRect(self.rect.adjusted(-6, -6, 6, 6))
        if self.heights.spec.minimum is not None:
            self._cross(painter, *self._point(*self.heights.spec.minimum))
        if start is not None:
            at = QPointF(*self._point(*start))
            painter.setPen(QPen(QColor(self.theme.surface), 4.5))
            painter.drawEllipse(at, 5.0, 5.0)
            painter.setPen(QPen(QColor(self.theme.text), 1.8))
            painter.drawEllipse(at, 5.0, 5.0)
        for head in heads:
            self._head(painter, head)
        painter.restore()
        self._words(painter, start)

    def _point(self, x: float, y: float) -> tuple[float, float]:
        column, row = self.chart.pixel(x, y)
        return min(max(column, -1e4), 1e4), min(max(row, -1e4), 1e4)

    def _cross(self, painter: QPainter, column: float, row: float) -> None:
        arms = [QLineF(column - 7, row, column + 7, row), QLineF(column, row - 7, column, row + 7)]
        for colour, width in ((self.theme.surface, 4.0), (self.theme.text, 1.6)):
            painter.setPen(QPen(QColor(colour), width))
            painter.drawLines(arms)

    def _head(self, painter: QPainter, head: PathHead) -> None:
        at, colour = QPointF(*self._point(head.x, head.y)), QColor(self.theme.curve(head.run.index).colour)
        if head.run.stale:
            marks.dot(painter, at, QColor(self.theme.surface), self.theme, marks.DOT + 1)
            painter.setPen(QPen(colour, 1.8))
            painter.drawEllipse(at, marks.DOT, marks.DOT)
        else:
            marks.dot(painter, at, colour, self.theme, marks.DOT + (1.5 if head.run.live else 0.5))

    def _words(self, painter: QPainter, start: tuple[float, float] | None) -> None:
        for words, place in (("Start", start), ("Minimum", self.heights.spec.minimum)):
            if place is not None:
                column, row = self._point(*place)
                wide = QFontMetricsF(font("caption")).horizontalAdvance(words) + 8
                left = column + 10 if column + 14 + wide < self.rect.right() else column - 10 - wide
                box = QRectF(left, row - 20, wide, 16)
                if self.rect.contains(box):
                    painter.setPen(Qt.PenStyle.NoPen)
                    painter.setBrush(alpha(self.theme.surface, 0.8))
                    painter.drawRoundedRect(box, 4, 4)
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    self._text(painter, box, words, self.theme.text2, _CENTRE)

    # ------------------------------------------------------------ axes
    def axes(self, painter: QPainter, labels: tuple[str, str], title: str) -> None:
        """Numbers at both axes, their names, the frame; without a list of runs the title above."""
        r = self.rect
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(self.theme.border), 1))
        painter.drawRect(r)
        used = -1e9
        name = QFontMetricsF(font("captionStrong")).horizontalAdvance(labels[0]) + 12
        for tick in linear_ticks(self.chart.x, max(int(r.width() // 80), 2)):
            at = self.chart.pixel(tick.at, 0.0)[0]
            wide = QFontMetricsF(font("caption")).horizontalAdvance(tick.text)
            if at - wide / 2 > used + 10 and at + wide / 2 < r.right() - name:
                used = at + wide / 2
                painter.setPen(QPen(QColor(self.theme.border), 1))
                painter.drawLine(QLineF(at, r.bottom(), at, r.bottom() + 4))
                self._text(painter, QRectF(at - 40, r.bottom() + 5, 80, 18), tick.text, self.theme.text3, _CENTRE)
        for tick in linear_ticks(self.chart.y, max(int(r.height() // 44), 2)):
            at = self.chart.pixel(0.0, tick.at)[1]
            painter.setPen(QPen(QColor(self.theme.border), 1))
            painter.drawLine(QLineF(r.left() - 4, at, r.left(), at))
            self._text(painter, QRectF(0, at - 9, r.left() - 7, 18), tick.text, self.theme.text3, _RIGHT)
        x_box, y_box = QRectF(r.right() - name, r.bottom() + 5, name, 18), QRectF(0, 0, r.left() - 7, TOP - 6)
        self._text(painter, x_box, labels[0], self.theme.text2, _RIGHT, strong=True)
        self._text(painter, y_box, labels[1], self.theme.text2, _RIGHT, strong=True)
        if not self.paper.gutter:
            self._text(painter, QRectF(r.left(), 0, r.width(), TOP - 6), title, self.theme.text, _LEFT, strong=True)
            self._small_scale(painter, QFontMetricsF(font("captionStrong")).horizontalAdvance(title) + 24)

    def note(self, painter: QPainter, text: str) -> None:
        """A sentence at the foot."""
        box = QRectF(LEFT, self.paper.height - NOTE, self.paper.width - LEFT - 8, NOTE - 2)
        shown = QFontMetricsF(font("caption")).elidedText(text, Qt.TextElideMode.ElideRight, box.width())
        self._text(painter, box, shown, self.theme.warn, _LEFT)

    def middle(self, painter: QPainter, text: str) -> None:
        """A sentence in the middle of the map."""
        wide = QFontMetricsF(font("caption")).horizontalAdvance(text) + 20
        box = QRectF(self.rect.center().x() - wide / 2, self.rect.center().y() - 13, wide, 26)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(alpha(self.theme.surface, 0.85))
        painter.drawRoundedRect(box, 6, 6)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        self._text(painter, box, text, self.theme.text2, _CENTRE)

    # ------------------------------------------------------------ gutter
    def gutter(
        self, painter: QPainter, title: str, label: str, heads: Sequence[PathHead], runs: Sequence[RunStyle]
    ) -> None:
        """Paints the title, the runs with the loss at their last step, and what the colours mean."""
        if not self.paper.gutter:
            return
        left, wide = self.rect.right() + 16, self.paper.gutter - 20
        self._text(painter, QRectF(left, TOP - 20, wide, 18), title, self.theme.text, _LEFT, strong=True)
        self._text(painter, QRectF(left, TOP - 2, wide, 18), f"{label} at the shown step", self.theme.text3, _LEFT)
        known = {head.run.run_id: head for head in heads}
        free = self.rect.height() - 24 - _SCALE
        high = ROW if len(runs) * ROW <= free else max(free / max(len(runs), 1), _DENSE)
        room = max(int(free // high), 1)
        shown = prominent(runs, room if len(runs) <= room else max(room - 1, 1))
        y = TOP + 20
        for run in shown:
            self._run(painter, QRectF(left, y, wide, high), run, known.get(run.run_id))
            y += high
        if len(shown) < len(runs):
            box = QRectF(left + 22, y, wide, high)
            self._text(painter, box, f"and {len(runs) - len(shown)} more", self.theme.text3, _LEFT)
        self._colours(painter, QRectF(left, self.rect.bottom() - _SCALE + 14, wide, _SCALE - 14), label)

    def _run(self, painter: QPainter, box: QRectF, run: RunStyle, head: PathHead | None) -> None:
        self.rows.append((box, run.run_id))
        swatch(painter, QRectF(box.left(), box.top(), 16, box.height()), self.theme, run.index)
        metrics = QFontMetricsF(font("captionStrong" if run.selected else "caption"))
        value = "–" if head is None or head.loss is None else value_text(head.loss)
        ink = self.theme.text if run.selected else self.theme.text2
        self._text(painter, box, value, ink, _RIGHT, strong=run.selected)
        name = QRectF(box.left() + 22, box.top(), box.width() - 30 - metrics.horizontalAdvance(value), box.height())
        shown = metrics.elidedText(run.label, Qt.TextElideMode.ElideRight, name.width())
        self._text(painter, name, shown, ink, _LEFT, strong=run.selected)

    def _small_scale(self, painter: QPainter, left: float) -> None:
        """The colours between the lowest and the highest contour's value, at the right of the title."""
        levels = [tick.text for tick in self.heights.levels if tick.text]
        if not levels:
            return
        metrics = QFontMetricsF(font("caption"))
        low, high = (metrics.horizontalAdvance(text) + 6 for text in (levels[0], levels[-1]))
        strip = min(self.rect.width() - left - low - high, 120.0)
        if strip >= 40:
            right = self.rect.right()
            self._text(painter, QRectF(right - high, 0, high, TOP - 6), levels[-1], self.theme.text3, _RIGHT)
            self._strip(painter, QRectF(right - high - strip, 4, strip, 10))
            box = QRectF(right - high - strip - low - 2, 0, low - 2, TOP - 6)
            self._text(painter, box, levels[0], self.theme.text3, _RIGHT)

    def _strip(self, painter: QPainter, box: QRectF) -> None:
        colours, count = inks(self.theme), len(self.heights.levels) + 1
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for k in range(count):
            ink = QColor(*_blend(colours.low, colours.high, k / (count - 1)))
            left, right = (round(box.left() + box.width() * part / count) for part in (k, k + 1))
            painter.fillRect(QRectF(left, box.top(), right - left, box.height()), ink)
        painter.setPen(QPen(QColor(self.theme.border), 1))
        painter.drawRect(QRectF(round(box.left()), box.top(), round(box.width()), box.height()))

    def _colours(self, painter: QPainter, box: QRectF, label: str) -> None:
        """A strip of the map's colours from low to high, with a few of the contours' values."""
        levels, count = self.heights.levels, len(self.heights.levels) + 1
        self._strip(painter, QRectF(box.left(), box.top(), box.width(), 10))
        used = -1e9
        for k, tick in enumerate(levels):
            at = box.left() + box.width() * (k + 1) / count
            wide = QFontMetricsF(font("caption")).horizontalAdvance(tick.text)
            decade = not self.heights.log or math.isclose(tick.at, round(tick.at), abs_tol=1e-9)
            if decade and tick.text and at - wide / 2 > used + 8 and at + wide / 2 < box.right() + 8:
                used = at + wide / 2
                painter.setPen(QPen(QColor(self.theme.border), 1))
                painter.drawLine(QLineF(at, box.top() + 10, at, box.top() + 13))
                self._text(painter, QRectF(at - 30, box.top() + 12, 60, 16), tick.text, self.theme.text3, _CENTRE)
        caption = f"{label} on the map"
        self._text(painter, QRectF(box.left(), box.top() - 18, box.width(), 16), caption, self.theme.text3, _LEFT)

    def _text(
        self, painter: QPainter, box: QRectF, text: str, ink: str, align: Qt.AlignmentFlag, strong: bool = False
    ) -> None:
        painter.setFont(font("captionStrong" if strong else "caption"))
        painter.setPen(QColor(ink))
        painter.drawText(box, align, text)

    # ------------------------------------------------------------ read-out
    def readout(self, painter: QPainter, at: QPointF, lines: Sequence[str], run: RunStyle | None) -> None:
        """A box beside a pixel; of a run it begins with the run's colour."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        strong, plain = QFontMetricsF(font("captionStrong")), QFontMetricsF(font("caption"))
        widths = [(strong if k == 0 else plain).horizontalAdvance(text) for k, text in enumerate(lines)]
        indent = 22.0 if run is not None else 0.0
        wide, high = max(widths) + 20 + indent, 10 + 17.0 * len(lines)
        left = at.x() + 14 if at.x() + 18 + wide < self.rect.right() else at.x() - 14 - wide
        top = min(max(at.y() - high - 10, self.rect.top() + 4), self.rect.bottom() - high - 4)
        painter.setPen(QPen(QColor(self.theme.border if self.theme.dark else self.theme.line), 1))
        painter.setBrush(QColor(self.theme.surface))
        painter.drawRoundedRect(QRectF(left + 0.5, top + 0.5, wide, high), 7, 7)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if run is not None:
            swatch(painter, QRectF(left + 10, top + 5, 14, 17), self.theme, run.index)
        for k, text in enumerate(lines):
            box = QRectF(left + 10 + indent, top + 5 + 17 * k, wide, 17)
            self._text(painter, box, text, self.theme.text if k == 0 else self.theme.text2, _LEFT, strong=k == 0)


def _blend(one: Colour, other: Colour, part: float) -> Colour:
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


def fitted(heights: Heights, box: Box) -> Chart:
    """The whole grid."""
    return Chart(box, Span(heights.x.low, heights.x.high), Span(heights.y.low, heights.y.high))
