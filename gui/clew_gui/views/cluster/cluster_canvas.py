"""Draws the plots of the Cluster tab, on the screen and into files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from clew_gui.plotting.axes.layout import spread
from clew_gui.plotting.axes.ticks import Span, Tick, panned, zoomed
from clew_gui.plotting.cluster import ClusterEvent, ClusterScene, RateLine, Rates, Staleness, Timeline, WorkerLane
from clew_gui.views.plots.drawing.files import picture, write_png, write_svg
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import FontKind, Theme, alpha, font
from clew_shared.base.number_words import counted
from clew_shared.study.scaling import figures

_FOOT: Final = 22.0
_TOP: Final = 18.0
"""The space above the rows of the timeline, for what happened."""
LANE: Final = 22
"""Height of a worker's row."""
_NAMED: Final = 8
"""The largest number of lines that have names at their ends."""
_WIDTH: Final = 1000


@dataclass(frozen=True)
class _Axes:
    """A rectangle with axes: how their coordinates become pixels."""

    rect: QRectF
    x: Span
    y: Span

    def at(self, x: float, y: float) -> QPointF:
        return QPointF(
            self.rect.left() + (x - self.x.low) / self.x.size * self.rect.width(),
            self.rect.bottom() - (y - self.y.low) / self.y.size * self.rect.height(),
        )


def _widest(texts: Sequence[str], kind: FontKind = "caption") -> float:
    metrics = QFontMetricsF(font(kind))
    return max(map(metrics.horizontalAdvance, texts), default=0.0)


def _ink(painter: QPainter, colour: str, kind: FontKind = "caption") -> None:
    painter.setFont(font(kind))
    painter.setPen(QColor(colour))


_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop


def _grid(painter: QPainter, axes: _Axes, ticks: Sequence[Tick], theme: Theme) -> None:
    """Horizontal lines with their values."""
    for tick in ticks:
        y = axes.at(axes.x.low, tick.at).y()
        painter.setPen(QPen(QColor(theme.grid), 1))
        painter.drawLine(QPointF(axes.rect.left(), y), QPointF(axes.rect.right(), y))
        _ink(painter, theme.text3)
        painter.drawText(QRectF(axes.rect.left() - 108, y - 12, 100, 24), _RIGHT, tick.text)


def _foot(painter: QPainter, axes: _Axes, ticks: Sequence[tuple[float, str]], theme: Theme) -> None:
    """The line at the bottom with its values."""
    painter.setPen(QPen(QColor(theme.line), 1))
    painter.drawLine(axes.rect.bottomLeft(), axes.rect.bottomRight())
    _ink(painter, theme.text3)
    for at, text in ticks:
        x = axes.at(at, axes.y.low).x()
        painter.drawText(QRectF(x - 40, axes.rect.bottom() + 4, 80, 16), _CENTRE, text)


# --- Timeline ---------------------------------------------------------------------------------------------------------


def timeline_height(timeline: Timeline) -> int:
    """Returns the height that the rows of a timeline need."""
    return round(_TOP + LANE * max(len(timeline.lanes), 1) + _FOOT)


def _timeline_axes(rect: QRectF, timeline: Timeline) -> _Axes:
    left = _widest([f"Worker {lane.worker}" for lane in timeline.lanes]) + 12
    return _Axes(rect.adjusted(left, _TOP, -14, -_FOOT), timeline.x, Span(0.0, max(len(timeline.lanes), 1)))


def paint_timeline(painter: QPainter, rect: QRectF, timeline: Timeline, theme: Theme) -> None:
    """A row for each worker: bars while it computes, dots where an update reaches the servers."""
    axes = _timeline_axes(rect, timeline)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _foot(painter, axes, [(tick.at, tick.text) for tick in timeline.ticks], theme)
    for place, lane in enumerate(timeline.lanes):
        middle = axes.rect.top() + LANE * (place + 0.5)
        _ink(painter, theme.text2)
        painter.drawText(
            QRectF(rect.left(), middle - 12, axes.rect.left() - rect.left() - 8, 24), _RIGHT, f"Worker {lane.worker}"
        )
        painter.save()
        painter.setClipRect(axes.rect)
        _paint_lane(painter, axes, lane, middle, theme)
        painter.restore()
    _paint_events(painter, axes, timeline.events, theme)


def _paint_lane(painter: QPainter, axes: _Axes, lane: WorkerLane, middle: float, theme: Theme) -> None:
    single = bool(len(lane.arrived) or len(lane.dropped))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(alpha(theme.accent, 0.34 if not theme.dark else 0.42))
    for start, end in zip(lane.starts.tolist(), lane.ends.tolist(), strict=True):
        left, right = axes.at(start, 0).x(), axes.at(end, 0).x()
        painter.drawRect(
            QRectF(left, middle - 6, max(right - left - (1.5 if single and right - left > 5 else 0), 0.5), 12)
        )
    roomy = len(lane.starts) < axes.rect.width() / 7
    for times, colour, hollow in ((lane.arrived, theme.accent, False), (lane.dropped, theme.bad, True)):
        painter.setPen(QPen(QColor(colour if hollow else theme.surface), 1.4))
        painter.setBrush(QColor(theme.surface if hollow else colour))
        for time in times.tolist() if roomy or hollow else ():
            painter.drawEllipse(QPointF(axes.at(time, 0).x() - 1, middle), 3.2, 3.2)
    _ink(painter, theme.text3)
    for begin, until, text in lane.pauses:
        left, right = axes.at(begin, 0).x(), axes.at(until, 0).x()
        if right - left > QFontMetricsF(painter.font()).horizontalAdvance(text) + 8:
            painter.drawText(QRectF(left, middle - 12, right - left, 24), Qt.AlignmentFlag.AlignCenter, text)


def _paint_events(painter: QPainter, axes: _Axes, events: Sequence[ClusterEvent], theme: Theme) -> None:
    """A dotted line where something happened, with words as far as there is room."""
    free = axes.rect.left()
    for event in events:
        x = axes.at(event.clock, 0).x()
        pen = QPen(QColor(theme.colour(event.tone)), 1.2)
        pen.setDashPattern([2, 3])
        painter.setPen(pen)
        painter.drawLine(QPointF(x, axes.rect.top() - 4), QPointF(x, axes.rect.bottom()))
        _ink(painter, theme.colour(event.tone))
        wide = QFontMetricsF(painter.font()).horizontalAdvance(event.text)
        start = min(x + 4, axes.rect.right() - wide)
        if start >= free:
            painter.drawText(QRectF(start, axes.rect.top() - _TOP, wide + 2, 16), _LEFT, event.text)
            free = start + wide + 10


# --- Staleness --------------------------------------------------------------------------------------------------------


def _staleness_axes(rect: QRectF, plot: Staleness) -> _Axes:
    left = _widest([tick.text for tick in plot.ticks]) + 12
    return _Axes(rect.adjusted(left, 16, -6, -_FOOT), Span(0.0, float(max(len(plot.bars), 4))), plot.y)


def paint_staleness(painter: QPainter, rect: QRectF, plot: Staleness, theme: Theme) -> None:
    """Bars of all gradients, dropped ones on top; a line over them for the latest."""
    axes = _staleness_axes(rect, plot)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _grid(painter, axes, plot.ticks, theme)
    every = max(1, -(-len(plot.bars) // 8))
    names = [(place + 0.5, str(bar.low)) for place, bar in enumerate(plot.bars[:-1]) if place % every == 0]
    last = plot.bars[-1]
    if last.high >= last.low + plot.width:
        names = [name for name in names if name[0] < len(plot.bars) - every] + [(len(plot.bars) - 0.5, f"{last.low}+")]
    _foot(painter, axes, names, theme)
    painter.setPen(Qt.PenStyle.NoPen)
    for place, bar in enumerate(plot.bars):
        low, high = axes.at(place + 0.12, 0), axes.at(place + 0.88, bar.applied)
        painter.setBrush(alpha(theme.accent, 0.75))
        painter.drawRect(QRectF(low, high).normalized())
        if bar.dropped:
            painter.setBrush(alpha(theme.bad, 0.75))
            painter.drawRect(QRectF(high, axes.at(place + 0.12, bar.applied + bar.dropped)).normalized())
    _paint_lately(painter, axes, plot, theme)
    _paint_place(painter, axes, plot.place(plot.median), f"median {plot.median}", theme.text2, 0.0)
    if plot.bound is not None:
        _paint_place(painter, axes, plot.place(plot.bound + 0.5), f"bound {plot.bound}", theme.ok, 13.0)


def _paint_lately(painter: QPainter, axes: _Axes, plot: Staleness, theme: Theme) -> None:
    """Heights of the latest gradients as steps."""
    points = [axes.at(0, 0)]
    for place, bar in enumerate(plot.bars):
        points += [axes.at(place, bar.lately), axes.at(place + 1, bar.lately)]
    points.append(axes.at(len(plot.bars), 0))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.curve(1).colour), 1.6))
    painter.drawPolyline(QPolygonF(points))


def _paint_place(painter: QPainter, axes: _Axes, place: float, text: str, colour: str, lower: float) -> None:
    """A dotted line at a staleness, with its name at the top."""
    x = min(axes.at(place, 0).x(), axes.rect.right())
    pen = QPen(QColor(colour), 1.2)
    pen.setDashPattern([2, 3])
    painter.setPen(pen)
    painter.drawLine(QPointF(x, axes.rect.top() - 12 + lower), QPointF(x, axes.rect.bottom()))
    _ink(painter, colour)
    wide = QFontMetricsF(painter.font()).horizontalAdvance(text) + 4
    left = x + 5 if x + 5 + wide < axes.rect.right() else x - wide - 3
    painter.drawText(QRectF(left, axes.rect.top() - 16 + lower, wide, 15), _LEFT, text)


# --- Images per second ------------------------------------------------------------------------------------------------


def _rates_axes(rect: QRectF, plot: Rates) -> _Axes:
    left = _widest([tick.text for tick in plot.y_ticks]) + 12
    names = [_name(line) for line in plot.lines] if len(plot.lines) <= _NAMED else []
    return _Axes(rect.adjusted(left, 6, -(_widest(names) + 20 if names else 6), -_FOOT), plot.x, plot.y)


def _name(line: RateLine) -> str:
    return f"Worker {line.worker}  {figures(line.now)}"


def paint_rates(painter: QPainter, rect: QRectF, plot: Rates, theme: Theme) -> None:
    """A line for each worker, named at its end."""
    axes = _rates_axes(rect, plot)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _grid(painter, axes, plot.y_ticks, theme)
    _foot(painter, axes, [(tick.at, tick.text) for tick in plot.x_ticks], theme)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for line in plot.lines:
        style = theme.curve(line.worker)
        pen = QPen(QColor(style.colour), 1.8)
        if style.dash:
            pen.setDashPattern([length / 1.8 for length in style.dash])
        painter.setPen(pen)
        points = zip(plot.times.tolist(), line.values.tolist(), strict=True)
        painter.drawPolyline(QPolygonF([axes.at(time, value) for time, value in points]))
    if len(plot.lines) <= _NAMED:
        _paint_names(painter, axes, plot, theme)


def _paint_names(painter: QPainter, axes: _Axes, plot: Rates, theme: Theme) -> None:
    ends = [axes.at(float(plot.times[-1]), float(line.values[-1])) for line in plot.lines]
    places = spread([end.y() for end in ends], 16, axes.rect.top() + 6, axes.rect.bottom() - 6)
    for line, end, y in zip(plot.lines, ends, places, strict=True):
        painter.setPen(QPen(QColor(theme.curve(line.worker).colour), 1.0))
        painter.drawLine(QPointF(end.x() + 2, end.y()), QPointF(axes.rect.right() + 10, y))
        _ink(painter, theme.text2)
        painter.drawText(QRectF(axes.rect.right() + 14, y - 10, 400, 20), _LEFT, _name(line))


# --- Widgets ----------------------------------------------------------------------------------------------------------


class PlotWidget(QWidget):
    """A plot that paints itself and says what is under the pointer."""

    def __init__(self, appearance: Appearance, name: str) -> None:
        super().__init__()
        self._appearance = appearance
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def retheme(self) -> None:
        """Paint again."""
        self.update()

    def draw(self, painter: QPainter, rect: QRectF) -> None:
        """Paint the plot into ``rect``."""

    def words_at(self, _place: QPointF) -> str:
        """Says what is at a point; empty for nothing."""
        return ""

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paints the plot in the available space."""
        painter = QPainter(self)
        self.draw(painter, QRectF(self.rect()))
        if self.hasFocus():
            painter.setPen(QPen(QColor(self._appearance.theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        painter.end()

    def event(self, event: QEvent) -> bool:
        """Show a tooltip if there is something to say."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words_at(QPointF(event.pos())), self)
            return True
        return super().event(event)


class StalenessPlot(PlotWidget):
    """The histogram."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance, "Staleness of the gradients")
        self.plot: Staleness | None = None
        self.setMinimumHeight(150)

    def show_plot(self, plot: Staleness | None) -> None:
        """Show another one."""
        self.plot = plot
        self.setAccessibleDescription("; ".join(bar.words for bar in plot.bars) if plot is not None else "")
        self.update()

    def draw(self, painter: QPainter, rect: QRectF) -> None:
        """Paint it."""
        if self.plot is not None:
            paint_staleness(painter, rect, self.plot, self._appearance.theme)

    def words_at(self, place: QPointF) -> str:
        """Describes the bar at this place."""
        if self.plot is None:
            return ""
        axes = _staleness_axes(QRectF(self.rect()), self.plot)
        number = (
            int((place.x() - axes.rect.left()) / axes.rect.width() * axes.x.high) if axes.rect.contains(place) else -1
        )
        return self.plot.bars[number].words if 0 <= number < len(self.plot.bars) else ""


class RatesPlot(PlotWidget):
    """Images/s of each worker."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance, "Images per second of each worker")
        self._plot: Rates | None = None
        self.setMinimumHeight(150)

    def show_plot(self, plot: Rates | None) -> None:
        """Show another one."""
        self._plot = plot
        self.setAccessibleDescription("; ".join(map(_name, plot.lines)) if plot is not None else "")
        self.update()

    def draw(self, painter: QPainter, rect: QRectF) -> None:
        """Paint it."""
        if self._plot is not None:
            paint_rates(painter, rect, self._plot, self._appearance.theme)

    def words_at(self, place: QPointF) -> str:
        """Says what all workers did at this time."""
        if self._plot is None:
            return ""
        axes = _rates_axes(QRectF(self.rect()), self._plot)
        if not axes.rect.contains(place):
            return ""
        time = axes.x.low + (place.x() - axes.rect.left()) / axes.rect.width() * axes.x.size
        nearest = int(abs(self._plot.times - time).argmin())
        lines = [
            f"Worker {line.worker}: {figures(float(line.values[nearest]))} {self._plot.unit}"
            for line in self._plot.lines
        ]
        return "\n".join([f"{figures(float(self._plot.times[nearest]))} s", *lines])


class TimelinePlot(PlotWidget):
    """The updates of each worker. The wheel zooms, dragging moves, a double click follows the run again."""

    seen_changed = Signal(object)
    """The part of the training time that is to be shown (a Span), or None: the latest."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance, "Updates of each worker")
        self._timeline: Timeline | None = None
        self._dragged: float | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip("")

    def show_plot(self, timeline: Timeline) -> None:
        """Show another one."""
        self._timeline = timeline
        self.setFixedHeight(timeline_height(timeline))
        bars = [f"{counted(len(lane.starts), 'bar')} of worker {lane.worker}" for lane in timeline.lanes]
        self.setAccessibleDescription("; ".join([*bars, *(event.text for event in timeline.events)]))
        self.update()

    def whole(self) -> Span | None:
        """Returns the span of the whole training time."""
        return self._timeline.whole if self._timeline is not None else None

    def part(self) -> Span | None:
        """Returns the part that is shown, to keep it; if the whole run is shown, its second half."""
        if self._timeline is None:
            return None
        seen, whole = self._timeline.x, self._timeline.whole
        return seen if seen.size < 0.9 * whole.size else Span(0.5 * (whole.low + whole.high), whole.high)

    def seen_size(self) -> float:
        """Returns how many seconds are shown."""
        return self._timeline.x.size if self._timeline is not None else 0.0

    def draw(self, painter: QPainter, rect: QRectF) -> None:
        """Paint it."""
        if self._timeline is not None:
            paint_timeline(painter, rect, self._timeline, self._appearance.theme)

    def words_at(self, place: QPointF) -> str:
        """Says what the worker did then."""
        if self._timeline is None:
            return ""
        axes = _timeline_axes(QRectF(self.rect()), self._timeline)
        number = int((place.y() - axes.rect.top()) // LANE)
        if not (axes.rect.contains(place) and 0 <= number < len(self._timeline.lanes)):
            return ""
        lane, time = self._timeline.lanes[number], self._time_at(place.x())
        inside = [(s, e) for s, e in zip(lane.starts.tolist(), lane.ends.tolist(), strict=True) if s <= time <= e]
        if not inside:
            return f"Worker {lane.worker}: nothing at {figures(time, 4)} s"
        start, end = inside[-1]
        if not (len(lane.arrived) or len(lane.dropped)):
            return f"Worker {lane.worker}: updates from {figures(start, 4)} to {figures(end, 4)} s"
        how = "dropped" if end in lane.dropped else "applied"
        return f"Worker {lane.worker}: {figures(1000 * (end - start))} ms, {how} at {figures(end, 4)} s"

    def _time_at(self, x: float) -> float:
        if self._timeline is None:
            return 0.0
        axes = _timeline_axes(QRectF(self.rect()), self._timeline)
        return axes.x.low + (x - axes.rect.left()) / max(axes.rect.width(), 1.0) * axes.x.size

    def _ask(self, change: Callable[[Span, Span], Span | None]) -> None:
        """Show another part. ``change`` takes what is shown and the whole, and gives None for the whole."""
        if self._timeline is not None:
            seen = change(self._timeline.x, self._timeline.whole)
            self.seen_changed.emit(seen if seen is not None else self._timeline.whole)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer, with Ctrl: without it the wheel scrolls the page."""
        if not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            event.ignore()
            return
        factor = 0.8 if event.angleDelta().y() > 0 else 1.25
        time = self._time_at(event.position().x())
        self._ask(lambda seen, whole: zoomed(seen, whole, factor, time))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin to move."""
        self._dragged = event.position().x()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move along the time."""
        if self._dragged is not None and self._timeline is not None:
            x = event.position().x()
            part = (self._dragged - x) / max(_timeline_axes(QRectF(self.rect()), self._timeline).rect.width(), 1.0)
            self._dragged = x
            self._ask(lambda seen, whole: panned(seen, whole, part))

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        """Stay there."""
        self._dragged = None

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:
        """Follow the run."""
        self.seen_changed.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Plus and minus zoom, arrows move, Home shows everything, End follows the run."""
        moves: dict[int, Callable[[Span, Span], Span | None]] = {
            Qt.Key.Key_Plus: lambda seen, whole: zoomed(seen, whole, 0.6),
            Qt.Key.Key_Minus: lambda seen, whole: zoomed(seen, whole, 1 / 0.6),
            Qt.Key.Key_Left: lambda seen, whole: panned(seen, whole, -0.2),
            Qt.Key.Key_Right: lambda seen, whole: panned(seen, whole, 0.2),
            Qt.Key.Key_Home: lambda _seen, _whole: None,
        }
        if event.key() in moves:
            self._ask(moves[event.key()])
        elif event.key() == Qt.Key.Key_End:
            self.seen_changed.emit(None)
        else:
            super().keyPressEvent(event)


# --- Files ------------------------------------------------------------------------------------------------------------


def _size(scene: ClusterScene) -> QSize:
    return QSize(_WIDTH, 96 + timeline_height(scene.timeline) + 40 + 250)


def _paint_picture(painter: QPainter, scene: ClusterScene, title: str, theme: Theme) -> None:
    """The sentence, the timeline, and below it staleness and images/s beside each other."""
    size = _size(scene)
    painter.fillRect(QRect(QPointF(0, 0).toPoint(), size), QColor(theme.surface))
    _text(painter, QRectF(16, 10, _WIDTH - 32, 26), title, "subtitle", theme.text)
    _text(painter, QRectF(16, 34, _WIDTH - 32, 20), f"{scene.caption}.", "body", theme.text2)
    _text(painter, QRectF(16, 54, _WIDTH - 32, 36), scene.sentence, "body", theme.text2)
    height = timeline_height(scene.timeline)
    paint_timeline(painter, QRectF(16, 92, _WIDTH - 32, height), scene.timeline, theme)
    top, half = 92 + height + 10, _WIDTH * 0.42
    if scene.staleness is not None:
        _text(
            painter,
            QRectF(16, top, half, 22),
            f"Staleness, line: latest {scene.staleness.latest}",
            "strong",
            theme.text,
        )
        paint_staleness(painter, QRectF(16, top + 24, half - 16, 240), scene.staleness, theme)
    if scene.rates is not None:
        _text(
            painter,
            QRectF(half + 24, top, half, 22),
            f"{scene.rates.unit.capitalize()} of each worker",
            "strong",
            theme.text,
        )
        paint_rates(painter, QRectF(half + 24, top + 24, _WIDTH - half - 40, 240), scene.rates, theme)


def _text(painter: QPainter, box: QRectF, text: str, kind: FontKind, colour: str) -> None:
    _ink(painter, colour, kind)
    painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap, text)


def save_png(path: Path, scene: ClusterScene, title: str, theme: Theme, scale: float = 2.0) -> None:
    """Write the plots as pixels. Raises ``ProblemError`` where that cannot be done."""
    write_png(path, picture(_size(scene), scale, lambda painter: _paint_picture(painter, scene, title, theme)))


def save_svg(path: Path, scene: ClusterScene, title: str, theme: Theme, dpi: int) -> None:
    """Write the plots as a drawing; ``dpi`` is that of the screen. Raises ``ProblemError`` if it cannot be written."""

    def paint(painter: QPainter) -> None:
        _paint_picture(painter, scene, title, theme)

    write_svg(path, _size(scene), dpi, title, scene.sentence, paint)
