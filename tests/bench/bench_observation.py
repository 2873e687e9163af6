"""What recording and watching cost the trainer: processor time a step, against the same loop that returns to nobody."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.bench.measure import Ratio, machine, ratio_of_pairs, table, workers
from tests.bench.work import bench_data

STEPS = {"softmax": 2000, "cnn": 12, "linear-regression": 500_000}
"""Steps of one stretch of a pair: some tenths of a second."""
VIEWERS = {"reader": "a reader that does not paint", "window": "the window, on the same cores"}
METHOD = """Both stretches of a pair are trained by one process with one compiled engine, one right after the other: the
same steps with their arrays returned to nobody, and through the trainer's own loop with journal, supervisor and viewer.
Which comes first changes from pair to pair, and both wait until the viewer has nothing left to do, so that neither an
hour's other load nor the place of things in memory favours one of them. *Trainer* is the processor time of the
training process with all its threads, from the first block until all points are in the journal and on the disk. The
ratio is the median over the pairs, in brackets the bounds between which 95 % of 10,000 bootstrap resamples of the
pairs lie. *Others* are supervisor and viewer; *altogether* is the ratio of all of it to the loop alone. A run's
guard looks at its trainer twenty times a second, whatever is trained, and is not in the table.
Limits: system calls of the kernel on behalf of the process count, the disk's own work does not."""


class Pair(NamedTuple):
    """Processor seconds a step: of the loop alone, of the trainer, and of supervisor and viewer; bytes a step."""

    nobody: float
    trainer: float
    others: float
    size: float

    @staticmethod
    def of(answer: Mapping[str, Any]) -> Pair:
        """From a worker's answer."""
        alone, alone_cpu, _ = answer["nobody"]
        steps, cpu, _ = answer["observed"]
        rest = (answer[name] / steps for name in ("watching", "bytes"))
        return Pair(alone_cpu / alone, cpu / steps, *rest)


def cost(pairs: Sequence[Pair]) -> Ratio:
    """The trainer's processor time with a journal and a viewer, over that of the loop alone."""
    return ratio_of_pairs([pair.trainer for pair in pairs], [pair.nobody for pair in pairs])


def rows(found: Mapping[str, Sequence[Pair]]) -> list[tuple[str, ...]]:
    """One row for each viewer."""
    return [
        (
            VIEWERS[viewer],
            *(f"{1e6 * median(values):.4g}" for values in list(zip(*pairs, strict=True))[:3]),
            f"{cost(pairs):.3f}",
            f"{sum(sum(pair[1:3]) for pair in pairs) / sum(pair.nobody for pair in pairs):.3g}",
        )
        for viewer, pairs in found.items()
    ]


def floor(size: float) -> str:
    """What the bytes of a step cost at the least: a copy in memory, their CRC-32, and the call that writes them."""
    data, into = os.urandom(1 << 19), bytearray(1 << 19)
    target = memoryview(into)

    def copy() -> None:
        target[:] = data

    with tempfile.TemporaryFile(dir=Path.home()) as file:
        parts = {
            "a copy in memory": _cost_of_bytes(copy, len(data)),
            "the CRC-32": _cost_of_bytes(lambda: zlib.crc32(data), len(data)),
            "the call that writes them": _cost_of_bytes(lambda: os.write(file.fileno(), data), len(data)),
        }
    told = ", ".join(f"{name} {1e9 * size * seconds:.2g} ns" for name, seconds in parts.items())
    return f"A step leaves {size:.3g} bytes behind. At the least they cost: {told}."


def _cost_of_bytes(work: Any, size: int) -> float:
    """Processor seconds for a byte: the median of some rounds."""
    found = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(40):
            work()
        found.append((time.process_time() - start) / 40 / size)
    return median(found)


def report(rounds: int, quick: bool) -> str:
    """Measure; the text for people, as Markdown."""
    rounds = 4 if quick else 6 * max(rounds, 7)
    parts = [f"Machine: {machine('pyzmq', 'pyside6')}. {rounds} pairs of stretches. Data: {bench_data().name}."]
    for exercise, steps in STEPS.items():
        words = {viewer: (exercise, viewer, str(steps)) for viewer in VIEWERS}
        with workers("tests.bench.observation_worker", words) as running:
            answers = [{viewer: running[viewer].answer() for viewer in words} for _ in range(rounds)]
        found = {viewer: [Pair.of(answer[viewer]) for answer in answers] for viewer in words}
        head = ("attached", "alone µs", "trainer µs", "others µs", "trainer / alone", "altogether")
        below = floor(median(pair.size for pair in found["reader"]))
        parts.append(f"### `{exercise}`, stretches of {steps:,} steps\n\n{table(head, rows(found))}\n\n{below}")
        print(parts[-1], flush=True)
    return "\n\n".join([*parts, METHOD])


if __name__ == "__main__":
    report(7, "--quick" in sys.argv)
