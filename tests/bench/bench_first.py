"""From Run clicked to the first point painted, split by stage: agent warm, with ``--no-fork`` and ``--fresh``, and a
plain script.

The real window, offscreen, with an agent of its own, both in a home of their own; Run is pressed as a
click does it, with the course's values. *Warm*: the agent and what it keeps ready have had nothing left to do for a
second. Each stage lasts from the mark before it to its own: when the agent wrote the run's `spec.toml`, the
wall-clock times in the journal, when the window had the first values, when they were painted. Medians of each line
over the rounds, so that lines need not add up. A first run that does not count comes before; it also fills the folder
in which compiled programs are kept, so that what is measured is a student's second run, not the first one after an
installation. The script does the first step of the same model by `tf.function` and reads its loss; it records and
draws nothing. The goal is 0.6 s with a warm agent. Limits: offscreen,
so nothing waits for a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tests.bench.measure import Measured, Table, machine, workers
from tests.bench.work import bench_data

EXERCISES = ("linear-regression", "softmax")
ABOUT = {
    "warm": "Run clicked, agent warm",
    "no-fork": "Run clicked, agent with `--no-fork`: as on Windows, on macOS and with GPUs",
    "fresh": "Run clicked, agent with `--fresh`",
    "plain": "a plain TensorFlow script, from its start to its first loss",
}


def rows(found: Sequence[Mapping[str, float]]) -> list[tuple[str, str]]:
    """Medians by stage in the order of the first round, and of the whole (which is not the sum of medians)."""
    names = list(dict.fromkeys(name for stages in found for name in stages))
    stages = [(name, f"{median(one.get(name, 0.0) for one in found):.3f}") for name in names]
    return [*stages, ("**altogether**", f"**{median(sum(one.values()) for one in found):.3f}**")]


def report(rounds: int, quick: bool) -> Measured:
    """Presses Run in each way in turn."""
    rounds = 2 if quick else max(5, min(rounds, 10))
    tables = []
    for exercise in EXERCISES:
        with workers("tests.bench.first_point_worker", {who: (exercise, who) for who in ABOUT}) as running:
            found: dict[str, list[dict[str, float]]] = {who: [] for who in ABOUT}
            for _ in range(rounds):
                for who, worker in running.items():
                    found[who].append(worker.answer())
        for who, about in ABOUT.items():
            tables.append(Table(f"`{exercise}`: {about}", ("stage", "seconds"), rows(found[who])))
    conditions = f"{machine('pyside6', 'pyqtgraph', 'pyzmq')}. {rounds} rounds. Data: {bench_data().name}."
    return Measured(conditions, tables)
