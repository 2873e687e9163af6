"""From the start of a process to the painted window, and to an agent that can be found; what is imported by then.

Seconds from just before the start of the process. The window is that of `clew start` on a home without
runs, painted offscreen, with its plots: to the end of its first paint. The agent is `clew-agent serve`: until the
file that tells where it listens is there. Medians over the rounds, window and agent in turn; files are in the page
cache, modules are compiled. Processor seconds are those of the process up to that moment, in all threads: they suffer
less from other load. What the agent imports by then was asked once with `-X importtime`.
Limits: without a display nothing reaches a screen; the first start after an installation
also reads from the disk, and a real platform's plugin costs its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from clew_gui.targets.local_agent import find_agent
from clew_shared.base.places import Places
from tests.bench.agents import end_agent
from tests.bench.measure import Measured, Table, machine
from tests.bench.started_window import SLOW

_BOUND_S = 60.0
_IMPORT = re.compile(r"import time:\s+\d+ \|\s+\d+ \|\s+(\S+)")
WINDOW, AGENT = "window painted", "supervisor ready"
GOALS = {WINDOW: "0.7", AGENT: "0.3"}


class Reached(NamedTuple):
    """A moment: seconds since the start, the process's own processor seconds, and which slow packages were imported."""

    seconds: float
    cpu: float
    imported: tuple[str, ...] = ()


@contextmanager
def _home() -> Iterator[dict[str, str]]:
    """The environment of a program with a home of its own, whose agent is ended."""
    folder = tempfile.mkdtemp(prefix="clew-bench-")
    try:
        yield {**os.environ, "CLEW_HOME": folder, "QT_QPA_PLATFORM": "offscreen"}
    finally:
        end_agent(Places(Path(folder), Path(folder)))
        shutil.rmtree(folder, ignore_errors=True)


def window() -> Reached:
    """One start of the window."""
    with _home() as environment:
        begin = time.time()
        command = [sys.executable, "-m", "tests.bench.started_window"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_BOUND_S, check=False)
    if done.returncode != 0 or not done.stdout.startswith("{"):
        raise RuntimeError(f"the window ended with status {done.returncode}: {done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return Reached(told["at"] - begin, told["cpu"], tuple(told["imported"]))


def agent(*flags: str) -> tuple[Reached, str]:
    """One start of the supervisor, and what it said on standard error."""
    with _home() as environment, tempfile.TemporaryFile("w+") as errors:
        places = Places(Path(environment["CLEW_HOME"]), Path(environment["CLEW_HOME"]))
        begin = time.time()
        command = [sys.executable, *flags, "-P", "-m", "clew_agent", "serve"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors, env=environment)
        while not list(places.agents.glob("*.json")):
            if process.poll() is not None or time.time() - begin > _BOUND_S:
                raise RuntimeError("the agent did not come up")
            time.sleep(0.001)
        reached = Reached(time.time() - begin, sum(psutil.Process(process.pid).cpu_times()[:2]))
        while find_agent(places) is None:  # the file is there; now it can be ended by what stands in it
            time.sleep(0.01)
        end_agent(places)
        process.wait(_BOUND_S)
        errors.seek(0)
        return reached, errors.read()


def slow(text: str) -> tuple[str, ...]:
    """Which of the slow packages were imported, by what `-X importtime` said."""
    modules = set(_IMPORT.findall(text))
    return tuple(name for name in SLOW if name in modules)


def rows(found: dict[str, list[Reached]]) -> list[tuple[str, str, str, str, str]]:
    """The table's lines."""
    return [
        (
            name,
            f"{median(one.seconds for one in moments):.2f}",
            f"{median(one.cpu for one in moments):.2f}",
            GOALS.get(name, ""),
            ", ".join(moments[-1].imported) or "none",
        )
        for name, moments in found.items()
    ]


def report(rounds: int, quick: bool) -> Measured:
    """Starts both in turn."""
    rounds = 2 if quick else max(rounds, 9)
    found: dict[str, list[Reached]] = {WINDOW: [], AGENT: []}
    for number in range(rounds + 1):
        moments = {WINDOW: window(), AGENT: agent()[0]}
        if number:  # the first one reads from the disk
            for name, moment in moments.items():
                found[name].append(moment)
    head = ("what", "seconds", "processor seconds", "goal", "imported of the slow ones")
    told = agent("-X", "importtime")[1]
    found[AGENT].append(found[AGENT].pop()._replace(imported=slow(told)))
    conditions = f"{machine('pyside6', 'pyzmq', 'msgspec')}. {rounds} rounds."
    return Measured(conditions, (Table("", head, rows(found)),))
