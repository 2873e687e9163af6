"""Garbage that goes in circles is collected by the GUI's thread alone.

Python runs its collector in whichever thread happens to make the next object. Widgets, pixmaps and timers that go in
circles then end in a thread in which Qt forbids that, and the program breaks down some time later, anywhere. With
links, SSH and ZeroMQ there are always other threads.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

_EVERY_MS = 1000


class Collector(QObject):
    """Puts Python's own collector to rest for as long as the process lives, and does its work now and then, in the
    thread of the event loop."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(collect_due)
        self._timer.start()


def collect_due() -> None:
    """Collect the generations with enough new objects since the last time, by Python's own thresholds."""
    for generation, (made, allowed) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)):
        if made <= allowed:
            return
        gc.collect(generation)
