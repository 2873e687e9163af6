"""The one timer: lets the session take in what arrived and tells the views what changed. No socket here."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from clew_gui.views.ports import SessionLike

INTERVAL_MS = 33
BUDGET_S = 0.008


class Bridge(QObject):
    """Calls ``session.tick()`` 30 times a second and turns its answer into signals."""

    points = Signal(frozenset)
    states = Signal(frozenset)
    arrived = Signal(frozenset)
    link = Signal()
    problems = Signal(tuple)
    ticked = Signal()

    def __init__(self, session: SessionLike, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._timer = QTimer(self)
        self._timer.setObjectName("bridge")
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self.tick)

    def start(self) -> None:
        """Begin to tick."""
        self._timer.start()

    def stop(self) -> None:
        """Tick no more."""
        self._timer.stop()

    def tick(self) -> None:
        """One round. New runs are told before their points."""
        changes = self._session.tick(BUDGET_S)
        if changes.new:
            self.arrived.emit(changes.new)
        if changes.states:
            self.states.emit(changes.states)
        if changes.points:
            self.points.emit(changes.points)
        if changes.link:
            self.link.emit()
        if changes.problems:
            self.problems.emit(changes.problems)
        self.ticked.emit()
