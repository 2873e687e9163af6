"""Steps per second of the three exercises: Clew against the courses' own loop and Keras ``fit``.

Each contender is a warm process of its own; in every round each of them trains once, in turn, so that a slower hour of
the machine touches all alike. What is no step (imports, compiling, evaluating) is left out for all of them.

Each contender is a warm process of its own. Its first round does not count; the results of these first
rounds are compared before anything is timed, and those of all rounds afterwards: the same data in the same order from
the same initial values end at the same loss (`linear-regression`, below 1e-9) or test accuracy (`softmax`, within
0.0002); `cnn` draws its weights and dropout masks by each framework's own generator, so its results are alike and not
equal. In each round every contender trains once, one after the other, from the same starting point, in an order that
moves on by one from round to round. The figures are medians over the rounds; the ratio is that of the medians, to the
courses' loop (a TensorFlow 1 graph, one `session.run` with the batch fed in per step, nothing fetched). In brackets:
between these bounds lie 95 % of 10,000 bootstrap resamples of the rounds. Only steps are timed: no import, no
compiling, no evaluation. Clew is set up as its trainer is (deterministic operations), and its time includes the
journal with every step's metrics in the file. `result` is the test accuracy (`linear-regression`: the loss) after the
round.

Limits: one machine, without a GPU. Absolute figures move by a third from hour to hour; the ratios are what counts.
The gain is that of small models, where starting a step costs more than the step; `cnn` is bound by arithmetic, and
there the frameworks' own kernels decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

from tests.bench.measure import Measured, Ratio, Table, Timing, interleaved, machine, ratio, short, workers
from tests.bench.others import HOW, python_with, version_of
from tests.bench.work import bench_data

BASE = "course"
FOREIGN = ("torch", "jax")
Results = Mapping[str, Sequence[Timing]]


class Contender(NamedTuple):
    """A way to train: its name for the worker, what it is, and the steps of a round."""

    name: str
    about: str
    steps: int


class Race(NamedTuple):
    """One exercise, and who takes part."""

    exercise: str
    contenders: tuple[Contender, ...]


RACES = (
    Race(
        "linear-regression",
        (
            Contender("clew", "Clew, every step recorded", 200_000),
            Contender("clew-short", "Clew, the course's 1000 steps alone", 1000),
            Contender("clew-sync", "the same, until they are on the disk", 1000),
            Contender("course", "course loop, training only", 1000),
            Contender("course-metrics", "course loop, the same metrics fetched", 1000),
            Contender("keras", "Keras fit", 1000),
            Contender("keras-tuned", "Keras fit, 100 steps per execution", 1000),
            Contender("numpy", "NumPy by hand, no metrics", 1000),
            Contender("torch", "PyTorch, eager, no metrics", 1000),
            Contender("jax", "JAX, one scan of all steps, every step's metrics", 1000),
        ),
    ),
    Race(
        "softmax",
        (
            Contender("clew", "Clew, every step recorded", 500),
            Contender("course", "course loop, training only", 500),
            Contender("course-metrics", "course loop, the same metrics fetched", 500),
            Contender("keras", "Keras fit on arrays", 500),
            Contender("keras-tuned", "Keras fit on tf.data, 50 steps per execution", 500),
            Contender("numpy", "NumPy by hand, no metrics", 500),
            Contender("torch", "PyTorch, eager, no metrics", 500),
            Contender("jax", "JAX, one scan of all steps, every step's metrics", 500),
        ),
    ),
    Race(
        "cnn",
        (
            Contender("clew", "Clew, every step recorded", 60),
            Contender("course", "course loop, training only", 60),
            Contender("course-metrics", "course loop, the same metrics fetched", 60),
            Contender("keras", "Keras fit on arrays", 60),
            Contender("keras-tuned", "Keras fit on tf.data, 20 steps per execution, no XLA", 60),
            Contender("torch", "PyTorch, eager, no metrics", 60),
            Contender("torch-tuned", "PyTorch, fused Adam, channels last, no metrics", 60),
            Contender("jax", "JAX, one jitted step a call, no metrics", 60),
        ),
    ),
)


def present(contest: Race) -> Race:
    """The contest without contenders whose framework is not installed."""
    return contest._replace(contenders=tuple(one for one in contest.contenders if python_of(one)))


def python_of(contender: Contender) -> str | None:
    """The interpreter of a contender; None when it has none."""
    family = contender.name.partition("-")[0]
    return python_with(family) if family in FOREIGN else sys.executable


def race(contest: Race, rounds: int, check: Callable[[Results], None] = lambda _: None) -> dict[str, list[Timing]]:
    """``rounds`` interleaved rounds of all contenders, once ``check`` has seen the results of a first round."""
    words = {
        contender.name: (contest.exercise, contender.name, str(contender.steps)) for contender in contest.contenders
    }
    pythons = {contender.name: python_of(contender) or sys.executable for contender in contest.contenders}
    with workers("tests.bench.worker", words, pythons) as running:
        check({name: [Timing(**worker.first)] for name, worker in running.items()})
        return interleaved(running, rounds)


def check_results(exercise: str, timings: Results, real: bool) -> None:
    """Raise ``AssertionError`` when a contender was fast because it did something else."""
    results = {name: median(timing.result for timing in found) for name, found in timings.items()}
    if exercise == "linear-regression":
        assert all(result < 1e-9 for result in results.values()), results
    elif exercise == "softmax" and real:
        assert all(abs(result - 0.9079) <= 0.0002 for result in results.values()), results
    else:  # other starting weights and dropout masks: alike, not equal; untrained is 0.1
        assert min(results.values()) > 0.5, results
        assert max(results.values()) - min(results.values()) < 0.25, results


def ratios(timings: Mapping[str, Sequence[Timing]]) -> dict[str, Ratio]:
    """Each contender's rate over the courses' loop."""
    rates = {name: [timing.rate for timing in found] for name, found in timings.items()}
    return {name: ratio(found, rates[BASE]) for name, found in rates.items()}


def behind(contest: Race, timings: Results) -> str:
    """Which contenders were faster than Clew over as many steps, as a sentence; Clew's own figures aside."""
    rates = {name: median(timing.rate for timing in found) for name, found in timings.items()}
    there = [one for one in contest.contenders if one.name in rates]
    mine = {one.steps: rates[one.name] for one in reversed(there) if one.name.startswith("clew")}
    others = [one for one in there if not one.name.startswith("clew")]
    faster = [one.about for one in others if rates[one.name] > mine.get(one.steps, rates["clew"])]
    return f"Faster than Clew over as many steps: {'; '.join(faster)}." if faster else "None was faster than Clew."


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


def report(rounds: int, quick: bool) -> Measured:
    """Races all three exercises."""
    data = bench_data()
    rounds = 3 if quick else max(rounds, 7)
    others = "".join(f", {name} {version_of(name)}" for name in FOREIGN if python_with(name))
    size = f"{len(data.train.x):,} training images"
    absent = [f"{name} is not installed" for name in FOREIGN if python_with(name) is None]
    tables, remarks = [], [f"{'; '.join(absent)}: {HOW}."] if absent else []
    for contest in map(present, RACES):
        check = partial(check_results, contest.exercise, real=data.name == "mnist")
        timings = race(contest, rounds, check)
        check(timings)
        head = ("way to train", "steps/s", "× course loop", "result")
        tables.append(Table(f"`{contest.exercise}`", head, rows(contest, timings)))
        remarks.append(f"`{contest.exercise}`: {behind(contest, timings)}")
    conditions = f"{machine()}{others}. {rounds} rounds. Data: {data.name} ({size})."
    return Measured(conditions, tables, remarks)
