"""Steps per second of the three exercises: Clew against the courses' own loop and Keras ``fit``.

Each contender is a warm process of its own; in every round each of them trains once, in turn, so that a slower hour of
the machine touches all alike. What is no step (imports, compiling, evaluating) is left out for all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tests.bench.measure import Ratio, Timing, interleaved, machine, ratio, short, table, workers
from tests.bench.work import bench_data

BASE = "course"


class Contender(NamedTuple):
    """A way to train: its name for the worker, what it is, and the steps of a round."""

    name: str
    about: str
    steps: int


class Race(NamedTuple):
    """One exercise, the ratio to the courses' loop that was measured before the first release, and who takes part."""

    exercise: str
    expected: float
    contenders: tuple[Contender, ...]


RACES = (
    Race(
        "linear-regression",
        300,
        (
            Contender("clew", "Clew, every step recorded", 200_000),
            Contender("clew-short", "Clew, the course's 1000 steps alone", 1000),
            Contender("course", "course loop, training only", 1000),
            Contender("course-metrics", "course loop, the same metrics fetched", 1000),
            Contender("keras", "Keras fit", 1000),
            Contender("keras-tuned", "Keras fit, 100 steps per execution", 1000),
        ),
    ),
    Race(
        "softmax",
        3.8,
        (
            Contender("clew", "Clew, every step recorded", 500),
            Contender("course", "course loop, training only", 500),
            Contender("course-metrics", "course loop, the same metrics fetched", 500),
            Contender("keras", "Keras fit on arrays", 500),
            Contender("keras-tuned", "Keras fit on tf.data, 50 steps per execution", 500),
        ),
    ),
    Race(
        "cnn",
        1.0,
        (
            Contender("clew", "Clew, every step recorded", 60),
            Contender("course", "course loop, training only", 60),
            Contender("keras", "Keras fit on arrays", 60),
            Contender("keras-tuned", "Keras fit on tf.data, 20 steps per execution, no XLA", 60),
        ),
    ),
)

METHOD = """Each contender is a warm process of its own. In each round every contender trains once, one after the
other, from the same starting point, in an order that moves on by one from round to round. The figures are medians
over the rounds; the ratio is that of the medians, to the courses' loop (a TensorFlow 1 graph, one `session.run` with
the batch fed in per step, nothing fetched). In brackets: between these bounds lie 95 % of 10,000 bootstrap resamples
of the rounds. Only steps are timed: no import, no compiling, no evaluation. Clew's time includes the journal with
every step's metrics on the disk. `result` is the test accuracy (`linear-regression`: the loss) after the round.

Limits: one machine, without a GPU. Absolute figures move by a third from hour to hour; the ratios are what counts.
The gain is that of small models, where starting a step costs more than the step; `cnn` is bound by arithmetic."""


def race(contest: Race, rounds: int) -> dict[str, list[Timing]]:
    """``rounds`` interleaved rounds of all contenders."""
    words = {
        contender.name: (contest.exercise, contender.name, str(contender.steps)) for contender in contest.contenders
    }
    with workers("tests.bench.worker", words) as running:
        return interleaved(running, rounds)


def check_results(exercise: str, timings: Mapping[str, Sequence[Timing]], real: bool) -> None:
    """Raise ``AssertionError`` when a contender was fast because it did something else."""
    results = {name: median(timing.result for timing in found) for name, found in timings.items()}
    if exercise == "linear-regression":
        assert all(result < 1e-9 for result in results.values()), results
    elif exercise == "softmax" and real:
        assert all(abs(result - 0.9079) <= 0.0002 for result in results.values()), results
    else:  # other starting weights and dropout masks: alike, not equal
        assert max(results.values()) - min(results.values()) < 0.12, results


def ratios(timings: Mapping[str, Sequence[Timing]]) -> dict[str, Ratio]:
    """Each contender's rate over the courses' loop."""
    rates = {name: [timing.rate for timing in found] for name, found in timings.items()}
    return {name: ratio(found, rates[BASE]) for name, found in rates.items()}


def rows(contest: Race, timings: Mapping[str, Sequence[Timing]]) -> list[tuple[str, str, str, str]]:
    """One row of the table for each contender."""
    against = ratios(timings)
    return [
        (
            contender.about,
            short(median(timing.rate for timing in timings[contender.name])),
            "1" if contender.name == BASE else str(against[contender.name]),
            f"{median(timing.result for timing in timings[contender.name]):.4g}",
        )
        for contender in contest.contenders
    ]


def report(rounds: int, quick: bool) -> str:
    """Race all three exercises; the text for people, as Markdown."""
    data = bench_data()
    rounds = 3 if quick else max(rounds, 7)
    parts = [f"Machine: {machine()}. {rounds} rounds. Data: {data.name} ({len(data.train.x):,} training images)."]
    for contest in RACES:
        timings = race(contest, rounds)
        check_results(contest.exercise, timings, data.name == "mnist")
        head = ("way to train", "steps/s", "× course loop", "result")
        note = (
            f"Expected about {contest.expected:g} × the courses' loop."
            if contest.expected != 1
            else "Expected: at least equal."
        )
        parts.append(f"### `{contest.exercise}`\n\n{table(head, rows(contest, timings))}\n\n{note}")
        print(parts[-1], flush=True)
    return "\n\n".join([*parts, METHOD])


def main() -> None:
    """``python -m tests.bench.bench_loops [--rounds N] [--quick]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="three rounds")
    options = parser.parse_args()
    report(options.rounds, options.quick)


if __name__ == "__main__":
    main()
