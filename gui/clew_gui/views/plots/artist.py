"""Paints a scene with QPainter: on the screen in two layers, into files in one.

Widths are logical pixels. A translucent polyline takes QPainter twenty times as long as an opaque one, so on the screen
each raw curve is painted opaque into a layer of its own, and the layer is laid down translucent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPixmap, QPolygonF

from clew_gui.plotting.clip import clip_lines
from clew_gui.plotting.layout import Box, emptiest
from clew_gui.plotting.model import RunStyle
from clew_gui.plotting.numbers import value_text
from clew_gui.plotting.pyramid import FloatArray
from clew_gui.plotting.readout import x_text
from clew_gui.plotting.scene import Drawn, PlotScene, Scene
from clew_gui.views.plots import marks
from clew_gui.views.plots.axes import heading, key, paint_axes
from clew_gui.views.plots.geometry import Frame, Stack, polygon
from clew_gui.views.plots.gutter import Gutter, Label
from clew_gui.views.theme import Theme, alpha, font

RUN_WIDTH: Final = 1.8
LIFTED_WIDTH: Final = 2.2
OTHER_WIDTH: Final = 1.2
_MARKED: Final = 90  # sparse curves with at most this many points in sight show each of them


class Artist:
    """Paints one scene into one stack of rectangles."""

    def __init__(
        self, scene: Scene, stack: Stack, theme: Theme, lifted: str = "", vector: bool = False, unit_label: str = ""
    ) -> None:
        self.scene = scene
        self.stack = stack
        self.theme = theme
        self._lifted = lifted
        self._vector = vector
        self._unit_label = unit_label
        self._caption = font("caption")
        self._metrics = QFontMetricsF(self._caption)
        self.frames = tuple(
            Frame(rect, scene.grid.span, plot.span) for rect, plot in zip(stack.plots, scene.plots, strict=True)
        )
        self.gutters: list[Gutter] = []

    # ------------------------------------------------------------ layers
    def still(self, painter: QPainter) -> None:
        """The ground, axes and the curves of runs that do not move any more."""
        painter.fillRect(QRectF(0, 0, self.stack.width, self.stack.height), QColor(self.theme.surface))
        paint_axes(painter, self.scene, self.stack, self.frames, self.theme, self._unit_label)
        for plot, frame in zip(self.scene.plots, self.frames, strict=True):
            self._curves(painter, plot, frame, [d for d in plot.curves if not d.run.live])
            if plot.ghost is not None:
                self._ghost(painter, plot, frame)

    def moving(self, painter: QPainter) -> None:
        """Everything that may change with each point: live curves, marks, goals, events, the gutter."""
        for plot, frame in zip(self.scene.plots, self.frames, strict=True):
            self._goals(painter, plot, frame)
        self._events(painter)
        self.gutters = []
        for plot, frame in zip(self.scene.plots, self.frames, strict=True):
            self._curves(painter, plot, frame, [d for d in plot.curves if d.run.live])
            self._ends(painter, plot, frame)
            self._broken(painter, plot, frame)
            if self.stack.gutter:
                gutter = Gutter(QRectF(frame.rect.right(), frame.rect.top(), self.stack.gutter, frame.rect.height()))
                gutter.place(self._labels(plot, frame), key(plot))
                gutter.paint(painter, self.theme, heading(plot), key(plot))
                self.gutters.append(gutter)
        self._event_sentences(painter)
        self._notes(painter)
        if self.scene.empty and not any(plot.ghost is not None for plot in self.scene.plots):
            self._write(
                painter, self.stack.area, "The curves appear here with the run's first values.", self.theme.text3
            )

    # ------------------------------------------------------------ curves
    def _curves(self, painter: QPainter, plot: PlotScene, frame: Frame, drawn: Sequence[Drawn]) -> None:
        for item in drawn:
            if item.curve.raw_x.size:
                self._raw(painter, frame, item)
        painter.save()
        painter.setClipRect(frame.rect.adjusted(0, -1, 0, 1))
        for item in drawn:
            self._line(painter, frame, item)
        painter.restore()
        for item in drawn:
            self._beyond(painter, plot, frame, item)

    def _colour(self, run: RunStyle) -> QColor:
        return QColor(self.theme.curve(run.index).colour)

    def _stands_out(self, run: RunStyle) -> bool:
        return run.selected or run.run_id == self._lifted

    def _raw(self, painter: QPainter, frame: Frame, item: Drawn) -> None:
        x, y = _until_gone(item.curve.raw_x, item.curve.raw_y, frame)
        line = polygon(x, y)
        opacity = (0.26 if self.theme.dark else 0.20) * (1.0 if item.headline and self._alone(item) else 0.6)

        def draw(to: QPainter, colour: QColor) -> None:
            to.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            to.setPen(QPen(colour, 1))
            to.drawPolyline(line)

        if self._vector:
            painter.setPen(QPen(alpha(self._colour(item.run).name(), opacity), 1))
            self._polyline(painter, frame, x, y)
        else:
            self._layered(painter, frame.rect, opacity, lambda to: draw(to, self._colour(item.run)))

    def _alone(self, item: Drawn) -> bool:
        """Whether this raw curve may be plain to see; of several, only that of a run that stands out."""
        return self._stands_out(item.run) or len(self.scene.runs) == 1

    def _layered(self, painter: QPainter, rect: QRectF, opacity: float, draw: Callable[[QPainter], None]) -> None:
        ratio = painter.device().devicePixelRatioF()
        left, top = np.floor(rect.left()), np.floor(rect.top())
        layer = QPixmap(round((rect.right() - left + 1) * ratio), round((rect.bottom() - top + 1) * ratio))
        layer.setDevicePixelRatio(ratio)
        layer.fill(Qt.GlobalColor.transparent)
        to = QPainter(layer)
        to.translate(-left, -top)
        draw(to)
        to.end()
        painter.setOpacity(opacity)
        painter.drawPixmap(QPointF(left, top), layer)
        painter.setOpacity(1.0)

    def _line(self, painter: QPainter, frame: Frame, item: Drawn) -> None:
        curve, look = item.curve, self.theme.curve(item.run.index)
        if not curve.x.size:
            return
        lifted = self._stands_out(item.run)
        width = LIFTED_WIDTH if lifted else RUN_WIDTH
        if not item.headline or (curve.noisy and curve.exact):
            width = OTHER_WIDTH
        if curve.bands or (self.scene.many and not lifted):
            width = 1.0
        colour = self._colour(item.run)
        if not item.headline:
            colour.setAlphaF(0.6)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, width != 1.0 or not self.scene.many)
        painter.setPen(dashed(QPen(colour, width), look.dash))
        x, y = _until_gone(curve.x, curve.y, frame)
        self._polyline(painter, frame, x, y)
        if curve.sparse:
            self._points(painter, frame, item, x, y)

    def _polyline(self, painter: QPainter, frame: Frame, x: FloatArray, y: FloatArray) -> None:
        if not self._vector:
            painter.drawPolyline(polygon(x, y))
            return
        r = frame.rect  # a QSvgGenerator does not clip
        for piece_x, piece_y in clip_lines(x, y, Box(r.left(), r.top() - 1, r.width(), r.height() + 2)):
            painter.drawPolyline(polygon(piece_x, piece_y))

    def _points(self, painter: QPainter, frame: Frame, item: Drawn, x: FloatArray, y: FloatArray) -> None:
        inside = (x >= frame.rect.left() - 1) & (x <= frame.rect.right() + 1)
        inside &= (y >= frame.rect.top() - 1) & (y <= frame.rect.bottom() + 1)
        if np.count_nonzero(inside) > min(_MARKED, frame.rect.width() / 9):
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour(item.run))
        radius = 2.8 if item.headline and not self.scene.many else 2.0
        for px, py in zip(x[inside].tolist(), y[inside].tolist(), strict=True):
            painter.drawEllipse(QPointF(px, py), radius, radius)
        painter.setBrush(Qt.BrushStyle.NoBrush)

    def _beyond(self, painter: QPainter, plot: PlotScene, frame: Frame, item: Drawn) -> None:
        """No spike is lost: strokes at the border where raw values lie far outside though the line is in sight."""
        curve, far = item.curve, 0.5 * plot.span.size
        if not curve.raw_x.size or not curve.x.size:
            return
        main = np.interp(curve.raw_x, curve.x, curve.y)
        seen = (main >= plot.span.low) & (main <= plot.span.high)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(self._colour(item.run), 1))
        for outside, y, end in (
            (curve.raw_y > plot.span.high + far, frame.rect.top(), frame.rect.top() - 4),
            (curve.raw_y < plot.span.low - far, frame.rect.bottom(), frame.rect.bottom() + 4),
        ):
            columns = np.unique(np.round(frame.px(curve.raw_x[seen & outside]))).tolist()
            painter.drawLines([QLineF(x, y, x, end) for x in columns if frame.rect.left() <= x <= frame.rect.right()])

    def _ends(self, painter: QPainter, plot: PlotScene, frame: Frame) -> None:
        for item in plot.curves:
            end = item.curve.end
            if not item.headline or end is None:
                continue
            point = frame.at(*end)
            inside = item.curve.ends and frame.rect.adjusted(-1, -1, 1, 1).contains(point)
            colour = self._colour(item.run)
            if inside and point.x() < frame.rect.right() - 8:
                marks.leader(painter, point, frame.rect.right(), colour, live=item.run.live and not item.run.stale)
            if inside and (item.run.live or self._stands_out(item.run)):
                marks.dot(painter, point, colour, self.theme, hollow=item.run.stale)
            if item.curve.best is not None and self._stands_out(item.run):
                best = frame.at(*item.curve.best)
                if frame.rect.contains(best) and (best - point).manhattanLength() > 12:
                    marks.star(painter, best, colour, self.theme)

    def _broken(self, painter: QPainter, plot: PlotScene, frame: Frame) -> None:
        """Say where a curve stopped being a number."""
        for item in plot.curves:
            if item.curve.bad_x is None or not item.headline:
                continue
            x = frame.column(item.curve.bad_x)
            if not frame.rect.left() <= x <= frame.rect.right():
                continue
            before = item.curve.at(item.curve.bad_x) or item.curve.end
            y = frame.row(before[1]) if before is not None else frame.rect.center().y()
            y = min(max(y, frame.rect.top() + 8), frame.rect.bottom() - 8)
            marks.cross(painter, QPointF(x, y), self.theme)
            where = x_text(self.scene.x_value(item.curve.bad_x), self.scene.grid.unit)
            text = f"NaN at {where[0].lower()}{where[1:]}"
            self._sentence(painter, QPointF(x + 9, y), text, self.theme.bad, frame.rect)

    def points_of(self, index: int, step: int = 4) -> FloatArray:
        """Pixels of the main lines of one plot, to keep labels off them."""
        frame = self.frames[index]
        parts = [np.empty((0, 2))]
        for item in self.scene.plots[index].curves:
            x, y = frame.px(item.curve.x[::step]), frame.py(item.curve.y[::step])
            parts.append(np.column_stack((x, y)))
        return np.concatenate(parts)

    # ------------------------------------------------------------ goals, ghost, events
    def _goals(self, painter: QPainter, plot: PlotScene, frame: Frame) -> None:
        for goal in plot.setup.goals:
            if plot.log and goal.value <= 0:
                continue
            at = float(np.log10(goal.value)) if plot.log else goal.value
            if not plot.span.low <= at <= plot.span.high:
                continue
            y, r = frame.row(at), frame.rect
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            painter.setPen(dashed(QPen(QColor(self.theme.ok), 1.4), (5, 4)))
            painter.drawLine(QLineF(r.left(), y, r.right(), y))
            text = f"Goal {value_text(goal.value, plot.setup.format)}"
            wide = self._metrics.horizontalAdvance(text) + 8
            spots = [Box(x, y + dy, wide, 17) for x in (r.right() - wide - 20, r.left() + 12) for dy in (3, -20)]
            room = Box(r.left(), r.top(), r.width(), r.height())
            chosen = emptiest(spots, self.points_of(self.frames.index(frame)), room)
            if chosen >= 0:
                spot = spots[chosen]
                box = QRectF(spot.x, spot.y, spot.width, spot.height)
                painter.fillRect(box, alpha(self.theme.surface, 0.85))
                self._write(painter, box, text, self.theme.ok)

    def _ghost(self, painter: QPainter, plot: PlotScene, frame: Frame) -> None:
        if plot.ghost is None or not plot.ghost[0].size:
            return
        x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
        painter.save()
        painter.setClipRect(frame.rect)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(dashed(QPen(QColor(self.theme.border), 1.6), (5, 5)))
        self._polyline(painter, frame, x, y)
        painter.restore()
        text = plot.setup.ghost.text if plot.setup.ghost is not None else ""
        wide = self._metrics.horizontalAdvance(text) + 6
        dense = np.linspace(x.min(), x.max(), 400)
        line = np.column_stack((dense, np.interp(dense, x, y)))
        spots = []
        for part in (0.62, 0.5, 0.38, 0.25):
            left = frame.rect.left() + part * frame.rect.width()
            height = float(np.interp(left, x, y))
            spots += [Box(left, height - 34, wide, 18), Box(left, height + 16, wide, 18)]
        r = frame.rect
        chosen = emptiest(spots, line, Box(r.left(), r.top(), r.width(), r.height()))
        if chosen >= 0 and text:
            spot = spots[chosen]
            self._write(painter, QRectF(spot.x, spot.y, spot.width, spot.height), text, self.theme.text3)

    def _events(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for event, x in self.scene.events:
            ink = self.theme.bad if event.bad else self.theme.text3
            painter.setPen(dashed(QPen(QColor(ink), 1), (2, 3)))
            for frame in self.frames:
                column = round(frame.column(x))
                if frame.rect.left() <= column <= frame.rect.right():
                    painter.drawLine(QLineF(column, frame.rect.top(), column, frame.rect.bottom()))

    def _event_sentences(self, painter: QPainter) -> None:
        if not self.frames:
            return
        foot, used = self.frames[-1].rect, -1e9
        for event, x in self.scene.events:
            column = self.frames[-1].column(x)
            if not foot.left() <= column <= foot.right():
                continue
            for plot, frame in zip(self.scene.plots, self.frames, strict=True):
                curve = plot.headline(event.run_id)
                point = curve.at(x) if curve is not None else None
                if point is not None and frame.rect.contains(frame.at(x, point[1])):
                    style = next(d.run for d in plot.curves if d.run.run_id == event.run_id)
                    marks.diamond(painter, frame.at(x, point[1]), self._colour(style), self.theme)
            if column - used >= 90:
                ink = self.theme.bad if event.bad else self.theme.text2
                self._sentence(painter, QPointF(column + 4, foot.bottom() - 11), event.text, ink, foot)
                used = column

    def _notes(self, painter: QPainter) -> None:
        if self.scene.notes and self.frames:
            r = self.frames[-1].rect
            box = QRectF(r.left(), self.stack.height - 18, self.stack.width - r.left() - 8, 16)
            text = self._metrics.elidedText(" ".join(self.scene.notes), Qt.TextElideMode.ElideRight, box.width())
            self._write(painter, box, text, self.theme.warn, Qt.AlignmentFlag.AlignLeft)

    # ------------------------------------------------------------ text
    def _sentence(self, painter: QPainter, at: QPointF, text: str, ink: str, inside: QRectF) -> None:
        wide = self._metrics.horizontalAdvance(text) + 4
        left = at.x() if at.x() + wide <= inside.right() else at.x() - wide - 12
        box = QRectF(max(left, inside.left()), at.y() - 9, wide, 18)
        painter.fillRect(box, alpha(self.theme.surface, 0.85))
        self._write(painter, box, text, ink, Qt.AlignmentFlag.AlignLeft)

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
            if x > self.scene.grid.span.high:  # the view is zoomed: what stands at its right border counts
                x, y = item.curve.at(self.scene.grid.span.high) or end
            broken = item.curve.bad_x is not None and x < item.curve.bad_x
            labels.append(
                Label(
                    run=item.run,
                    at=min(max(frame.row(y), frame.rect.top()), frame.rect.bottom()),
                    seen=plot.span.low <= y <= plot.span.high,
                    value="NaN" if broken else value_text(plot.value(y), plot.setup.format),
                    colour=self._colour(item.run),
                    strong=self._stands_out(item.run),
                    bad=broken,
                )
            )
        return labels


def _until_gone(x: FloatArray, y: FloatArray, frame: Frame) -> tuple[FloatArray, FloatArray]:
    """The pixels of a line up to where it left the plot for good and far, so that a diverged run hides no other."""
    middle = 0.5 * (frame.y.low + frame.y.high)
    near = np.flatnonzero(np.abs(y - middle) <= 20 * frame.y.size)
    end = int(near[-1]) + 2 if near.size else 0
    return frame.px(x[:end]), frame.py(y[:end])


def dashed(pen: QPen, dash: Sequence[float]) -> QPen:
    """The pen with a dash pattern in pixels; Qt counts in pen widths."""
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if dash:
        pen.setDashPattern([part / pen.widthF() for part in dash])
    return pen


def swatch(painter: QPainter, box: QRectF, theme: Theme, index: int) -> None:
    """A short piece of a run's line, for tables and read-outs."""
    look = theme.curve(index)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(dashed(QPen(QColor(look.colour), 2.4), look.dash))
    painter.drawPolyline(QPolygonF([QPointF(box.left(), box.center().y()), QPointF(box.right(), box.center().y())]))
