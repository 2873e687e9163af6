"""The widget of a loss surface: map, paths and words, drawn when something changed and someone can see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPointF, QSize, QTimer
from PySide6.QtGui import QColor, QHideEvent, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QWidget

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.surface import Sheet, SurfaceChart, map_pixels, sheet, whole_map
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.loss_surface import Heights
from clew_gui.views.charts.painter import SIZES, image_of, paint, rect_of
from clew_gui.views.plots.drawn_widget import DrawnWidget
from clew_gui.views.plots.surface.paths import Paths
from clew_gui.views.plots.surface.reader import Reading, SurfaceReader
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import MetricSpec, SurfaceSpec

_PIXELS: Final = 700_000
"""Most pixels that the map is worked out for; a finer screen gets them enlarged."""
_FINE_MS: Final = 150


class SurfaceCanvas(DrawnWidget):
    """Shows one surface. The map is worked out when what is visible changes, never because points arrive."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__("Loss surface", appearance, parent)
        self._heights: Heights | None = None
        self._labels: dict[str, str] = {}
        self._zoom: tuple[Span, Span] | None = None
        self.paths = Paths()
        """The drawn part of each run's path."""
        self._ground = QPixmap()
        self._ground_key: tuple[object, ...] = ()
        self.drawn: SurfaceChart | None = None
        """The picture as it was drawn last."""
        self._hover: QPointF | None = None
        self.walked: int | None = None
        """The point of the selected run's path that the arrow keys have reached."""
        self._coarse = self._ring = False
        self._listed = True
        self.maps_made = 0
        """The number of times that the map was computed."""
        self._fine = QTimer(self)
        self._fine.setSingleShot(True)
        self._fine.timeout.connect(self._refine)

    # ------------------------------------------------------------ what is shown
    @property
    def spec(self) -> SurfaceSpec | None:
        """The surface that is shown."""
        return self._heights.spec if self._heights is not None else None

    @property
    def settled(self) -> bool:
        """Whether neither a frame nor a finer map is on its way."""
        return super().settled and not self._fine.isActive()

    def set_surface(self, spec: SurfaceSpec | None, metrics: Sequence[MetricSpec] = ()) -> None:
        """Show this surface; ``metrics`` has the labels of its axes."""
        self._heights = Heights(spec) if spec is not None else None
        self._labels = {metric.name: metric.label for metric in metrics}
        self.paths.set_metrics(spec.metrics if spec is not None else ("", ""))
        self._zoom = self.walked = None
        self._ground_key = ()
        self.setAccessibleName(spec.title if spec is not None else "Loss surface")
        self._redraw()

    def list_runs(self, on: bool) -> None:
        """Whether to list the runs beside the map, if there is room."""
        self._listed = on
        self._redraw()

    # ------------------------------------------------------------ geometry
    @property
    def frame(self) -> Frame | None:
        """Returns the visible part of the surface, and where it is."""
        return self._frame(self._sheet()) if self._heights is not None else None

    def _sheet(self) -> Sheet:
        return sheet(self.width(), self.height(), self._listed)

    def _frame(self, paper: Sheet) -> Frame | None:
        if self._heights is None:
            return None
        whole = whole_map(self._heights, paper.box)
        return whole if self._zoom is None else Frame(paper.box, *self._zoom)

    # ------------------------------------------------------------ frames
    def _advance(self) -> None:
        """Draw what is new of every path onto what is there."""
        self._timer.stop()
        frame = self.frame
        if frame is None or self._heights is None:
            self.update()
            return
        self._show_ground(frame)
        self.paths.show(frame, self._runs, self._theme, self.size(), self.devicePixelRatioF())
        self._describe(self.summary())
        self.update()

    @property
    def reader(self) -> SurfaceReader | None:
        """Returns the object that describes the picture; None without a surface."""
        if self._heights is None:
            return None
        return SurfaceReader(self._heights, self._labels, self._runs, self.paths)

    def note(self) -> str:
        """A sentence about paths that leave the whole map; empty when none does, or while it is zoomed."""
        reader = self.reader
        return reader.note() if reader is not None and self._zoom is None else ""

    def summary(self) -> str:
        """The picture in words."""
        reader = self.reader
        return reader.summary(self.note()) if reader is not None else ""

    def _show_ground(self, frame: Frame) -> None:
        key = (frame, self._theme, self.devicePixelRatioF(), self._coarse)
        if key != self._ground_key and self._heights is not None:
            fine = min(self.devicePixelRatioF(), (_PIXELS / max(frame.box.width * frame.box.height, 1.0)) ** 0.5)
            pixels = map_pixels(self._heights, frame, self._theme, 0.5 * fine if self._coarse else fine)
            self._ground, self._ground_key = QPixmap.fromImage(image_of(pixels)), key
            self.maps_made += 1

    # ------------------------------------------------------------ painting
    def paintEvent(self, event: QPaintEvent) -> None:
        """Lay the kept pixels down, and the words over them."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        frame = self.frame
        if frame is not None and self._heights is not None:
            if not self._ground_key:
                self._advance()
            self.drawn = SurfaceChart(self._heights, frame, self._sheet())
            self._paint_screen(painter, self.drawn)
        self._paint_ring(painter)
        painter.end()

    def _paint_screen(self, painter: QPainter, chart: SurfaceChart) -> None:
        area = rect_of(chart.frame.box)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, True)
        painter.drawPixmap(area, self._ground, self._ground.rect().toRectF())
        painter.save()
        painter.setClipRect(area)
        painter.drawPixmap(0, 0, self.paths.halos)
        painter.drawPixmap(0, 0, self.paths.lines)
        painter.restore()
        drawing = Drawing(self._theme, SIZES)
        self._draw(drawing, chart)
        found = self._reading(chart.frame)
        if found is not None:
            chart.draw_reading(drawing, (found.at.x(), found.at.y()), found.lines, found.run)
        paint(painter, drawing.items)

    def _reading(self, frame: Frame) -> Reading | None:
        """Returns the read-out: at the point that the keyboard went to, or under the pointer."""
        reader, selected = self.reader, next((run for run in self._runs if run.selected), None)
        if reader is None:
            return None
        if self.walked is not None and selected is not None:
            return reader.read_run(selected, self.walked, frame)
        return reader.read(self._hover, frame) if self._hover is not None else None

    def _draw(self, drawing: Drawing, chart: SurfaceChart) -> None:
        reader = self.reader
        if reader is None:
            return
        x, y, loss = reader.names
        title, heads = chart.heights.spec.title, reader.heads()
        chart.draw_marks(drawing, reader.start(), sorted(heads, key=lambda head: (head.run.selected, head.run.live)))
        chart.draw_axes(drawing, (x, y), title)
        chart.draw_gutter(drawing, title, loss, heads, self._runs)
        if not heads:
            chart.draw_middle(drawing, "The paths appear here with the runs' first values.")
        if note := self.note():
            chart.draw_note(drawing, note)

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """A picture of this size for a file: lines, but for the map with ``scale`` pixels for a logical one."""
        paper = sheet(width, height, self._listed)
        frame = self._frame(paper)
        if self._heights is None or frame is None:
            return
        drawing.image(frame.box, map_pixels(self._heights, frame, self._theme, scale), smooth=True)
        with drawing.clipped(frame.box):
            self.paths.draw(drawing, frame, self._runs)
        self._draw(drawing, SurfaceChart(self._heights, frame, paper))

    # ------------------------------------------------------------ looking
    def show_frame(self, frame: Frame) -> None:
        """Show this part. While a hand moves it the map is rougher; it is worked out finely when the hand rests."""
        self._zoom = (frame.x, frame.y)
        self._coarse = True
        self._fine.start(_FINE_MS)
        self._redraw()

    def reset_zoom(self) -> None:
        """Show the whole map."""
        self._zoom = None
        self._refine()

    def _refine(self) -> None:
        self._coarse = False
        self._redraw()

    # ------------------------------------------------------------ events
    def resizeEvent(self, event: QResizeEvent) -> None:
        """Redraw for the new size."""
        super().resizeEvent(event)
        self._redraw()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops drawing."""
        self._fine.stop()
        super().hideEvent(event)

    def sizeHint(self) -> QSize:
        """A comfortable size."""
        return QSize(640, 420)

    def minimumSizeHint(self) -> QSize:
        """The least size in which a path can be followed."""
        return QSize(320, 150)
