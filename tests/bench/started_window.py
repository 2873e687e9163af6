"""``clew start`` with somebody who looks at it: tells on standard output when the window and its plots were painted."""

from __future__ import annotations

import json
import sys
import time

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from clew_gui.cli import main

_BOUND_MS = 60_000
_SLOW = ("numpy", "pyqtgraph", "zmq", "paramiko", "tensorflow")
MARK = "-- the window is painted --"


class Witness(QObject):
    """Sees all events of the program; what is painted is told once the paint is over."""

    def __init__(self) -> None:
        super().__init__()
        self.told: set[str] = set()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's name
        """Of interest are the first paint in the window and the first one of the plots."""
        if event.type() is QEvent.Type.Paint and isinstance(watched, QWidget):
            if "window" not in self.told and isinstance(watched.window(), QMainWindow):
                self._tell("window")
            elif "plots" not in self.told and type(watched.parent()).__name__ == "Ground":
                self._tell("plots")
        return False

    def _tell(self, what: str) -> None:
        self.told.add(what)
        QTimer.singleShot(0, self, lambda: self._over(what))

    def _over(self, what: str) -> None:
        imported = [name for name in _SLOW if name in sys.modules]
        found = {"what": what, "at": time.time(), "cpu": time.process_time(), "imported": imported}
        print(json.dumps(found), flush=True)
        print(MARK, file=sys.stderr, flush=True)
        if what == "plots":
            QTimer.singleShot(0, self, lambda: QApplication.exit(0))


def run() -> int:
    """Open the window as on a desktop, until its plots are painted."""
    from clew_gui.commands import start

    setattr(start, "has_display", lambda *_: True)  # noqa: B010  # Qt paints offscreen
    app = QApplication(sys.argv[:1])
    witness = Witness()
    app.installEventFilter(witness)
    QTimer.singleShot(_BOUND_MS, witness, lambda: QApplication.exit(3))
    return main(["start", "--exercise", "softmax"])


if __name__ == "__main__":
    sys.exit(run())
