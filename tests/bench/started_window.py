"""``clew start`` with somebody who looks at it: tells on standard output when the window and its plots were painted."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication

from clew_gui.cli import main

_BOUND_MS = 60_000
_SLOW = ("numpy", "pyqtgraph", "zmq", "paramiko", "tensorflow")
MARK = "-- the window is painted --"


class Witness(QObject):
    """Is told by the window that it was painted; from then on sees all events of the program, until the plots are.

    Before, it would see thousands, each at the window's cost.
    """

    def __init__(self, app: QApplication) -> None:
        super().__init__()
        self._app, self._seen = app, False

    def window_painted(self) -> None:
        """The first paint of the window is over."""
        self._over("window")
        self._app.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's name
        """Of interest is the first paint of the plots."""
        if event.type() is QEvent.Type.Paint and type(watched.parent()).__name__ == "Ground" and not self._seen:
            self._seen = True
            QTimer.singleShot(0, self, lambda: self._over("plots"))
        return False

    def _over(self, what: str) -> None:
        imported = [name for name in _SLOW if name in sys.modules]
        found = {"what": what, "at": time.time(), "cpu": time.process_time(), "imported": imported}
        print(json.dumps(found), flush=True)
        print(MARK, file=sys.stderr, flush=True)
        if what == "plots":
            QTimer.singleShot(0, self, lambda: QApplication.exit(0))


def run() -> int:
    """Open the window as on a desktop, until its plots are painted."""
    gc.disable()  # as clew start does before it imports the window
    from clew_gui.commands import start
    from clew_gui.views.window import MainWindow

    def watched(self: MainWindow, *given: Any, init: Callable[..., None] = MainWindow.__init__) -> None:
        init(self, *given)
        self.painted.connect(witness.window_painted)

    setattr(MainWindow, "__init__", watched)  # noqa: B010
    setattr(start, "has_display", lambda *_: True)  # noqa: B010  # Qt paints offscreen
    app = QApplication(sys.argv[:1])
    witness = Witness(app)
    QTimer.singleShot(_BOUND_MS, witness, lambda: QApplication.exit(3))
    return main(["start", "--exercise", "softmax"])


if __name__ == "__main__":
    sys.exit(run())
