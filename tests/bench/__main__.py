"""``make bench``: run the benchmarks, print their tables, and keep them in docs/benchmarks.md.

``python -m tests.bench [--only NAME]... [--rounds N] [--quick]``. A quick run only prints.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from tests.bench.measure import USUAL_ROUNDS, CannotMeasure

_HERE = Path(__file__).parent
_PAGE = _HERE.parent.parent / "docs" / "benchmarks.md"
_TITLES = {
    "start": "From start to window and agent",
    "first": "From Run clicked to the first point",
    "site": "From Run to the first point on a cluster",
    "loops": "Speed of the training loop",
    "strategies": "Two devices beside bare tf.distribute",
    "observation": "What recording and watching cost",
    "pulse": "What the pulse costs",
    "journal": "A journal of ten million points",
    "plot": "Drawing and panning curves",
    "semester": "A home of ten thousand runs, and a run of ten million steps",
    "growth": "How commands grow with their sizes",
    "compare": "A thousand runs in the table and in Compare",
}
_HEAD = "# Benchmarks\n"


def names() -> list[str]:
    """The benchmarks here in the order of the page: ``loops`` is ``bench_loops.py``."""
    found = [path.stem.removeprefix("bench_") for path in sorted(_HERE.glob("bench_*.py"))]
    order = [*_TITLES]
    return sorted(found, key=lambda name: order.index(name) if name in order else len(order))


def measure(name: str, rounds: int, quick: bool) -> str:
    """The report of one benchmark as Markdown, under the date, what else the machine did, and how long it took."""
    report: Callable[[int, bool], str] = import_module(f"tests.bench.bench_{name}").report
    load, begin = _load(), time.monotonic()
    text = report(rounds, quick)
    return f"{today()}, {load} before, measured in {time.monotonic() - begin:.0f} s. {text}"


def _compile_modules() -> None:
    """As after the first start of an installed program, also where the environment forbids Python to keep bytecode."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for folder in ("shared", "agent", "gui"):
        compileall.compile_dir(_HERE.parent.parent / folder, quiet=2)


def today() -> str:
    """The day of the measurement."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _load() -> str:
    """How many processes wanted a core in the last minute, where the system tells."""
    return f"load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"


def updated(page: str, name: str, text: str) -> str:
    """``page`` with the generated part of benchmark ``name`` replaced; what stands around it stays.

    Added at the end with its heading when the page has no such part.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{text}\n{end}"
    if begin not in page or end not in page:
        return f"{page.rstrip()}\n\n## {_TITLES.get(name, name)}\n\n{section}\n"
    head, _, rest = page.partition(begin)
    return f"{head}{section}{rest.partition(end)[2]}"


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", choices=names(), help=", ".join(names()))
    rounds = f"rounds of each contender (default {USUAL_ROUNDS})"
    parser.add_argument("--rounds", type=int, default=USUAL_ROUNDS, metavar="N", help=rounds)
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing is written")
    options = parser.parse_args()
    _compile_modules()
    for name in options.only or names():
        print(f"\n# {_TITLES.get(name, name)} ({name})\n", flush=True)
        try:
            text = measure(name, options.rounds, options.quick)
        except CannotMeasure as why:  # what stands on the page was measured where it can be
            print(f"Not measured. {why}", flush=True)
            continue
        if not options.quick:
            page = _PAGE.read_text(encoding="utf-8") if _PAGE.exists() else _HEAD
            _PAGE.write_text(updated(page, name, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
