"""What choices are worth: compiled by XLA or not, the fused Adam or Keras' own, updates in turn or at once."""

from __future__ import annotations

from statistics import median

from tests.bench.bench_loops import Contender, Race, race
from tests.bench.measure import machine, ratio, short, table
from tests.bench.work import bench_data

CHOSEN = "clew"
RACES = (
    Race(
        "linear-regression",
        1.0,
        (
            Contender(CHOSEN, "as it is: compiled by XLA", 20_000),
            Contender("clew-other", "not compiled by XLA", 2_000),
        ),
    ),
    Race(
        "softmax",
        1.0,
        (
            Contender(CHOSEN, "as it is: compiled by XLA", 500),
            Contender("clew-other", "not compiled by XLA", 500),
        ),
    ),
    Race(
        "cnn",
        1.0,
        (
            Contender(CHOSEN, "as it is: TensorFlow's kernels, fused Adam, updates in turn", 40),
            Contender("clew-unfused", "TensorFlow's kernels, Keras' own Adam", 40),
            Contender("clew-at-once", "TensorFlow's kernels, fused Adam, updates at once", 40),
        ),
    ),
)
METHOD = """The training loop as in the table above, with one choice turned round; each contender is a
warm process of its own, and all take turns. Ratios are to what Clew does: below 1 it is right. In
brackets are the bounds of 95 % of 10,000 bootstrap resamples of the rounds. XLA cannot compile `cnn`: it has no
deterministic gradient of a pooling. Limits: a processor and no GPU; each exercise's own values, other batch sizes may
choose otherwise."""


def report(rounds: int, quick: bool) -> str:
    """Race each exercise against itself; the text for people, as Markdown."""
    data = bench_data()
    rounds = 3 if quick else rounds
    parts = [f"Machine: {machine()}. {rounds} rounds. Data: {data.name} ({len(data.train.x):,} training images)."]
    rows = []
    for contest in RACES:
        timings = race(contest, rounds)
        rates = {name: [timing.rate for timing in found] for name, found in timings.items()}
        rows += [
            (
                f"`{contest.exercise}`",
                one.about,
                short(median(rates[one.name])),
                "1" if one.name == CHOSEN else str(ratio(rates[one.name], rates[CHOSEN])),
            )
            for one in contest.contenders
        ]
    parts.append(table(("exercise", "kernels", "steps/s", "× as it is"), rows))
    print(parts[-1], flush=True)
    return "\n\n".join([*parts, METHOD])
