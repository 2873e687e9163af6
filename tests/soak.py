"""``make soak``: the fault tests again and again, each time with another seed, and a summary of what was done.

``python -m tests.soak --rounds 10`` or ``--minutes 60``; other words go to pytest. It ends at the first failed round
and prints the seed that repeats it. CLEW_SEED sets the seed of the first round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

PEERS = "tests/integration/peers/test_multi_worker.py"
FAULTS = (
    "tests/integration/faults",
    "tests/cluster/test_remote_run_faults.py",
    f"{PEERS}::test_what_dies_or_freezes_ends_the_run_which_goes_on_from_its_checkpoint",
)
SLIDES = ("tests/exercises/test_cnn.py::test_the_slides_values_give_the_slides_accuracy",)
"""Trains all of the slides' steps in a soak."""
PARSERS = ("-m", "hypothesis", "tests/unit", "tests/contract")
"""Property tests try more examples in a soak."""
_TIMEOUT_S = 3600
"""The limit for one test: in a soak it repeats its scenario many times."""


def main(argv: Sequence[str]) -> int:
    """Returns pytest's exit code of the failed round, or 0."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--rounds", type=int, default=0, help="0: as many as the minutes allow")
    parser.add_argument("--minutes", type=float, default=0.0, help="start no new round after so many minutes")
    options, words = parser.parse_known_args(argv)
    start, rounds, code = time.monotonic(), 0, 0
    seed = os.environ.get("CLEW_SEED") or str(random.SystemRandom().randrange(10**6))
    with tempfile.TemporaryDirectory() as folder:
        tally = Path(folder) / "tally"
        while not code and goes_on(options.rounds, options.minutes, rounds, time.monotonic() - start):
            rounds += 1
            print(f"\nround {rounds}, CLEW_SEED={seed}", flush=True)
            code = _round(seed, tally, words)
            failed, seed = seed, str(random.SystemRandom().randrange(10**6))
        print(summary(rounds, time.monotonic() - start, read_tally(tally)))
    if code:
        print(f"Round {rounds} failed. To repeat it: CLEW_SEED={failed} make soak ROUNDS=1")
    return code


def goes_on(rounds: int, minutes: float, done: int, seconds: float) -> bool:
    """Whether another round starts: the first always does, others until the rounds are done or the time is up."""
    if rounds and done >= rounds:
        return False
    return not done or not minutes or seconds < 60 * minutes


def _round(seed: str, tally: Path, words: Sequence[str]) -> int:
    environment = os.environ | {"CLEW_SOAK": "1", "CLEW_SEED": seed, "CLEW_TALLY": str(tally)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", f"--timeout={_TIMEOUT_S}"]
    for tests in [words] if words else [FAULTS, SLIDES, PARSERS]:
        if code := subprocess.run([*command, *tests], env=environment, check=False).returncode:
            return code
    return 0


def read_tally(path: Path) -> Counter[str]:
    """The counts of all rounds together."""
    counts: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        counts.update(json.loads(line))
    return counts


def summary(rounds: int, seconds: float, counts: Counter[str]) -> str:
    """One line for people."""
    done = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())) or "nothing counted"
    return f"soak: {rounds} {'round' if rounds == 1 else 'rounds'} in {seconds / 60:.1f} minutes: {done}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
