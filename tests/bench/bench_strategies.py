"""What spreading over devices costs beside a loop of ``tf.distribute`` that does the same work and records nothing.

Two logical devices of one processor; each contender is a warm process of its own, and all take turns.
Ratios are to the bare loop. In brackets are the bounds of 95 % of 10,000 bootstrap resamples of the rounds. The bare
loop builds its model with Keras and takes Keras' dropout, whose random numbers cannot be resumed; it has no metrics but
the loss. Limits: a processor and no GPU: what is measured is the cost of spreading, not its gain.
"""

from __future__ import annotations

from statistics import median

from tests.bench.bench_loops import Contender, Race, race
from tests.bench.measure import Measured, Table, machine, ratio, short
from tests.bench.work import bench_data

BARE = "distribute-tuned"
STEPS = {"softmax": 500, "cnn": 40}
CONTENDERS = {
    "clew-mirrored": "Clew, `mirrored`, every step recorded",
    "clew-local-sgd": "Clew, `local-sgd`, averaged every 10 steps",
    BARE: "tf.distribute, many steps in one compiled loop, nothing recorded",
    "distribute-plain": "tf.distribute as in its guide: a dataset, one call for each step",
    "clew": "Clew, one device",
}


def report(rounds: int, quick: bool) -> Measured:
    """Races each exercise."""
    data = bench_data()
    rounds = 3 if quick else rounds
    rows = []
    for exercise, steps in STEPS.items():
        entries = tuple(Contender(name, about, steps) for name, about in CONTENDERS.items())
        timings = race(Race(exercise, entries), rounds)
        rates = {name: [timing.rate for timing in found] for name, found in timings.items()}
        rows += [
            (
                f"`{exercise}`",
                about,
                short(median(rates[name])),
                "1" if name == BARE else str(ratio(rates[name], rates[BARE])),
                f"{median(timing.result for timing in timings[name]):.4g}",
            )
            for name, about in CONTENDERS.items()
        ]
    head = ("exercise", "loop", "steps/s", "× the bare loop", "test accuracy")
    conditions = f"{machine()}. {rounds} rounds. Data: {data.name} ({len(data.train.x):,} training images)."
    return Measured(conditions, (Table("", head, rows),))
