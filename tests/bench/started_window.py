"""``clew start`` with somebody who looks at it: tells on standard output when the window and its plots were painted.

The way to the window is that of the command: what it imports in which order, and who makes the application.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from clew_gui.commands import start
from clew_gui.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtCore import QEvent, QObject

_BOUND_MS = 60_000
SLOW = ("numpy", "pyqtgraph", "zmq", "paramiko", "tensorflow")
"""Imports that a student would wait for."""
MARK = "-- the window is painted --"


def _tell(what: str) -> None:
    imported = [name for name in SLOW if name in sys.modules]
    found = {"what": what, "at": time.time(), "cpu": time.process_time(), "imported": imported}
    print(json.dumps(found), flush=True)
    print(MARK, file=sys.stderr, flush=True)


def _plots_painted(window: QObject) -> None:
    """From now on all events of the program are seen, until the plots are painted.

    Before, there would be thousands, each at the window's cost.
    """
    from PySide6 import QtCore
    from PySide6.QtWidgets import QApplication

    class Witness(QtCore.QObject):
        def __init__(self) -> None:
            super().__init__(window)
            self._seen = False

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's name
            """Of interest is the first paint of the plots."""
            kind = QtCore.QEvent.Type.Paint
            if event.type() is kind and type(watched.parent()).__name__ == "PlotsView" and not self._seen:
                self._seen = True
                QtCore.QTimer.singleShot(0, self, self._over)
            return False

        def _over(self) -> None:
            _tell("plots")
            QtCore.QTimer.singleShot(0, self, lambda: QApplication.exit(0))

    witness = Witness()
    QApplication.instance().installEventFilter(witness)  # type: ignore[union-attr]
    QtCore.QTimer.singleShot(_BOUND_MS, witness, lambda: QApplication.exit(3))


def _watch() -> None:
    """Let the window that is about to be made tell when it was painted."""
    gc.disable()  # as the command does before it imports the window
    from clew_gui.views.window.window import MainWindow

    def watched(self: MainWindow, *given: Any, init: Callable[..., None] = MainWindow.__init__) -> None:
        init(self, *given)
        self.painted.connect(lambda: _tell("window"))
        self.painted.connect(lambda: _plots_painted(self))

    setattr(MainWindow, "__init__", watched)  # noqa: B010


def run() -> int:
    """Open the window as on a desktop, until its plots are painted."""
    setattr(start, "has_display", lambda *_: True)  # noqa: B010  # Qt paints offscreen

    def has_qt() -> bool:
        _watch()
        return True

    setattr(start, "_has_qt", has_qt)  # noqa: B010  # asked last before the window is imported
    return main(["start", "--exercise", "softmax"])


if __name__ == "__main__":
    sys.exit(run())
