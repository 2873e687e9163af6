"""The timeline of the Cluster tab: moved and zoomed by mouse, wheel and keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy

from clew_gui.charts.cluster import TimelineChart, timeline_height
from clew_gui.plotting.axes.ticks import Span, panned, zoomed
from clew_gui.plotting.cluster import Timeline
from clew_gui.views.charts.chart_widget import ChartWidget
from clew_gui.views.theme.parts import Appearance


class TimelineWidget(ChartWidget):
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

    def show_timeline(self, timeline: Timeline) -> None:
        """Show another one."""
        self._timeline = timeline
        self.setFixedHeight(timeline_height(timeline))
        self.show_chart(partial(TimelineChart, timeline))

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

    def _ask(self, change: Callable[[Span, Span], Span | None]) -> None:
        """Show another part. ``change`` takes what is shown and the whole, and gives None for the whole."""
        if self._timeline is not None:
            seen = change(self._timeline.x, self._timeline.whole)
            self.seen_changed.emit(seen if seen is not None else self._timeline.whole)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer, with Ctrl: without it the wheel scrolls the page."""
        chart = self.chart
        if not event.modifiers() & Qt.KeyboardModifier.ControlModifier or not isinstance(chart, TimelineChart):
            event.ignore()
            return
        factor = 0.8 if event.angleDelta().y() > 0 else 1.25
        time = chart.frame.x_at(event.position().x())
        self._ask(lambda seen, whole: zoomed(seen, whole, factor, time))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin to move."""
        self._dragged = event.position().x()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move along the time."""
        chart = self.chart
        if self._dragged is not None and isinstance(chart, TimelineChart):
            x = event.position().x()
            part = (self._dragged - x) / max(chart.frame.box.width, 1.0)
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
