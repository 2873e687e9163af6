"""What the pulse costs: steps a second with and without a guard that samples its trainer, and the time it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from tests.bench.measure import Ratio, machine, ratio_of_pairs, table, workers
from tests.bench.work import bench_data

EXERCISES = {"softmax": 6.0, "cnn": 6.0}
"""Seconds of one stretch of a pair: several samples fall into it."""
METHOD = """Both stretches of a pair are trained by one process with one compiled engine through the trainer's own loop
and journal, one right after the other and as long as each other: one while a process beside it samples it once a
second, as a run's guard does, and one while that process is stopped. Which comes first changes from pair to pair. The
ratio is the median over the pairs, in brackets the bounds between which 95 % of 10,000 bootstrap resamples of the pairs
lie. *Sampler* is the processor time of the sampling process over the seconds in which it ran, in percent of one
core, *taking* that of the trainer's thread which brings samples into the journal: what is done in addition is the sum
of both, also on a machine whose other work hides it in the ratios."""


class Pair(NamedTuple):
    """Steps a second without and with samples, the trainer's processor seconds a step, and the share of a core that the
    sampler took."""

    without: float
    sampled: float
    trainer_without: float
    trainer_sampled: float
    sampler: float
    samples: int
    taking: float
    """Share of a core with which the trainer takes the samples from the sampler."""

    @staticmethod
    def of(answer: Mapping[str, Any]) -> Pair:
        """From a worker's answer: steps, processor seconds and seconds of each stretch."""
        (steps, cpu, wall), (more, cpu_more, wall_more) = answer["without"], answer["sampled"]
        found = steps / wall, more / wall_more, cpu / steps, cpu_more / more
        return Pair(*found, answer["sampler"] / wall_more, answer["samples"], answer["taking"] / wall_more)


def slower(pairs: Sequence[Pair]) -> Ratio:
    """Steps a second with samples over those without."""
    return ratio_of_pairs([pair.sampled for pair in pairs], [pair.without for pair in pairs])


def row(exercise: str, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The row of one exercise."""
    trainer = ratio_of_pairs([pair.trainer_sampled for pair in pairs], [pair.trainer_without for pair in pairs])
    return (
        exercise,
        f"{median(pair.without for pair in pairs):.4g}",
        f"{median(pair.sampled for pair in pairs):.4g}",
        f"{slower(pairs):.3f}",
        f"{trainer:.3f}",
        f"{100 * median(pair.sampler for pair in pairs):.2f} %",
        f"{100 * median(pair.taking for pair in pairs):.2f} %",
        f"{sum(pair.samples for pair in pairs)}",
    )


def report(rounds: int, quick: bool) -> str:
    """Measure; the text for people, as Markdown."""
    rounds = 3 if quick else 2 * max(rounds, 5)
    found = {}
    for exercise, seconds in EXERCISES.items():
        with workers("tests.bench.pulse_worker", {exercise: (exercise, str(seconds))}) as running:
            found[exercise] = [Pair.of(running[exercise].answer()) for _ in range(rounds)]
    head = (
        "exercise",
        "steps/s alone",
        "sampled",
        "sampled / alone",
        "trainer's CPU a step",
        "sampler",
        "taking",
        "samples",
    )
    told = table(head, [row(exercise, pairs) for exercise, pairs in found.items()])
    print(told, flush=True)
    return (
        f"Machine: {machine('psutil')}. {rounds} pairs of stretches. Data: {bench_data().name}.\n\n{told}\n\n{METHOD}"
    )
