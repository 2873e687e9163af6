"""How much of its own CPU time the GUI thread burns for one event: time that others take from it does not count."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MethodType

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


@contextmanager
def measured() -> Iterator[Spent]:
    """Measure every event that is delivered meanwhile.

    The garbage collector looks at what comes from now on, as in a program that has settled: what earlier tests and
    their libraries left in this process is not the window's.
    """
    app = QCoreApplication.instance()
    assert isinstance(app, QApplication)
    spent = Spent()
    gc.collect()
    gc.freeze()
    # For so long only: a method in Python, which a class of ours would have for good, makes each event dearer.
    app.notify = MethodType(_measuring(spent), app)  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        del app.notify
        gc.unfreeze()


def _measuring(spent: Spent) -> Callable[[QApplication, QObject, QEvent], bool]:
    """How an application delivers an event while it is measured. Only the outermost event counts."""
    depth = 0

    def notify(app: QApplication, receiver: QObject, event: QEvent) -> bool:
        nonlocal depth
        if depth:
            return QApplication.notify(app, receiver, event)
        what = f"{event.type().name} to {type(receiver).__name__} {receiver.objectName()!r}"
        depth += 1
        begun = time.thread_time()
        try:
            return QApplication.notify(app, receiver, event)
        finally:
            took = time.thread_time() - begun
            depth -= 1
            if took > 0.001:
                spent.events.append((took, what))

    return notify


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
