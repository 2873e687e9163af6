"""The end of a window's program in a process that goes on, as after each test."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

from clew_gui.app import Program


def end_program(program: Program) -> None:
    """Close the window and the program, and delete both. One that was ended before stays as it is."""
    if not isValid(program):
        return
    program.window.close()
    program.close()
    program.window.deleteLater()
    program.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    if isinstance(app := QApplication.instance(), QApplication):
        app.setStyleSheet("")  # the next window is made without one, as a program's first is, and that is quicker
