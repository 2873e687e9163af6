"""What the benchmarks share: warm worker processes, ratios with their intervals, and a description of the machine."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_ROOT = Path(__file__).parent.parent.parent
_RESAMPLES = 10_000
USUAL_ROUNDS = 7


class CannotMeasure(Exception):
    """What a benchmark needs is not to be had here; the text says what."""


class Timing(NamedTuple):
    """One round of one contender: how many steps, how long they took, and what came out."""

    steps: int
    seconds: float
    result: float

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


class Ratio(NamedTuple):
    """A ratio of medians with the bounds between which 95 % of its bootstrap resamples lie."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.value)} ({short(self.low)} to {short(self.high)})"

    def __format__(self, form: str) -> str:
        if not form:
            return str(self)
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def short(value: float) -> str:
    """Three significant digits, and thousands in full: 0.813, 3.82, 1,530."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(rates: Sequence[float], base: Sequence[float]) -> Ratio:
    """Median of ``rates`` over median of ``base``. Rounds are resampled in pairs, because they were measured in turn.

    Percentile bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
    """
    above, below = np.asarray(rates, np.float64), np.asarray(base, np.float64)
    picks = np.random.default_rng(1).integers(0, len(above), (_RESAMPLES, len(above)))
    resampled: npt.NDArray[np.float64] = np.median(above[picks], axis=1) / np.median(below[picks], axis=1)
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Ratio(median(rates) / median(base), float(low), float(high))


class Worker:
    """A process that has imported and compiled everything for one contender and runs a round when told to."""

    def __init__(self, module: str, *words: str, python: str = sys.executable) -> None:
        self.first: dict[str, Any] = {}
        """The answer to the round that does not count."""
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # as long as the process
        self.process = subprocess.Popen(
            [python, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=_ROOT,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def answer(self) -> dict[str, Any]:
        """What it says to one round; raises ``RuntimeError`` with its last words when it has died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        status = self.process.wait(10)
        self._errors.seek(0)
        words = self._errors.read()[-2000:]
        raise RuntimeError(f"the worker {self.process.args!r} ended with status {status}:\n{words}")

    def round(self) -> Timing:
        """One round."""
        return Timing(**self.answer())

    def close(self) -> None:
        """Tell the worker to end, and make sure that it does."""
        with suppress(BrokenPipeError):
            self.process.communicate()
        self.process.wait(60)
        self._errors.close()


@contextmanager
def workers(
    module: str, words: Mapping[str, Sequence[str]], pythons: Mapping[str, str] | None = None
) -> Iterator[dict[str, Worker]]:
    """One warm worker by name, each started with its words; each has had a first round that does not count.

    ``pythons`` names the interpreters of those that do not run in this one.
    """
    pythons = pythons or {}
    with ExitStack() as stack:
        found = {}
        for name, arguments in words.items():  # all import at the same time
            found[name] = Worker(module, *arguments, python=pythons.get(name, sys.executable))
            stack.callback(found[name].close)
        for worker in found.values():
            worker.first = worker.answer()
        yield found


def interleaved(running: Mapping[str, Worker], rounds: int) -> dict[str, list[Timing]]:
    """``rounds`` rounds of all workers, one after the other, in an order that moves on by one from round to round."""
    timings: dict[str, list[Timing]] = {name: [] for name in running}
    for number in range(rounds):
        names = list(running)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            timings[name].append(running[name].round())
    return timings


def machine(*names: str) -> str:
    """The processor, its cores, and the versions that count, with those of ``names``."""
    packages = ", ".join(f"{name} {_version(name)}" for name in ("tensorflow", "keras", "numpy", *names))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores, {platform.system()}, Python {platform.python_version()}, {packages}"


def _version(name: str) -> str:
    for distribution in (name, f"{name}-cpu", f"{name}-essentials"):
        try:
            return version(distribution)
        except ImportError:
            continue
    return "unknown"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class Table(NamedTuple):
    """What a benchmark says of each thing, in words and figures as a person reads them."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        return (f"### {self.title}\n\n" if self.title else "") + table(self.head, self.rows)


class Measured(NamedTuple):
    """What a benchmark found, and where: the machine, versions, rounds."""

    conditions: str
    tables: Sequence[Table]
    remarks: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n\n".join([self.conditions, *map(str, self.tables), *self.remarks])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
