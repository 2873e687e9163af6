"""A program that the window runs beside itself, and whose answer it waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QProcess, QTimer

_GONE_MS = 1000
"""Bound on the wait for a process that was killed."""


class SideProcess(QObject):
    """Runs one program at a time, for at most ``within_ms``; 0 is as long as it takes."""

    def __init__(self, parent: QObject, name: str, within_ms: int = 0) -> None:
        super().__init__(parent)
        self._process: QProcess | None = None
        self._limit = QTimer(self, singleShot=True, interval=within_ms)
        self._limit.setObjectName(name)
        self._limit.timeout.connect(lambda: self._end(None, ""))
        self._answer: Callable[[int | None, str], object] = lambda _code, _output: None

    def run(self, command: Sequence[str], answer: Callable[[int | None, str], object], errors: bool = True) -> None:
        """Start a program; the one before ends and is not heard of any more. ``answer`` is called with its exit code
        and its output, with what it wrote as ``errors``; with -1 and the reason if it cannot start or crashes; with
        None if its time is over."""
        self.stop()
        self._answer = answer
        process = self._process = QProcess(self)
        if errors:
            process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._broken)
        process.start(command[0], command[1:])
        if self._limit.interval():
            self._limit.start()

    def stop(self) -> None:
        """End the program; nobody is called."""
        self._limit.stop()
        process, self._process = self._process, None
        if process is not None:
            process.blockSignals(True)
            process.kill()
            process.waitForFinished(_GONE_MS)
            process.deleteLater()

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._process is not None:
            output = bytes(self._process.readAll().data()).decode("utf-8", "replace")
            self._end(code if status is QProcess.ExitStatus.NormalExit else -1, output or self._process.errorString())

    def _broken(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            self._end(-1, self._process.errorString())

    def _end(self, code: int | None, output: str) -> None:
        self.stop()
        self._answer(code, output)
