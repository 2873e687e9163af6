"""One window for each of a person's homes: a second start raises the first window, because both would write mirrors."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QCryptographicHash, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

_ANSWER_MS = 500
"""A window that lives takes the connection at once, whatever it is doing; a name left by a dead one refuses it."""


class OneWindow(QObject):
    """Holds a local socket named after ``home``; ``raised`` says that somebody started Clew again."""

    raised = Signal()

    def __init__(self, home: Path) -> None:
        super().__init__()
        digest = QCryptographicHash.hash(str(home.absolute()).encode(), QCryptographicHash.Algorithm.Sha256)
        self._name = f"clew-{bytes(digest.toHex().data()).decode()[:20]}"
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._greet)

    def claim(self) -> bool:
        """Whether this is the first window; otherwise the other one has been asked to come forward.

        Where no such socket can be made, a second window is better than none.
        """
        other = QLocalSocket()
        other.connectToServer(self._name)
        if other.waitForConnected(_ANSWER_MS):
            other.disconnectFromServer()
            return False
        QLocalServer.removeServer(self._name)  # what a killed window left
        self._server.listen(self._name)
        return True

    def release(self) -> None:
        """Let the next window be the first."""
        self._server.close()

    def _greet(self) -> None:
        while (caller := self._server.nextPendingConnection()) is not None:
            caller.disconnected.connect(caller.deleteLater)
            caller.disconnectFromServer()
            self.raised.emit()
