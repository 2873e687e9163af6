"""From a changed knob to the first changed pixel while *Play* is on, with the standby forked and without fork.

The real window, offscreen, with an agent of its own; another seed is chosen a second after the try before was painted,
so larger exercises still train then, and are ended first. Limits: offscreen, so nothing waits for a screen.
"""

from __future__ import annotations

from statistics import median

from clew_shared.catalogue import load_builtin
from tests.bench.measure import Measured, Table, machine, workers
from tests.bench.work import bench_data

AGENTS = ("warm", "no-fork")


def report(rounds: int, quick: bool) -> Measured:
    """Changes the seed so many times in each exercise that plays."""
    rounds, rows = 3 if quick else max(rounds, 10), []
    for exercise in (card.id for card in load_builtin().exercises if card.plays):
        for who in AGENTS:  # one after the other: the last try of each trains on until its window closes
            with workers("tests.bench.first_point_worker", {who: (exercise, who, "play")}) as running:
                found = [sum(running[who].answer().values()) for _ in range(rounds)]
            rows.append((f"`{exercise}`, {who}", f"{median(found):.3f}", f"{max(found):.3f}"))
    conditions = f"{machine('pyside6', 'pyqtgraph', 'pyzmq')}. {rounds} rounds. Data: {bench_data().name}."
    return Measured(conditions, [Table("", ("exercise, agent", "seconds", "worst"), rows)])
