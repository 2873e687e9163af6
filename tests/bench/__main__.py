"""``make bench``: run the benchmarks, print their tables, and keep them in docs/benchmarks.md.

``python -m tests.bench [--only NAME]... [--rounds N] [--quick]``. A quick run only prints.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

_HERE = Path(__file__).parent
_PAGE = _HERE.parent.parent / "docs" / "benchmarks.md"
_LIMIT_S = 3600
_TITLES = {"loops": "Speed of the training loop", "99": "99 % on MNIST", "plot": "Drawing curves"}
_HEAD = """# Benchmarks

Written by `make bench`. It takes minutes and wants a quiet machine. `python -m tests.bench --only loops --rounds 15`
measures one of them again, and `--quick` only prints.
"""


def names() -> list[str]:
    """The benchmarks here: ``loops`` is ``bench_loops.py``. The loops come first, the longest last."""
    found = [path.stem.removeprefix("bench_") for path in sorted(_HERE.glob("bench_*.py"))]
    return sorted(found, key=lambda name: (name == "99", name != "loops", name))


def measure(name: str, rounds: int, quick: bool) -> str:
    """The report of one benchmark as Markdown. One without a ``report`` function is run as a program."""
    source = (_HERE / f"bench_{name}.py").read_text(encoding="utf-8")
    if "def report(rounds: int, quick: bool)" in source:
        report: Callable[[int, bool], str] = import_module(f"tests.bench.bench_{name}").report
        return report(rounds, quick)
    command = [sys.executable, "-m", f"tests.bench.bench_{name}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    print(done.stdout, flush=True)
    return f"```\n{done.stdout.rstrip()}\n```"


def updated(page: str, name: str, text: str) -> str:
    """``page`` with the section of benchmark ``name`` replaced, or added at the end."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n## {_TITLES.get(name, name)}\n\n{text}\n{end}"
    if begin not in page or end not in page:
        return f"{page.rstrip()}\n\n{section}\n"
    head, _, rest = page.partition(begin)
    return f"{head}{section}{rest.partition(end)[2]}"


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", choices=names(), help=", ".join(names()))
    parser.add_argument(
        "--rounds", type=int, default=7, metavar="N", help="interleaved rounds of each contender (default 7)"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, nothing is written")
    options = parser.parse_args()
    for name in options.only or names():
        print(f"\n# {_TITLES.get(name, name)} ({name})\n", flush=True)
        text = measure(name, options.rounds, options.quick)
        if not options.quick:
            page = _PAGE.read_text(encoding="utf-8") if _PAGE.exists() else _HEAD
            _PAGE.write_text(updated(page, name, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
