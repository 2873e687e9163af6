"""``clew start`` with somebody who looks at it: tells on standard output when the window was painted.

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

SLOW = ("numpy", "pyqtgraph", "zmq", "paramiko", "tensorflow")
"""Imports that a student would wait for."""


def _tell() -> None:
    imported = [name for name in SLOW if name in sys.modules]
    print(json.dumps({"at": time.time(), "cpu": time.process_time(), "imported": imported}), flush=True)
    from PySide6.QtWidgets import QApplication

    QApplication.exit(0)


def _watch() -> None:
    """Let the window that is about to be made tell when it was painted."""
    gc.disable()  # as the command does before it imports the window
    from clew_gui.views.window.window import MainWindow

    def watched(self: MainWindow, *given: Any, init: Callable[..., None] = MainWindow.__init__) -> None:
        init(self, *given)
        self.painted.connect(_tell)

    setattr(MainWindow, "__init__", watched)  # noqa: B010


def run() -> int:
    """Open the window as on a desktop, until it is painted."""
    setattr(start, "has_display", lambda *_: True)  # noqa: B010  # Qt paints offscreen

    setattr(start, "check_qt", _watch)  # noqa: B010  # asked last before the window is imported
    return main(["start", "--exercise", "softmax"])


if __name__ == "__main__":
    sys.exit(run())
