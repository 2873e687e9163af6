"""Paints the Compare tab: curves with bands, a scatter, parallel coordinates. On the screen and into files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.layout import spread
from clew_gui.plotting.compare import CompareAxis, CompareGroup, CompareScene, Ink
from clew_gui.views.charts.files import picture, write_png, write_svg
from clew_gui.views.charts.painter import polygon
from clew_gui.views.plots.drawing.pixels import Frame
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import FontKind, Theme, font
from clew_shared.base.number_words import quantity

Page = Literal["curves", "scatter", "parallel"]
EMPTY: Final = "Runs that are ticked, or listed below, are compared here. Start two runs that differ in one setting."
_VIRIDIS: Final = ("#440154", "#414487", "#2A788E", "#22A884", "#7AD151", "#FDE725")
_PICTURE: Final = QSize(1000, 560)
_FOOT: Final = 40.0
_TOP: Final = 26.0
_GUTTER: Final = 236.0
_ROW: Final = 18.0
_NEAR: Final = 14.0
_MANY: Final = 40
"""The number of lines from which on they are drawn thin."""


def ink_pen(ink: Ink, theme: Theme, width: float) -> QPen:
    """Returns the pen for a group: a place on the scale, or a curve style whose dash tells repeated hues apart."""
    style = theme.curve(ink.style)
    pen = QPen(QColor(scale_colour(ink.place, theme) if ink.place is not None else style.colour), width)
    if ink.place is None and style.dash:
        pen.setDashPattern([length / width for length in style.dash])
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return pen


def scale_colour(place: float, theme: Theme) -> str:
    """A colour of viridis, without the end that would not be seen on the theme's ground. Source: Smith and van der
    Walt, matplotlib 2.0; its lightness rises evenly, also for the colour-blind."""
    low, high = (0.28, 1.0) if theme.dark else (0.0, 0.82)
    at = (low + (high - low) * min(max(place, 0.0), 1.0)) * (len(_VIRIDIS) - 1)
    first = min(int(at), len(_VIRIDIS) - 2)
    one, other, part = QColor(_VIRIDIS[first]), QColor(_VIRIDIS[first + 1]), at - first
    ends = ((one.redF(), other.redF()), (one.greenF(), other.greenF()), (one.blueF(), other.blueF()))
    red, green, blue = (a + (b - a) * part for a, b in ends)
    return QColor.fromRgbF(red, green, blue).name()


class CompareArt:
    """One page of a scene in a rectangle. ``chosen`` is the group that stands out, -1 for none."""

    def __init__(self, scene: CompareScene, page: Page, rect: QRectF, theme: Theme) -> None:
        self.scene, self.page, self.theme = scene, page, theme
        self.rect = rect
        left = 58.0 if page != "parallel" else 64.0
        gutter = min(_GUTTER, rect.width() * 0.36) if page == "curves" else 64.0 if page == "parallel" else 150.0
        self.area = rect.adjusted(left, _TOP, -gutter, -_FOOT)
        x, y = (scene.x, scene.y) if page == "curves" else scene.scatter
        self.frame = Frame(self.area, x.span, y.span)
        self._axes = (x, y)

    # --- Geometry -----------------------------------------------------------------------------------------------------

    def line(self, number: int) -> FloatArray:
        """The pixels of a group's line, n rows of x and y; none in a scatter."""
        if self.page == "parallel":
            return self._path(number)
        group = self.scene.groups[number]
        return self._pixels(group.x, group.y)

    def _pixels(self, x: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            heights = np.log10(y) if self.scene.y.log else y
        good = np.isfinite(heights)
        return np.column_stack([self.frame.px(x[good]), self.frame.py(heights[good])])

    def _path(self, number: int) -> FloatArray:
        spots = [
            (self.column(k), self._height(axis, float(value)))
            for k, (axis, value) in enumerate(zip(self.scene.parallel, self.scene.paths[number], strict=True))
            if math.isfinite(value)
        ]
        return np.array(spots, np.float64).reshape(-1, 2)

    def column(self, number: int) -> float:
        """The pixel column of a parallel axis."""
        return self.area.left() + self.area.width() * number / max(len(self.scene.parallel) - 1, 1)

    def _height(self, axis: CompareAxis, value: float) -> float:
        return self.area.bottom() - (value - axis.span.low) / axis.span.size * self.area.height()

    def nearest(self, place: QPointF) -> int:
        """The group that is nearest to a pixel; -1 if none is near."""
        best, found = _NEAR, -1
        for number, spots in self._spots():
            if spots.size:
                distance = _distance(spots, place.x(), place.y())
                if distance < best:
                    best, found = distance, number
        return found

    def _spots(self) -> list[tuple[int, FloatArray]]:
        if self.page == "scatter":
            at = [(one.group, self.frame.at(one.x, one.y)) for one in self.scene.places]
            return [(group, np.array([[spot.x(), spot.y()]])) for group, spot in at]
        return [(number, self.line(number)) for number in range(len(self.scene.groups))]

    # --- Painting -----------------------------------------------------------------------------------------------------

    def paint(self, painter: QPainter) -> None:
        """Paints everything but the group that stands out."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.scene.groups:
            self._text(painter, self.rect, EMPTY, "body", self.theme.text2, Qt.AlignmentFlag.AlignCenter)
            return
        if self.page == "parallel":
            self._parallel_axes(painter)
        else:
            self._axes_of(painter)
        numbers = range(len(self.scene.groups))
        for number in sorted(numbers, key=lambda k: self.scene.groups[k].baseline):
            self._group(painter, number, 0.8 if len(numbers) > _MANY else 1.7)
        if self.page == "curves":
            self._names(painter)
        elif self.page == "parallel":
            self._parallel_ticks(painter)
        self._legend(painter)

    def lift(self, painter: QPainter, number: int) -> None:
        """Draws the group that stands out, over a veil."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(self.theme.surface)
        veil.setAlphaF(0.55)
        painter.fillRect(self.area.adjusted(-4, -4, 4, 4), veil)
        self._group(painter, number, 3.0)
        self._say(painter, number)

    def _group(self, painter: QPainter, number: int, width: float) -> None:
        group = self.scene.groups[number]
        pen = ink_pen(group.ink, self.theme, width + (0.9 if group.baseline else 0.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if self.page == "scatter":
            self._dots(painter, number, pen.color(), width)
            return
        painter.save()
        painter.setClipRect(self.area.adjusted(-3, -3, 3, 3))
        if group.band is not None and self.page == "curves":
            self._band(painter, group, pen.color())
        line = self.line(number)
        painter.setPen(pen)
        painter.drawPolyline(polygon(line[:, 0], line[:, 1]))
        painter.restore()

    def _band(self, painter: QPainter, group: CompareGroup, colour: QColor) -> None:
        if group.band is None:
            return
        floor = 10.0**self.scene.y.span.low if self.scene.y.log else -math.inf
        low = self._pixels(group.x, np.maximum(group.y - group.band.deviation, floor))
        high = self._pixels(group.x, group.y + group.band.deviation)
        both = np.concatenate([low, high[::-1]])
        colour = QColor(colour)
        colour.setAlphaF(0.18)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawPolygon(polygon(both[:, 0], both[:, 1]))
        painter.setBrush(Qt.BrushStyle.NoBrush)

    def _dots(self, painter: QPainter, number: int, colour: QColor, width: float) -> None:
        group = self.scene.groups[number]
        size = 4.6 if width < 2.5 else 7.0
        for one in self.scene.places:
            if one.group != number:
                continue
            at = self.frame.at(one.x, one.y)
            if group.outcome.deviation and not self._axes[1].log:
                ends = [self.frame.row(one.y + side * group.outcome.deviation) for side in (-1, 1)]
                ends = [min(max(end, self.area.top()), self.area.bottom()) for end in ends]
                painter.setPen(QPen(colour, 1.4))
                painter.drawLine(QPointF(at.x(), ends[0]), QPointF(at.x(), ends[1]))
            painter.setPen(QPen(QColor(self.theme.surface), 1.2))
            painter.setBrush(colour)
            if group.baseline:
                painter.drawRect(QRectF(at.x() - size, at.y() - size, 2 * size, 2 * size))
            else:
                painter.drawEllipse(at, size, size)
            painter.setBrush(Qt.BrushStyle.NoBrush)

    def _axes_of(self, painter: QPainter) -> None:
        x, y = self._axes
        theme, area = self.theme, self.area
        for tick in y.ticks:
            row = self.frame.row(tick.at)
            painter.setPen(QPen(QColor(theme.grid), 1))
            painter.drawLine(QPointF(area.left(), row), QPointF(area.right(), row))
            box = QRectF(self.rect.left(), row - 10, area.left() - self.rect.left() - 8, 20)
            self._text(painter, box, tick.text, "caption", theme.text3, Qt.AlignmentFlag.AlignRight | _MIDDLE)
        painter.setPen(QPen(QColor(theme.line), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        for tick in x.ticks:
            column = self.frame.column(tick.at)
            box = QRectF(column - 60, area.bottom() + 4, 120, 18)
            self._text(painter, box, tick.text, "caption", theme.text3, Qt.AlignmentFlag.AlignHCenter)
        title = y.title + (", log scale" if y.log else "")
        self._text(painter, QRectF(self.rect.left() + 8, self.rect.top(), 400, 20), title, "strong", theme.text)
        below = QRectF(area.left(), area.bottom() + 21, area.width(), 18)
        self._text(painter, below, x.title + (", log scale" if x.log else ""), "caption", theme.text2, _CENTRE)

    def _parallel_axes(self, painter: QPainter) -> None:
        axes, theme = self.scene.parallel, self.theme
        wide = self.area.width() / max(len(axes) - 1, 1)
        for number, axis in enumerate(axes):
            column = self.column(number)
            painter.setPen(QPen(QColor(theme.border), 1))
            painter.drawLine(QPointF(column, self.area.top()), QPointF(column, self.area.bottom()))
            head = QRectF(column - wide / 2, self.rect.top(), wide, 22)
            self._text(painter, head, axis.title, "captionStrong", theme.text, _CENTRE)

    def _parallel_ticks(self, painter: QPainter) -> None:
        """Draws the tick labels over the lines on their own background, because all lines of a value go through its
        label."""
        metrics = QFontMetricsF(font("caption"))
        ground = QColor(self.theme.surface)
        ground.setAlphaF(0.85)
        for number, axis in enumerate(self.scene.parallel):
            for tick in axis.ticks:
                wide = min(metrics.horizontalAdvance(tick.text), 57.0)
                box = QRectF(self.column(number) - 5 - wide, self._height(axis, tick.at) - 8, wide, 16)
                painter.fillRect(box.adjusted(-2, 0, 2, 0), ground)
                self._text(painter, box.adjusted(-1, 0, 1, 0), tick.text, "caption", self.theme.text2)

    def _names(self, painter: QPainter) -> None:
        """Writes the names of as many lines as there is room for, the baseline and the best first; the table has
        all."""
        room = int(self.area.height() // _ROW)
        order = self._by_merit()
        shown = order if len(order) <= room else order[: max(room - 1, 0)]
        lines = {number: self.line(number) for number in shown}
        ends = {number: line[-1] for number, line in lines.items() if line.size}
        rows = spread([float(ends[n][1]) for n in ends], _ROW, self.area.top(), self.area.bottom() - _ROW / 2)
        start = self.area.right() + 12
        for number, row in zip(ends, rows, strict=True):
            group = self.scene.groups[number]
            pen = ink_pen(group.ink, self.theme, 2.0)
            painter.setPen(pen)
            painter.drawLine(QPointF(start, row), QPointF(start + 16, row))
            value = "" if group.outcome.best is None else quantity(group.outcome.best, self.scene.metric.format)
            wide = QFontMetricsF(font("caption")).horizontalAdvance(value)
            name = QRectF(start + 22, row - 9, self.rect.right() - start - 34 - wide, 18)
            self._text(painter, name, group.title, "captionStrong" if group.baseline else "caption", self.theme.text)
            right = QRectF(start, row - 9, self.rect.right() - start - 6, 18)
            self._text(painter, right, value, "caption", self.theme.text2, Qt.AlignmentFlag.AlignRight | _MIDDLE)
        if len(shown) < len(order):
            rest = QRectF(start, self.area.bottom() + 2, self.rect.right() - start, 18)
            self._text(painter, rest, f"{len(order) - len(shown)} more in the table", "caption", self.theme.text3)

    def _by_merit(self) -> list[int]:
        """The groups, the baseline first, then by their best value."""
        sign = -1.0 if self.scene.metric.better == "higher" else 1.0

        def order(number: int) -> tuple[bool, float]:
            group = self.scene.groups[number]
            best = group.outcome.best
            return not group.baseline, sign * best if best is not None else math.inf

        return sorted((n for n in range(len(self.scene.groups)) if self.scene.groups[n].x.size), key=order)

    def _legend(self, painter: QPainter) -> None:
        """Draws the legend of the colours, in a line at the top; in a scatter plot beside it."""
        if not self.scene.legend:
            return
        metrics = QFontMetricsF(font("caption"))
        beside = self.page == "scatter"
        x = self.area.right() + 14 if beside else self.rect.right() - 6 - self._legend_width(metrics)
        y = self.area.top() if beside else self.rect.top() + (10 if self.page == "curves" else self.rect.height() - 12)
        for ink, text in ((None, self.scene.coloured_by), *self.scene.legend):
            if ink is not None:
                painter.setPen(ink_pen(ink, self.theme, 3.0))
                painter.drawLine(QPointF(x, y), QPointF(x + 14, y))
            at = x + (20 if ink is not None else 0)
            self._text(painter, QRectF(at, y - 9, 400, 18), text, "caption", self.theme.text2)
            x, y = (x, y + 18) if beside else (at + metrics.horizontalAdvance(text) + 12, y)

    def _legend_width(self, metrics: QFontMetricsF) -> float:
        texts = [self.scene.coloured_by, *(text for _, text in self.scene.legend)]
        return sum(metrics.horizontalAdvance(text) + 32 for text in texts) - 20

    def _say(self, painter: QPainter, number: int) -> None:
        """Shows name, values and result of a group, in a box in the corner that covers least."""
        words = self.words(number)
        wide = max(QFontMetricsF(font("captionStrong")).horizontalAdvance(text) for text in words) + 24
        box = QRectF(self.area.right() - wide - 6, self.area.top() + 6, wide, _ROW * len(words) + 10)
        painter.setPen(QPen(QColor(self.theme.border), 1))
        painter.setBrush(QColor(self.theme.surface))
        painter.drawRoundedRect(box, 6, 6)
        for row, text in enumerate(words):
            line = QRectF(box.left() + 10, box.top() + 5 + row * _ROW, wide, _ROW)
            self._text(painter, line, text, "captionStrong" if row == 0 else "caption", self.theme.text)

    def words(self, number: int) -> list[str]:
        """The lines of the box about a group."""
        heads, cells = self.scene.table[0], self.scene.table[number + 1]
        pairs = (f"{head}: {cell}" for head, cell in zip(heads[1:], cells[1:], strict=True) if cell)
        return [f"Run {self.scene.groups[number].title}", *pairs]

    def _text(
        self, painter: QPainter, box: QRectF, text: str, kind: FontKind, ink: str, align: Qt.AlignmentFlag | None = None
    ) -> None:
        used = font(kind)
        painter.setFont(used)
        painter.setPen(QColor(ink))
        side = align if align is not None else Qt.AlignmentFlag.AlignLeft | _MIDDLE
        flags = side | Qt.TextFlag.TextWordWrap if box.height() > 60 else side
        short = (
            QFontMetricsF(used).elidedText(text, Qt.TextElideMode.ElideRight, box.width()) if flags == side else text
        )
        painter.drawText(box, flags, short)


_MIDDLE = Qt.AlignmentFlag.AlignVCenter
_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter


def _distance(spots: FloatArray, x: float, y: float) -> float:
    """Returns the distance from a pixel to a polyline, or to a single point."""
    start, end = spots[:-1], spots[1:]
    if not start.size:
        return float(np.hypot(spots[0, 0] - x, spots[0, 1] - y))
    along = end - start
    length = np.maximum((along**2).sum(axis=1), 1e-12)
    part = np.clip(((x - start[:, 0]) * along[:, 0] + (y - start[:, 1]) * along[:, 1]) / length, 0, 1)
    gap = np.hypot(start[:, 0] + part * along[:, 0] - x, start[:, 1] + part * along[:, 1] - y)
    return float(gap.min())


class CompareCanvas(QWidget):
    """The picture of a scene. It is painted once; what stands out under the pointer lies over it."""

    group_chosen = Signal(int)
    pointed = Signal(int)
    """The group under the pointer, -1 for none."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.scene: CompareScene | None = None
        self.page: Page = "curves"
        self._lifted = -1
        self._picture: QPixmap | None = None
        self._art: CompareArt | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(170)
        self.setMouseTracking(True)
        self.setAccessibleName("Comparison")

    def show_scene(self, scene: CompareScene, page: Page) -> None:
        """Show another picture."""
        self.scene, self.page, self._lifted = scene, page, -1
        rows = "; ".join(", ".join(row) for row in scene.table[1:8])
        self.setAccessibleDescription(f"{len(scene.groups)} groups of runs. {rows}")
        self._renew()

    def lift(self, number: int) -> None:
        """Let a group stand out; -1 for none."""
        if number != self._lifted:
            self._lifted = number
            self.update()

    def _renew(self) -> None:
        self._picture = self._art = None
        self.update()

    def retheme(self) -> None:
        """Paint again."""
        self._renew()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Draws the picture again in the new size."""
        super().resizeEvent(event)
        self._renew()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paints the kept picture, and the group that stands out."""
        if self.scene is None:
            return
        art = self.art(self.scene)
        if self._picture is None:
            ratio = self.devicePixelRatioF()
            self._picture = QPixmap(self.size() * ratio)
            self._picture.setDevicePixelRatio(ratio)
            self._picture.fill(Qt.GlobalColor.transparent)
            painter = QPainter(self._picture)
            art.paint(painter)
            painter.end()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        if 0 <= self._lifted < len(self.scene.groups):
            art.lift(painter, self._lifted)
        painter.end()

    def art(self, scene: CompareScene) -> CompareArt:
        """Returns the layout of the scene, made when it is first needed."""
        if self._art is None:
            self._art = CompareArt(scene, self.page, QRectF(self.rect()), self._appearance.theme)
        return self._art

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Lift what is under the pointer."""
        if self.scene is not None:
            found = self.art(self.scene).nearest(event.position())
            self.lift(found)
            self.pointed.emit(found)

    def leaveEvent(self, event: QEvent) -> None:
        """Lets no group stand out any more."""
        super().leaveEvent(event)
        self.lift(-1)
        self.pointed.emit(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the group under the pointer."""
        if self.scene is not None and event.button() == Qt.MouseButton.LeftButton:
            found = self.art(self.scene).nearest(event.position())
            if found >= 0:
                self.group_chosen.emit(found)


# --- Files ------------------------------------------------------------------------------------------------------------


def save_picture(kind: str, path: Path, scene: CompareScene, page: Page, title: str, theme: Theme, dpi: int) -> None:
    """Write "png" or "svg". Raises ``ProblemError`` where that cannot be done."""

    def paint(painter: QPainter) -> None:
        whole = QRectF(0, 0, _PICTURE.width(), _PICTURE.height())
        painter.fillRect(whole, QColor(theme.surface))
        painter.setFont(font("subtitle"))
        painter.setPen(QColor(theme.text))
        painter.drawText(QRectF(16, 8, whole.width() - 32, 24), Qt.AlignmentFlag.AlignLeft, title)
        CompareArt(scene, page, whole.adjusted(8, 40, -8, -8), theme).paint(painter)

    if kind == "svg":
        write_svg(path, _PICTURE, dpi, title, table_text(scene.table, "; "), paint)
    else:
        write_png(path, picture(_PICTURE, 2.0, paint))


def table_text(table: Sequence[Sequence[str]], between: str) -> str:
    """The table as lines."""
    return "\n".join(between.join(row) for row in table)
