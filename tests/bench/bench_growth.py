"""How what a command takes grows with its size: steps of a run, runs in a home, sites, hand-ins of a class.

Processor seconds and memory of each command in a process of its own, with Python's start; medians of the
rounds, files in the page cache, homes summed up before. A command takes a + b · size: *each* is b from the two largest
sizes, and the last column is what that makes of a size that was not tried.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from clew_gui.charts.measured import quantity_text
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_shared.base.places import Places
from tests.bench.bench_journal import make_folder
from tests.bench.measure import Measured, Table, machine
from tests.bench.semester import Took, command, fill
from tests.unit.runs import RUN

SIZES = {
    "clew show, steps of the run": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    "clew runs, runs in the home": (10, 100, 1_000, 10_000),
    "clew runs --filter, runs": (10, 100, 1_000, 10_000),
    "clew site list, sites": (1, 10, 100, 1_000),
    "clew class, hand-ins": (1, 10, 100),
}
BEYOND = {
    "clew show, steps of the run": 1_000_000_000,
    "clew runs, runs in the home": 1_000_000,
    "clew runs --filter, runs": 1_000_000,
    "clew site list, sites": 1_000,
    "clew class, hand-ins": 1_000,
}


def report(rounds: int, quick: bool) -> Measured:
    """Runs each command at each size."""
    rounds = 1 if quick else min(rounds, 3)
    found: dict[str, list[tuple[int, Took]]] = {}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        for number, (name, sizes) in enumerate(SIZES.items()):
            for size in sizes[:2] if quick else sizes:
                home = Path(folder, f"{number}-{size}")
                words = _MAKERS[name](home, size)
                command(home, *words)  # numbers and sums up
                took = [command(home, *words) for _ in range(rounds)]
                middle = Took(median(one.seconds for one in took), median(one.memory for one in took))
                found.setdefault(name, []).append((size, middle))
                shutil.rmtree(home)
    head = ("what", "size", "seconds", "MB", "each", "at a size not tried")
    return Measured(f"{machine('msgspec')}. {rounds} rounds.", (Table("", head, rows(found)),))


def rows(found: dict[str, list[tuple[int, Took]]]) -> list[tuple[str, ...]]:
    """The table's lines: of each command its sizes, and what the two largest say of a larger one."""
    lines: list[tuple[str, ...]] = []
    for name, measured in found.items():
        (size, less), (largest, most) = measured[-2:]
        each = max(0.0, (most.seconds - less.seconds) / (largest - size))
        for number, (count, one) in enumerate(measured):
            last = number == len(measured) - 1
            there = most.seconds + each * (BEYOND[name] - largest)
            beyond = f"{BEYOND[name]:,}: {there:,.0f} s" if last and BEYOND[name] > count else ""
            slope = quantity_text(each, "s") if last else ""
            lines.append((name, f"{count:,}", f"{one.seconds:.2f}", f"{one.memory:.0f}", slope, beyond))
    return lines


def _steps(home: Path, size: int) -> list[str]:
    make_folder(home / "runs" / RUN, 2 * size)
    return ["show", "last"]


def _runs(home: Path, size: int) -> list[str]:
    fill(Places(home, home / "private"), size)
    return ["runs"]


def _filtered(home: Path, size: int) -> list[str]:
    return [*_runs(home, size), "--filter", "learning_rate > 0.5"]


def _sites(home: Path, size: int) -> list[str]:
    store = site_store(Places(home, home / "private"))
    for number in range(size):
        store.save(f"site{number}", Site(title=f"Site {number}", host=f"login{number}.example.org", scheduler="slurm"))
    return ["site", "list"]


def _class(home: Path, size: int) -> list[str]:
    fill(Places(home, home / "private"), size)
    command(home, "runs")
    for number in range(1, size + 1):
        file = home / "class" / f"{number}.clew.zip"
        command(home, "hand-in", str(number), "--student", f"Student {number}", "--out", str(file))
    return ["class", str(home / "class")]


_MAKERS: dict[str, Callable[[Path, int], list[str]]] = dict(
    zip(SIZES, (_steps, _runs, _filtered, _sites, _class), strict=True)
)
