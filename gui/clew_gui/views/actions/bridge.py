"""Lets the session take in what arrived and says what changed: at once after a quiet time, else by a timer.

No socket here.
"""

from __future__ import annotations

import time

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

from clew_gui.session.intake import Changes
from clew_gui.session.session import Session

INTERVAL_MS = 33
AT_ONCE = 3
"""How many news after a quiet time wait for no timer: of a run that begins, its state comes just before its first
points."""
BUDGET_S = (0.008, 0.1)
"""The least and the most seconds for taking in news before they are shown. Thousands of runs take longer to show than
to take in: then as much time goes into the one as into the other."""


class Bridge(QObject):
    """Calls ``session.tick()`` 30 times a second and passes on what changed.

    The first news after a quiet time are taken in as they come: what a person waits for (a run begins, its first
    point) does not wait for the timer. A stream of news is still drawn 30 times a second only.
    """

    news = Signal(Changes)
    """What a round brought, maybe nothing."""
    _rung = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._timer = QTimer(self)
        self._timer.setObjectName("bridge")
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self.tick)
        self._since_news = QElapsedTimer()
        self._at_once = AT_ONCE
        self._showing = 0.0
        self._rung.connect(self._hurry, Qt.ConnectionType.QueuedConnection)  # from the link's thread into this one

    def start(self) -> None:
        """Begin to tick."""
        self._session.on_news(self._rung.emit)
        self._timer.start()

    def stop(self) -> None:
        """Stop ticking."""
        self._session.on_news(lambda: None)
        self._timer.stop()

    def tick(self) -> None:
        """Does one round."""
        changes = self._session.tick(min(max(BUDGET_S[0], self._showing), BUDGET_S[1]))
        taken = time.perf_counter()
        self.news.emit(changes)
        if changes != Changes():
            self._since_news.start()
            self._showing = time.perf_counter() - taken

    def _hurry(self) -> None:
        """News came. The first ones after a quiet time are taken in now; else the timer is about to come round
        anyway."""
        if not self._since_news.isValid() or self._since_news.elapsed() >= INTERVAL_MS:
            self._at_once = AT_ONCE
        if self._at_once and self._timer.isActive():
            self._at_once -= 1
            self._timer.start()
            self.tick()
