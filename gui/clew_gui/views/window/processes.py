"""Programs that the window runs beside itself and whose answer it waits for."""

from __future__ import annotations

from PySide6.QtCore import QProcess

_GONE_MS = 1000
"""Bound on the wait for a process that was killed."""


def end_unheard(process: QProcess | None) -> None:
    """End a process without hearing of it any more; None is none."""
    if process is not None:
        process.blockSignals(True)
        process.kill()
        process.waitForFinished(_GONE_MS)
        process.deleteLater()
