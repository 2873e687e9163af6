"""Keeps one window for each of a person's homes: a second start raises the first window, because both would write
mirrors. The first one then also opens the file that the second was to open.

The first window is known by a lock, at once. It listens for further starts before it is shown.
"""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import QCryptographicHash, QDir, QLockFile, QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

_ANSWER_MS = 500
"""A window that lives takes the connection at once, whatever it is doing; a name left by a dead one refuses it."""
_PAINTED_S = 5.0
"""Bound on the wait for a window that has just started and does not listen yet."""
_PAUSE_S = 0.05


class OneWindow(QObject):
    """Holds a lock and a local socket named after ``home``; ``raised`` says that someone started Clew again, and with
    which file, if with any."""

    raised = Signal(str)

    def __init__(self, home: Path, patience: float = _PAINTED_S) -> None:
        """``patience``: seconds to wait for a first window that does not answer yet."""
        super().__init__()
        digest = QCryptographicHash.hash(str(home.absolute()).encode(), QCryptographicHash.Algorithm.Sha256)
        self._name = f"clew-{bytes(digest.toHex().data()).decode()[:20]}"
        self._patience = patience
        self._lock = QLockFile(QDir.temp().filePath(f"{self._name}.lock"))
        self._lock.setStaleLockTime(0)  # a window may stand for weeks; a dead one is known by its process
        self._server: QLocalServer | None = None
        self._callers: list[QLocalSocket] = []

    def claim(self, file: str = "") -> bool:
        """Whether this is the first window; otherwise the other one has been asked to come forward, and to open
        ``file``.

        Where no lock can be made, or nobody answers, a second window is better than none.
        """
        if self._lock.tryLock(0) or self._lock.error() is not QLockFile.LockError.LockFailedError:
            return True
        until = time.monotonic() + self._patience
        while not self._ask_other(file):
            if self._lock.tryLock(0) or time.monotonic() > until:
                return True
            time.sleep(_PAUSE_S)
        return False

    def _ask_other(self, file: str) -> bool:
        """Whether the first window was there and was asked."""
        other = QLocalSocket()
        other.connectToServer(self._name)
        if not other.waitForConnected(_ANSWER_MS):
            return False
        other.write(file.encode())
        other.disconnectFromServer()
        if other.state() is not QLocalSocket.LocalSocketState.UnconnectedState:
            other.waitForDisconnected(_ANSWER_MS)
        return True

    def listen(self) -> None:
        """Listen for further starts from now on."""
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._greet)
        QLocalServer.removeServer(self._name)  # what a killed window left
        self._server.listen(self._name)

    def release(self) -> None:
        """Let the next window be the first."""
        if self._server is not None:
            self._server.close()
        self._lock.unlock()

    def _greet(self) -> None:
        while self._server is not None and (caller := self._server.nextPendingConnection()) is not None:
            self._callers.append(caller)
            caller.disconnected.connect(self._hear)
        self._hear()

    def _hear(self) -> None:
        """Reads what those have said who have said all: the name of a file, or nothing."""
        for caller in list(self._callers):
            if caller.state() is QLocalSocket.LocalSocketState.UnconnectedState:
                self._callers.remove(caller)
                file = bytes(caller.readAll().data()).decode("utf-8", "replace")
                caller.deleteLater()
                self.raised.emit(file)
