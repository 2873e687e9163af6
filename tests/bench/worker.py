"""One contender in a process of its own, a round for each line: ``tests.bench.worker EXERCISE CONTENDER STEPS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module

from tests.bench.measure import Timing


def make_round(exercise: str, contender: str, steps: int) -> Callable[[], Timing]:
    """The function that runs a round. TensorFlow is imported here, once per process, and only what is needed."""
    if contender.startswith("clew"):
        ours: Callable[[], Timing] = import_module("tests.bench.clew_style").clew_round(
            exercise, steps, contender.partition("-")[2]
        )
        return ours
    work = import_module("tests.bench.work").make_work(exercise, steps)
    family, _, variant = contender.partition("-")
    module = import_module(f"tests.bench.{family}_style")
    theirs: Callable[[], Timing] = getattr(module, f"{family}_round")(exercise, work, variant in ("metrics", "tuned"))
    return theirs


def main() -> None:
    """Serve rounds until standard input ends."""
    exercise, contender, steps = sys.argv[1:]
    run = make_round(exercise, contender, int(steps))
    for _ in sys.stdin:
        print(json.dumps(run()._asdict()), flush=True)


if __name__ == "__main__":
    main()
