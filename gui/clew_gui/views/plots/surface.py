"""The loss surface of an exercise with the paths that the shown runs take over it, live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QColor,
    QFocusEvent,
    QHideEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from clew_gui.plotting.heights import Heights
from clew_gui.plotting.model import RunStyle
from clew_gui.plotting.numbers import count_text, value_text
from clew_gui.plotting.pyramid import FloatArray
from clew_gui.plotting.readout import prominent
from clew_gui.plotting.series import Series, SeriesStore
from clew_gui.plotting.ticks import Span
from clew_gui.plotting.trail import Chart, Trail
from clew_gui.views.plots.canvas import REFRESH_MS
from clew_gui.views.plots.surface_art import (
    Head,
    Sheet,
    SurfaceArt,
    draw_path,
    fitted,
    length,
    map_image,
    path_pens,
    sheet,
)
from clew_gui.views.theme import Theme
from clew_shared.cards import MetricSpec, SurfaceSpec

_NEAR: Final = 16.0
_CLOSEST: Final = 1e-5  # of the grid's extent: closer, float32 heights would show their steps
_FARTHEST: Final = 12.0
_FINE_MS: Final = 150
_SPOKEN: Final = 4
_PIXELS: Final = 700_000
"""Most pixels that the map is worked out for; a finer screen gets them enlarged."""


@dataclass
class _Walk:
    """One run's trail and how long it is in pixels so far."""

    trail: Trail
    cuts: tuple[int, int]
    drawn: float = 0.0


@dataclass
class _Layers:
    """Pixels that are kept while only points arrive: the map, and the paths with their halos below them."""

    ground: QPixmap = field(default_factory=QPixmap)
    halos: QPixmap = field(default_factory=QPixmap)
    lines: QPixmap = field(default_factory=QPixmap)
    ground_key: tuple[object, ...] = ()
    paths_key: tuple[object, ...] = ()


class SurfaceView(QWidget):
    """Shows one surface; rests while nothing changed or nobody can see it."""

    run_clicked = Signal(str)

    def __init__(self, store: SeriesStore, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._store, self._theme = store, theme
        self._heights: Heights | None = None
        self._labels: dict[str, str] = {}
        self._runs: tuple[RunStyle, ...] = ()
        self._zoom: tuple[Span, Span] | None = None
        self._walks: dict[str, _Walk] = {}
        self._layers = _Layers()
        self._art: SurfaceArt | None = None
        self._hover: QPointF | None = None
        self._walked: int | None = None
        self._pressed: tuple[QPointF, Chart] | None = None
        self._coarse = self._ring = False
        self._listed = True
        self.maps_made = 0
        """How often the map was worked out; points that arrive must not change it."""
        self._timer, self._fine = QTimer(self), QTimer(self)
        for timer, action in ((self._timer, self._advance), (self._fine, self._refine)):
            timer.setSingleShot(True)
            timer.timeout.connect(action)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Loss surface")

    # ------------------------------------------------------------ what is shown
    @property
    def spec(self) -> SurfaceSpec | None:
        """The surface that is shown."""
        return self._heights.spec if self._heights is not None else None

    def set_surface(self, spec: SurfaceSpec | None, metrics: Sequence[MetricSpec] = ()) -> None:
        """Show this surface; ``metrics`` tell the labels of its axes."""
        self._heights = Heights(spec) if spec is not None else None
        self._labels = {metric.name: metric.label for metric in metrics}
        self._zoom = None
        self.setAccessibleName(spec.title if spec is not None else "Loss surface")
        self._redraw()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show the paths of these runs."""
        if tuple(runs) != self._runs:
            self._runs = tuple(runs)
            self.touch()

    def list_runs(self, on: bool) -> None:
        """Whether the runs are listed beside the map, where there is room."""
        self._listed = on
        self._redraw()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self._redraw()

    def touch(self) -> None:
        """Runs have new values; they are drawn with the next frame when this can be seen."""
        if self.isVisible() and not self._timer.isActive():
            self._timer.start(REFRESH_MS)

    def _redraw(self) -> None:
        if self.isVisible():
            self._advance()

    # ------------------------------------------------------------ geometry
    @property
    def chart(self) -> Chart | None:
        """What is visible, and where."""
        return self._chart(self._sheet()) if self._heights is not None else None

    def _sheet(self) -> Sheet:
        return sheet(self.width(), self.height(), self._listed)

    def _chart(self, paper: Sheet) -> Chart | None:
        if self._heights is None:
            return None
        whole = fitted(self._heights, paper.box)
        return whole if self._zoom is None else Chart(paper.box, *self._zoom)

    def _pair(self, run: str) -> tuple[Series, Series] | None:
        if self._heights is None:
            return None
        x, y = (self._store.get(run, name) for name in self._heights.spec.metrics)
        return (x, y) if x is not None and y is not None and len(x) and len(y) else None

    def _ordered(self) -> list[RunStyle]:
        """The run that is selected lies on top."""
        return sorted(self._runs, key=lambda run: run.selected)

    # ------------------------------------------------------------ frames
    def _advance(self) -> None:
        """Draw what is new of every path onto what is there."""
        self._timer.stop()
        chart = self.chart
        if chart is None or self._heights is None:
            self.update()
            return
        self._show_ground(chart)
        self._show_paths(chart)
        self._describe(self.summary())
        self.update()

    def _show_ground(self, chart: Chart) -> None:
        key = (chart, self._theme, self.devicePixelRatioF(), self._coarse, id(self._heights))
        if key != self._layers.ground_key and self._heights is not None:
            fine = min(self.devicePixelRatioF(), (_PIXELS / max(chart.box.width * chart.box.height, 1.0)) ** 0.5)
            image = map_image(self._heights, chart, self._theme, 0.5 * fine if self._coarse else fine)
            self._layers.ground, self._layers.ground_key = QPixmap.fromImage(image), key
            self.maps_made += 1

    def _show_paths(self, chart: Chart) -> None:
        looks = tuple((run.run_id, run.index, run.selected) for run in self._runs)
        key = (chart, self._theme, self.devicePixelRatioF(), looks, self.size())
        if key != self._layers.paths_key or self._was_cut():
            self._walks.clear()
            self._layers.halos, self._layers.lines = self._blank(), self._blank()
            self._layers.paths_key = key
        halos, lines = QPainter(self._layers.halos), QPainter(self._layers.lines)
        for painter in (halos, lines):
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for run in self._ordered():
            self._walk_on(run, chart, halos, lines)
        halos.end()
        lines.end()

    def _blank(self) -> QPixmap:
        ratio = self.devicePixelRatioF()
        layer = QPixmap((self.size().toSizeF() * ratio).toSize())
        layer.setDevicePixelRatio(ratio)
        layer.fill(Qt.GlobalColor.transparent)
        return layer

    def _was_cut(self) -> bool:
        """Whether values that were drawn are no longer there."""
        for run, walk in self._walks.items():
            pair = self._pair(run)
            if pair is None or walk.cuts != _cuts(pair) or min(map(len, pair)) < walk.trail.taken:
                return True
        return False

    def _walk_on(self, run: RunStyle, chart: Chart, halos: QPainter, lines: QPainter) -> None:
        pair = self._pair(run.run_id)
        if pair is None:
            return
        walk = self._walks.setdefault(run.run_id, _Walk(Trail(chart), _cuts(pair)))
        stretch = walk.trail.extend(pair[0].pyramid.y.array, pair[1].pyramid.y.array)
        if len(stretch) > 1:
            halo, line = path_pens(run, self._theme)
            draw_path(halos, stretch, chart.box, halo)
            draw_path(lines, stretch, chart.box, line, walk.drawn)
            walk.drawn += length(stretch)

    # ------------------------------------------------------------ words
    def heads(self) -> tuple[Head, ...]:
        """Where each run is now."""
        found = (self._head_at(run, None) for run in self._runs)
        return tuple(head for head in found if head is not None)

    def _head_at(self, run: RunStyle, index: int | None) -> Head | None:
        """Where a run was at one of its values, by default the last one."""
        pair, walk = self._pair(run.run_id), self._walks.get(run.run_id)
        if pair is None or self._heights is None:
            return None
        x, y = pair[0].pyramid, pair[1].pyramid
        last = min(len(x), len(y)) if walk is None else walk.trail.taken
        at = last - 1 if index is None else index
        if not 0 <= at < min(len(x), len(y)):
            return None
        step = x.x.at(at)
        series = self._store.get(run.run_id, self._heights.spec.metric)
        sample = series.at(step) if series is not None else None
        loss = sample.value if sample is not None and sample.step == step else None
        return Head(run, step, float(x.y.array[at]), float(y.y.array[at]), loss)

    def _left(self) -> list[tuple[RunStyle, float]]:
        """The runs that leave the whole map, with the step at which they do; none while it is zoomed."""
        found = []
        for run in self._runs if self._zoom is None else ():
            walk, pair = self._walks.get(run.run_id), self._pair(run.run_id)
            if walk is not None and pair is not None and walk.trail.outside is not None:
                found.append((run, pair[0].pyramid.x.at(walk.trail.outside)))
        return found

    def note(self) -> str:
        """A sentence about paths that cannot be seen whole; empty when all can."""
        left = self._left()
        if not left:
            return ""
        run, step = left[0]
        more = f" So do {len(left) - 1} more." if len(left) > 1 else ""
        return f"{run.label} leaves the map at step {count_text(step)}; zoom out to follow.{more}"

    def _names(self) -> tuple[str, str, str]:
        spec = self._heights.spec if self._heights is not None else None
        names = (*spec.metrics, spec.metric) if spec is not None else ("x", "y", "loss")
        x, y, loss = (self._labels.get(name, name) for name in names)
        return x, y, loss

    def summary(self) -> str:
        """The picture in words."""
        heads = {head.run.run_id: head for head in self.heads()}
        if not heads:
            return "No run has values yet."
        x, y, loss = self._names()
        parts = []
        for run in prominent(self._runs, _SPOKEN):
            if run.run_id in heads:
                head = heads[run.run_id]
                ends = f", {loss.lower()} {value_text(head.loss)}" if head.loss is not None else ""
                place = f"{x} {value_text(head.x)}, {y} {value_text(head.y)}"
                parts.append(f"{run.label} at step {count_text(head.step)}: {place}{ends}.")
        return " ".join([*parts, self.note()]).strip()

    def read(self, at: QPointF) -> tuple[RunStyle | None, QPointF, tuple[str, ...]] | None:
        """What the pointer reads here: the nearest point of a path, or the surface itself; None beside the map."""
        chart = self.chart
        if chart is None or self._heights is None or not _inside(chart, at):
            return None
        near = [(found, run) for run in self._runs if (found := self._nearest(run, at)) is not None]
        x_name, y_name, loss_name = self._names()
        if near:
            (_, index), run = min(near, key=lambda item: (item[0][0], not item[1].selected))
            return self._read_run(run, index, chart)
        x, y = chart.place(at.x(), at.y())
        height = self._heights.at(x, y)
        value = value_text(height) if height is not None else "not computed here"
        return None, at, (f"{loss_name} {value}", f"{x_name} {value_text(x)}, {y_name} {value_text(y)}")

    def _nearest(self, run: RunStyle, at: QPointF) -> tuple[float, int] | None:
        walk = self._walks.get(run.run_id)
        found = walk.trail.nearest(at.x(), at.y()) if walk is not None else None
        return found if found is not None and found[0] <= _NEAR else None

    def _read_run(
        self, run: RunStyle, index: int, chart: Chart
    ) -> tuple[RunStyle | None, QPointF, tuple[str, ...]] | None:
        head = self._head_at(run, index)
        if head is None:
            return None
        x_name, y_name, loss_name = self._names()
        ends = f", {loss_name.lower()} {value_text(head.loss)}" if head.loss is not None else ""
        place = f"{x_name} {value_text(head.x)}, {y_name} {value_text(head.y)}"
        return run, QPointF(*chart.pixel(head.x, head.y)), (run.label, f"Step {count_text(head.step)}{ends}", place)

    def _describe(self, text: str) -> None:
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)
            if self.hasFocus():
                QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))

    # ------------------------------------------------------------ painting
    def paintEvent(self, event: QPaintEvent) -> None:
        """Lay the kept pixels down, and the words over them."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        chart = self.chart
        if chart is not None and self._heights is not None:
            if not self._layers.ground_key:
                self._advance()
            self._art = SurfaceArt(self._heights, chart, self._sheet(), self._theme)
            self._paint_screen(painter, self._art)
        if self._ring:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            painter.setPen(QPen(QColor(self._theme.accent), 2))
            painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), 6, 6)
        painter.end()

    def _paint_screen(self, painter: QPainter, art: SurfaceArt) -> None:
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, True)
        painter.drawPixmap(art.rect, self._layers.ground, self._layers.ground.rect().toRectF())
        painter.save()
        painter.setClipRect(art.rect)
        painter.drawPixmap(0, 0, self._layers.halos)
        painter.drawPixmap(0, 0, self._layers.lines)
        painter.restore()
        self._paint_words(painter, art)
        found = self._reading()
        if found is not None:
            run, at, lines = found
            art.readout(painter, at, lines, run)

    def _reading(self) -> tuple[RunStyle | None, QPointF, tuple[str, ...]] | None:
        chart, selected = self.chart, next((run for run in self._runs if run.selected), None)
        if self._walked is not None and chart is not None and selected is not None:
            return self._read_run(selected, self._walked, chart)
        return self.read(self._hover) if self._hover is not None and self._pressed is None else None

    def _paint_words(self, painter: QPainter, art: SurfaceArt) -> None:
        x, y, loss = self._names()
        title, heads = art.heights.spec.title, self.heads()
        ordered = sorted(heads, key=lambda head: (head.run.selected, head.run.live))
        art.marks(painter, self._start(), ordered)
        art.axes(painter, (x, y), title)
        art.gutter(painter, title, loss, heads, self._runs)
        if not heads:
            art.middle(painter, "The paths appear here with the runs' first values.")
        if self.note():
            art.note(painter, self.note())

    def _start(self) -> tuple[float, float] | None:
        heads = (self._head_at(run, 0) for run in self._runs)
        return next(((head.x, head.y) for head in heads if head is not None), None)

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
        walks = [(run, _whole(pair, chart)) for run in self._ordered() if (pair := self._pair(run.run_id)) is not None]
        for which in (0, 1):
            for run, points in walks:
                draw_path(painter, points, chart.box, path_pens(run, self._theme)[which])
        painter.restore()
        self._paint_words(painter, art)

    def image(self, size: QSize, scale: float = 2.0) -> QImage:
        """The picture as pixels."""
        image = QImage(size * scale, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        image.fill(QColor(self._theme.surface))
        painter = QPainter(image)
        self.paint_to(painter, size, scale)
        painter.end()
        return image

    # ------------------------------------------------------------ zoom and pan
    def zoom_by(self, factor: float, around: tuple[float, float] | None = None) -> None:
        """Show ``factor`` times as much; ``around`` stays in place, by default the middle."""
        chart = self.chart
        if chart is None or self._heights is None:
            return
        middle = (0.5 * (chart.x.low + chart.x.high), 0.5 * (chart.y.low + chart.y.high))
        wanted = chart.zoomed(factor, around or middle)
        if _CLOSEST <= wanted.x.size / self._heights.x.size <= _FARTHEST:
            self._look(wanted)

    def pan_by(self, columns: float, rows: float) -> None:
        """Move the map by so many pixels."""
        chart = self.chart
        if chart is not None:
            self._look(chart.moved(columns, rows))

    def reset_zoom(self) -> None:
        """Show the whole map."""
        self._zoom = None
        self._coarse = False
        self._redraw()

    def _look(self, chart: Chart) -> None:
        """While a hand moves it the map is rougher; it is worked out finely when the hand rests."""
        self._zoom = (chart.x, chart.y)
        self._coarse = True
        self._fine.start(_FINE_MS)
        self._redraw()

    def _refine(self) -> None:
        self._coarse = False
        self._redraw()

    # ------------------------------------------------------------ events
    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer."""
        chart = self.chart
        if chart is not None and event.angleDelta().y():
            around = chart.place(event.position().x(), event.position().y())
            self.zoom_by(1.25 ** (-event.angleDelta().y() / 120), around)
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the map, or choose a run in the list."""
        chart = self.chart
        if event.button() is not Qt.MouseButton.LeftButton or chart is None:
            super().mousePressEvent(event)
        elif self._art is not None and (run := self._art.run_at(event.position())):
            self.run_clicked.emit(run)
        elif _inside(chart, event.position()):
            self._pressed = (event.position(), chart)
            self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the map, or read it out."""
        self._hover, self._walked = event.position(), None
        if self._pressed is not None:
            start, chart = self._pressed
            self._look(chart.moved(event.position().x() - start.x(), event.position().y() - start.y()))
            return
        over = self._art is not None and bool(self._art.run_at(event.position()))
        self.setCursor(Qt.CursorShape.PointingHandCursor) if over else self.unsetCursor()
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        super().mouseReleaseEvent(event)
        self._pressed = None
        self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Fit the whole map."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._pressed = None
            self.reset_zoom()

    def leaveEvent(self, event: QEvent) -> None:
        """Take the read-out away."""
        super().leaveEvent(event)
        self._hover = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right walk along the selected path (Shift: farther), Page keys and + - Home as with the curves."""
        far = 10.0 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1.0
        actions = {
            Qt.Key.Key_Left: lambda: self.walk(-far),
            Qt.Key.Key_Right: lambda: self.walk(far),
            Qt.Key.Key_PageUp: lambda: self.pan_by(0.25 * self.width(), 0),
            Qt.Key.Key_PageDown: lambda: self.pan_by(-0.25 * self.width(), 0),
            Qt.Key.Key_Plus: lambda: self.zoom_by(0.8),
            Qt.Key.Key_Equal: lambda: self.zoom_by(0.8),
            Qt.Key.Key_Minus: lambda: self.zoom_by(1.25),
            Qt.Key.Key_Home: self.reset_zoom,
        }
        action = actions.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape and self._walked is not None:
            self._walked = None
            self.update()
        elif action is not None and self._heights is not None:
            action()
        else:
            super().keyPressEvent(event)

    def walk(self, by: float) -> None:
        """Read out the selected run ``by`` steps farther along its path; it begins at the start."""
        run = next((run for run in self._runs if run.selected), None)
        walk, chart = self._walks.get(run.run_id) if run is not None else None, self.chart
        if run is None or walk is None or chart is None or not walk.trail.taken:
            return
        at = 0 if self._walked is None else self._walked + round(by)
        self._walked = min(max(at, 0), walk.trail.taken - 1)
        found = self._read_run(run, self._walked, chart)
        if found is not None:
            self._describe(". ".join(found[2]))
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Draw anew for the new size."""
        super().resizeEvent(event)
        self._redraw()

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what arrived while hidden."""
        super().showEvent(event)
        self._advance()

    def hideEvent(self, event: QHideEvent) -> None:
        """Rest."""
        self._timer.stop()
        self._fine.stop()
        super().hideEvent(event)

    def event(self, event: QEvent) -> bool:
        """Draw anew where pixels are finer or coarser than before."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self._redraw()
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show a ring when reached by keyboard."""
        self._ring = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Take the ring and the walk away."""
        self._ring, self._walked = False, None
        super().focusOutEvent(event)
        self.update()

    def sizeHint(self) -> QSize:
        """A comfortable size."""
        return QSize(640, 420)

    def minimumSizeHint(self) -> QSize:
        """The least size in which a path can be followed."""
        return QSize(320, 150)


def _cuts(pair: tuple[Series, Series]) -> tuple[int, int]:
    return pair[0].pyramid.generation, pair[1].pyramid.generation


def _whole(pair: tuple[Series, Series], chart: Chart) -> FloatArray:
    return Trail(chart).extend(pair[0].pyramid.y.array, pair[1].pyramid.y.array)


def _inside(chart: Chart, at: QPointF) -> bool:
    box = chart.box
    return box.x <= at.x() <= box.right and box.y <= at.y() <= box.bottom
