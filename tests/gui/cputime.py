"""How much of its own CPU time the GUI thread burns for one event: time that others take from it does not count."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QApplication


@dataclass
class Spent:
    """Seconds of CPU time of each event that took more than a millisecond, with what it was."""

    events: list[tuple[float, str]] = field(default_factory=list)

    @property
    def worst(self) -> tuple[float, str]:
        """The longest, (0, "") when all were short."""
        return max(self.events, default=(0.0, ""))


class MeasuredApplication(QApplication):
    """An application that can measure what its thread does with each event. Only the outermost event counts."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.spent: Spent | None = None
        self._depth = 0

    def notify(self, receiver: QObject, event: QEvent) -> bool:
        """Deliver one event."""
        if self.spent is None or self._depth:
            return super().notify(receiver, event)
        what = f"{event.type().name} to {type(receiver).__name__} {receiver.objectName()!r}"
        self._depth += 1
        begun = time.thread_time()
        try:
            return super().notify(receiver, event)
        finally:
            took = time.thread_time() - begun
            self._depth -= 1
            if took > 0.001:
                self.spent.events.append((took, what))


@contextmanager
def measured() -> Iterator[Spent]:
    """Measure every event that is delivered meanwhile.

    The garbage collector looks at what comes from now on, as in a program that has settled: what earlier tests and
    their libraries left in this process is not the window's.
    """
    app = QCoreApplication.instance()
    assert isinstance(app, MeasuredApplication)
    gc.collect()
    gc.freeze()
    app.spent = spent = Spent()
    try:
        yield spent
    finally:
        app.spent = None
        gc.unfreeze()


def worst_event(act: Callable[[], None], limit: float, rounds: int = 3) -> tuple[float, str]:
    """The longest event (seconds, what it was) while ``act`` runs, as on a machine that does nothing else.

    Others come and go on the machine: of up to ``rounds`` the best one counts, and one below ``limit`` is enough.
    """
    worst = _worst_of(act)
    for _ in range(rounds - 1):
        worst = worst if worst[0] < limit else min(worst, _worst_of(act))
    return worst


def _worst_of(act: Callable[[], None]) -> tuple[float, str]:
    before = slowness()
    with measured() as spent:
        act()
    seconds, what = spent.worst
    return seconds / max(before, slowness()), what


_TURNS = 300_000
_TURNS_S = 0.006
"""What so many turns of an empty loop take on a machine of 2026 that does nothing else."""


def slowness() -> float:
    """How much slower than that this machine is now, 1 at least: a neighbour on the same core may double everything."""
    return max(1.0, min(_turns() for _ in range(20)) / _TURNS_S)


def _turns() -> float:
    begun = time.thread_time()
    for _ in range(_TURNS):
        pass
    return time.thread_time() - begun
