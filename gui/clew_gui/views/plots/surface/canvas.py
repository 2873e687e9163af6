"""The widget of a loss surface: map, paths and words, drawn when something changed and someone can see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPointF, QSize, QTimer
from PySide6.QtGui import QColor, QHideEvent, QPainter, QPaintEvent, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QWidget

from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.loss_surface import Heights
from clew_gui.plotting.surface_path import Chart
from clew_gui.views.plots.drawing.widget import DrawnWidget
from clew_gui.views.plots.surface.art import Sheet, SurfaceArt, fitted, map_image, sheet
from clew_gui.views.plots.surface.paths import Paths
from clew_gui.views.plots.surface.reader import Reading, SurfaceReader
from clew_gui.views.theme.theme import Theme
from clew_shared.cards import MetricSpec, SurfaceSpec

_PIXELS: Final = 700_000
"""Most pixels that the map is worked out for; a finer screen gets them enlarged."""
_FINE_MS: Final = 150


class SurfaceCanvas(DrawnWidget):
    """Shows one surface. The map is worked out when what is visible changes, never because points arrive."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("Loss surface", theme, parent)
        self._heights: Heights | None = None
        self._labels: dict[str, str] = {}
        self._zoom: tuple[Span, Span] | None = None
        self.paths = Paths()
        """The drawn part of each run's path."""
        self._ground = QPixmap()
        self._ground_key: tuple[object, ...] = ()
        self.drawn: SurfaceArt | None = None
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
    def chart(self) -> Chart | None:
        """Returns the visible part of the surface, and where it is."""
        return self._chart(self._sheet()) if self._heights is not None else None

    def _sheet(self) -> Sheet:
        return sheet(self.width(), self.height() - self._foot, self._listed)

    @property
    def _foot(self) -> int:
        """Pixels at the bottom that the map leaves to others."""
        return 0

    def _chart(self, paper: Sheet) -> Chart | None:
        if self._heights is None:
            return None
        whole = fitted(self._heights, paper.box)
        return whole if self._zoom is None else Chart(paper.box, *self._zoom)

    # ------------------------------------------------------------ frames
    def _advance(self) -> None:
        """Draw what is new of every path onto what is there."""
        self._timer.stop()
        chart = self.chart
        if chart is None or self._heights is None:
            self.update()
            return
        self._show_ground(chart)
        self.paths.show(chart, self._runs, self._theme, self.size(), self.devicePixelRatioF())
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

    def _show_ground(self, chart: Chart) -> None:
        key = (chart, self._theme, self.devicePixelRatioF(), self._coarse)
        if key != self._ground_key and self._heights is not None:
            fine = min(self.devicePixelRatioF(), (_PIXELS / max(chart.box.width * chart.box.height, 1.0)) ** 0.5)
            image = map_image(self._heights, chart, self._theme, 0.5 * fine if self._coarse else fine)
            self._ground, self._ground_key = QPixmap.fromImage(image), key
            self.maps_made += 1

    # ------------------------------------------------------------ painting
    def paintEvent(self, event: QPaintEvent) -> None:
        """Lay the kept pixels down, and the words over them."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        chart = self.chart
        if chart is not None and self._heights is not None:
            if not self._ground_key:
                self._advance()
            self.drawn = SurfaceArt(self._heights, chart, self._sheet(), self._theme)
            self._paint_screen(painter, self.drawn)
        if self._ring:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), 6, 6)
        painter.end()

    def _paint_screen(self, painter: QPainter, art: SurfaceArt) -> None:
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, True)
        painter.drawPixmap(art.rect, self._ground, self._ground.rect().toRectF())
        painter.save()
        painter.setClipRect(art.rect)
        painter.drawPixmap(0, 0, self.paths.halos)
        painter.drawPixmap(0, 0, self.paths.lines)
        painter.restore()
        self._paint_words(painter, art)
        found = self._reading(art.chart)
        if found is not None:
            art.readout(painter, found.at, found.lines, found.run)

    def _reading(self, chart: Chart) -> Reading | None:
        """Returns the read-out: at the point that the keyboard went to, or under the pointer."""
        reader, selected = self.reader, next((run for run in self._runs if run.selected), None)
        if reader is None:
            return None
        if self.walked is not None and selected is not None:
            return reader.read_run(selected, self.walked, chart)
        return reader.read(self._hover, chart) if self._hover is not None else None

    def _paint_words(self, painter: QPainter, art: SurfaceArt) -> None:
        reader = self.reader
        if reader is None:
            return
        x, y, loss = reader.names
        title, heads = art.heights.spec.title, reader.heads()
        art.marks(painter, reader.start(), sorted(heads, key=lambda head: (head.run.selected, head.run.live)))
        art.axes(painter, (x, y), title)
        art.gutter(painter, title, loss, heads, self._runs)
        if not heads:
            art.middle(painter, "The paths appear here with the runs' first values.")
        if note := self.note():
            art.note(painter, note)

    def paint_to(self, painter: QPainter, size: QSize, scale: float) -> None:
        """Paint a picture of this size for a file: lines, but for the map with ``scale`` pixels for a logical one."""
        if self._heights is None:
            return
        paper = sheet(size.width(), size.height(), self._listed)
        chart = self._chart(paper)
        if chart is None:
            return
        art = SurfaceArt(self._heights, chart, paper, self._theme)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.drawImage(art.rect, map_image(self._heights, chart, self._theme, scale))
        painter.save()
        painter.setClipRect(art.rect)
        self.paths.paint(painter, chart, self._runs, self._theme)
        painter.restore()
        self._paint_words(painter, art)

    # ------------------------------------------------------------ looking
    def show_chart(self, chart: Chart) -> None:
        """Show this part. While a hand moves it the map is rougher; it is worked out finely when the hand rests."""
        self._zoom = (chart.x, chart.y)
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
