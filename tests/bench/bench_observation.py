"""What recording and watching cost the trainer: processor time a step, against the same loop that returns to nobody."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import median

from tests.bench.measure import Timing, interleaved, machine, ratio, table, workers

STEPS = {"softmax": 4000, "cnn": 60, "linear-regression": 1_000_000}
ABOUT = {
    "nobody": "the same blocks, their arrays returned to nobody",
    "reader": "journal, supervisor and a reader that does not paint",
    "window": "journal, supervisor and the window, on the same cores",
}
GOAL = 1.02
METHOD = """The figure is the processor time of the training process, with all of its threads, divided by the steps:
what a viewer on the same cores burns is its own. Each contender is a warm process; in each round each of them trains
the same steps, in turn, after compiling and without evaluations and checkpoints. The viewer is attached before the
first block. The ratio is that of the medians; in brackets the bounds between which 95 % of 10,000 bootstrap resamples
of the rounds lie. `wall` is the rate by the clock on the wall, where a viewer on the same cores does show.

The goal is at most 1.02 with a reader that does not paint. It is about steps that compute something: a step of
`linear-regression` takes a tenth of a microsecond and leaves 24 bytes behind, which are hashed, summed and written at
a quarter of a gigabyte a second; recording it costs about as much as computing it, and the course's 1000 steps take a
millisecond with both."""


def rows(timings: Mapping[str, Sequence[Timing]]) -> list[tuple[str, str, str, str]]:
    """One row for each contender."""
    costs = {who: [timing.seconds / timing.steps for timing in found] for who, found in timings.items()}
    return [
        (
            ABOUT[who],
            f"{1e6 * median(costs[who]):.4g}",
            "1" if who == "nobody" else f"{ratio(costs[who], costs['nobody']):.3f}",
            f"{median(timing.result for timing in timings[who]):,.0f}",
        )
        for who in ABOUT
    ]


def report(rounds: int, quick: bool) -> str:
    """Measure; the text for people, as Markdown."""
    rounds = 2 if quick else max(rounds, 7)
    parts = [f"Machine: {machine()}. {rounds} rounds."]
    for exercise, steps in STEPS.items():
        words = {who: (exercise, who, str(steps)) for who in ABOUT}
        with workers("tests.bench.observation_worker", words) as running:
            timings = interleaved(running, rounds)
        head = ("trainer", "processor µs a step", "× nobody", "wall steps/s")
        parts.append(f"### `{exercise}`, {steps:,} steps\n\n{table(head, rows(timings))}")
        print(parts[-1], flush=True)
    return "\n\n".join([*parts, METHOD])


if __name__ == "__main__":
    report(7, "--quick" in sys.argv)
