"""``make bench``: run the benchmarks, print what they find, keep it in docs/benchmarks and its main figures in
docs/benchmarks.md.

``python -m tests.bench [--only NAME]... [--rounds N] [--quick]``. A quick run only prints.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.measure import USUAL_ROUNDS, CannotMeasure, Measured, table

_HERE = Path(__file__).parent
_DOCS = _HERE.parent.parent / "docs"


class Shown(NamedTuple):
    """A figure of the page: the first row of a benchmark that has all of ``words``, with its table's title, and its
    column."""

    what: str
    benchmark: str
    words: tuple[str, ...]
    column: str
    unit: str = ""
    goal: str = ""


SHOWN = (
    Shown("window painted after its start", "start", ("window painted",), "seconds", "s", "0.7 s"),
    Shown("agent ready", "start", ("supervisor ready",), "seconds", "s", "0.3 s"),
    Shown("Run to first point, `linear-regression`", "first", ("linear-", "warm", "**"), "seconds", "s", "0.6 s"),
    Shown("Run to first point, `softmax`", "first", ("softmax", "warm", "**"), "seconds", "s", "0.6 s"),
    Shown("the same with `--no-fork`", "first", ("softmax", "no-fork", "**"), "seconds", "s"),
    Shown("Play, changed knob to curve, `linear-regression`", "play", ("linear-", "warm"), "seconds", "s", "0.3 s"),
    Shown("the same, `softmax`", "play", ("softmax", "warm"), "seconds", "s", "0.3 s"),
    Shown("the same, `perceptron`", "play", ("perceptron", "warm"), "seconds", "s", "0.3 s"),
    Shown("a plain script, start to first loss", "first", ("softmax", "plain", "**"), "seconds", "s"),
    Shown("Run to first point, new site", "site", ("first time",), "first point", "s"),
    Shown("Run to first point, held node", "site", ("held node",), "first point", "s"),
    Shown("`linear-regression`, 1,000 steps", "loops", ("linear-", "alone"), "× course loop", "× the courses' loop"),
    Shown("beside it JAX, one scan", "loops", ("linear-", "JAX"), "× course loop", "×"),
    Shown("beside it NumPy, no metrics", "loops", ("linear-", "NumPy"), "× course loop", "×"),
    Shown("`softmax`", "loops", ("softmax", "Clew"), "× course loop", "× the courses' loop", "1 ×"),
    Shown("beside it JAX, one scan", "loops", ("softmax", "JAX"), "× course loop", "×"),
    Shown("beside it Keras' best `fit`", "loops", ("softmax", "per execution"), "× course loop", "×"),
    Shown("beside it PyTorch", "loops", ("softmax", "PyTorch"), "× course loop", "×"),
    Shown("`cnn`", "loops", ("cnn", "Clew"), "× course loop", "× the courses' loop", "1 ×"),
    Shown("beside it Keras' best `fit`", "loops", ("cnn", "per execution"), "× course loop", "×"),
    Shown("beside it PyTorch's best", "loops", ("cnn", "fused"), "× course loop", "×"),
    Shown("`mirrored`, `softmax`", "strategies", ("softmax", "mirrored"), "× the bare loop", "× the bare loop", "0.95"),
    Shown("`mirrored`, `cnn`", "strategies", ("cnn", "mirrored"), "× the bare loop", "× the bare loop", "0.95"),
    Shown("journal read", "journal", ("read",), "points/s", "points/s", "5 million"),
    Shown("first picture of 10 million points", "journal", ("first picture",), "seconds", "s", "1 s"),
    Shown("a frame, 20 live runs of a million", "plot", ("Clew", "all live"), "ms a frame", "ms"),
    Shown("beside it pyqtgraph's own", "plot", ("own", "all live"), "ms a frame", "ms"),
    Shown("`clew runs`, 10,000 runs", "growth", ("clew runs, runs", " 10,000 "), "seconds", "s", "0.5 s"),
    Shown("`clew show`, 10 million steps", "growth", ("clew show", "10,000,000 "), "seconds", "s"),
    Shown("`clew class`, 100 hand-ins", "growth", ("clew class", " 100 "), "seconds", "s"),
    Shown("the board of a class of 200, each look", "class", ("teacher",), "seconds", "s"),
    Shown("filter typed, 1,000 runs", "compare", ("type in the filter",), "ms", "ms"),
)  # fmt: skip


def names() -> list[str]:
    """The benchmarks here: ``loops`` is ``bench_loops.py``."""
    return sorted(path.stem.removeprefix("bench_") for path in _HERE.glob("bench_*.py"))


def measure(name: str, rounds: int, quick: bool) -> dict[str, Any]:
    """What one benchmark finds, with the day, what else the machine did, and how long it took."""
    report: Callable[[int, bool], Measured] = import_module(f"tests.bench.bench_{name}").report
    load, begin = _load(), time.monotonic()
    found = report(rounds, quick)
    print(found, flush=True)
    conditions = f"{load} before, measured in {time.monotonic() - begin:.0f} s; {found.conditions}"
    tables = [one._asdict() for one in found.tables]
    return {"day": today(), "conditions": conditions, "tables": tables, "remarks": list(found.remarks)}


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
    """``page`` with its generated part ``name`` replaced; what stands around it stays. Raises ``ValueError`` if the
    page has no such part."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, _, rest = page.partition(begin)
    return f"{head}{begin}\n{text}\n{end}{rest[rest.index(end) + len(end) :]}"


def figures(folder: Path) -> str:
    """The page's table, from what ``folder`` has of each benchmark."""
    rows = []
    for one in SHOWN:
        found = json.loads((folder / f"{one.benchmark}.json").read_text(encoding="utf-8"))
        there = [
            row[part["head"].index(one.column)]
            for part in found["tables"]
            for row in part["rows"]
            if one.column in part["head"] and all(word in f"{part['title']} {' '.join(row)}" for word in one.words)
        ]
        value = f"{there[0].strip('*')} {one.unit}".strip() if there else "not measured"
        rows.append((one.what, value, one.goal, found["day"]))
    return table(("what", "measured", "goal", "day"), rows)


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
        print(f"\n# {name}\n", flush=True)
        try:
            found = measure(name, options.rounds, options.quick)
        except CannotMeasure as why:  # what is kept was measured where it can be
            print(f"Not measured. {why}", flush=True)
            continue
        if not options.quick:
            kept, page = _DOCS / "benchmarks" / f"{name}.json", _DOCS / "benchmarks.md"
            kept.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            page.write_text(
                updated(page.read_text(encoding="utf-8"), "figures", figures(kept.parent)), encoding="utf-8"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
