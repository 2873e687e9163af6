"""``make soak``: the fault tests again and again, each time with another seed, and a table of what was done.

``python -m tests.soak --rounds 10`` or ``--minutes 60``; other words go to pytest. In the first round each scenario is
played once, in later ones many times. It ends with the first failed round and prints the commands that repeat what
failed. CLEW_SEED sets the seed of the first round. ``--write`` puts the table into docs/reliability.md, also that of a
soak that failed.
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
from typing import NamedTuple

from tests.bench.__main__ import today, updated
from tests.bench.measure import machine, table


class Fault(NamedTuple):
    """What happens to a run, what it costs by what the tests check, and the tests."""

    what: str
    cost: str
    tests: tuple[str, ...]


NOTHING = "nothing"
REPEATED = "nothing; the steps since the last checkpoint are computed again, to the same bits"
_FAULTS, _PEERS, _CLUSTER = "tests/integration/faults", "tests/integration/peers", "tests/cluster"
FAULTS = (
    Fault(
        "Trainer, guard, agent, process that is copied, or window killed at a random moment; two of them in turn",
        REPEATED,
        (f"{_FAULTS}/test_deaths.py",),
    ),
    Fault(
        "A command, its agent, the guard or the trainer of its run killed at a random moment; then its study goes on",
        "the run of a killed trainer, which has failed and is done again",
        (f"{_FAULTS}/test_command_deaths.py",),
    ),
    Fault("Link cut, slow or frozen; a viewer that freezes or never reads", NOTHING, (f"{_FAULTS}/test_links.py",)),
    Fault("Disk full where it trains, or on the laptop", NOTHING, (f"{_FAULTS}/test_disk.py",)),
    Fault(
        "A disk that does not answer for seconds, where it trains or on the laptop",
        REPEATED,
        (f"{_FAULTS}/test_slow_disk.py",),
    ),
    Fault(
        "Bits flipped and ends torn off, in the journal or in the laptop's copy",
        "what was flipped, and it is said; the other copy's bytes take its place where there is one",
        (f"{_FAULTS}/test_damage.py",),
    ),
    Fault("Clock set by an hour", NOTHING, (f"{_FAULTS}/test_clock.py",)),
    Fault("A loss that is no number; a trainer without memory", NOTHING, (f"{_FAULTS}/test_numbers.py",)),
    Fault(
        "TensorFlow's trainer killed, frozen or without memory",
        REPEATED,
        (f"{_FAULTS}/test_tensorflow.py",),
    ),
    Fault(
        "Several processes in step: one killed or frozen",
        REPEATED,
        (f"{_PEERS}/test_multi_worker.py::test_what_dies_or_freezes_ends_the_run_which_goes_on_from_its_checkpoint",),
    ),
    Fault(
        "Parameter servers: worker, server or coordinator killed, frozen, slowed",
        REPEATED,
        (
            f"{_PEERS}/test_parameter_servers.py::test_a_cluster_is_slowed_hurt_and_enlarged_and_no_step_is_lost_or_done_twice",
            f"{_PEERS}/test_parameter_servers.py::test_what_dies_or_freezes_is_replaced_and_a_killed_coordinator_goes_on_from_its_checkpoint",
        ),
    ),
    Fault("Peers that are killed, frozen, or never come", NOTHING, (f"{_PEERS}/test_roll_call.py",)),
    Fault(
        "Two hops: cable pulled, servers and agent restarted, laptop frozen or closed",
        NOTHING,
        (f"{_CLUSTER}/test_remote_run_faults.py",),
    ),
    Fault("A node that freezes or loses its power", REPEATED, (f"{_CLUSTER}/test_remote_run_nodes.py",)),
    Fault(
        "A job that is killed, cancelled, requeued, out of memory or out of time",
        REPEATED,
        (f"{_CLUSTER}/test_remote_run_ends.py", f"{_CLUSTER}/test_remote_run_walltime.py"),
    ),
    Fault(
        "Sweeps and studies whose program is killed",
        "nothing; no run is done twice",
        (
            f"{_CLUSTER}/test_run_studies.py::test_a_study_is_one_job_and_nothing_of_it_runs_twice",
            f"{_CLUSTER}/test_run_studies.py::test_a_sweep_that_is_interrupted_at_any_moment_does_every_point_once",
            f"{_CLUSTER}/test_window.py::test_a_sweep_of_12_runs_that_was_killed_half_way_goes_on_and_does_nothing_twice",
        ),
    ),
)
PLAYED = [
    *((one.what, one.tests) for one in FAULTS),
    ("properties", ("-m", "hypothesis", "tests/unit", "tests/contract")),
]
"""In later rounds also more examples for the property tests."""
_PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
_NO_TESTS = 5
"""Pytest's exit status where no test was left."""
_TIMEOUT_S = 3600
"""The limit for one test: in a soak it repeats its scenario many times."""


def main(argv: Sequence[str]) -> int:
    """Returns 1 if a test failed, else 0."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--rounds", type=int, default=0, help="0: as many as the minutes allow")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="after the first round begin nothing after so many minutes"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    options, words = parser.parse_known_args(argv)
    start, rounds = time.monotonic(), 0
    passed: Counter[str] = Counter()
    failures: list[str] = []
    seed = os.environ.get("CLEW_SEED") or str(random.SystemRandom().randrange(10**6))
    with tempfile.TemporaryDirectory() as folder:
        tally = Path(folder) / "tally"
        while not failures and goes_on(options.rounds, options.minutes, rounds, time.monotonic() - start):
            rounds += 1
            print(f"\nround {rounds}, CLEW_SEED={seed}", flush=True)
            for what, tests in [("", words)] if words else PLAYED:
                if not goes_on(0, options.minutes, rounds - 1, time.monotonic() - start):
                    break
                variables = {"CLEW_SOAK": str(int(rounds > 1)), "CLEW_SEED": seed}
                if (code := _run(variables, tally, tests)) == 0:
                    passed[what] += 1
                elif code != _NO_TESTS:  # this machine lacks what they need
                    said = " ".join(f"{name}={value}" for name, value in variables.items())
                    failures.append(f"Failed: {said} python -m pytest {' '.join(tests)}")
            seed = str(random.SystemRandom().randrange(10**6))
        counts = read_tally(tally)
    text = "\n".join([summary(rounds, time.monotonic() - start, counts), "", *lines(passed), "", *failures])
    print(text)
    if options.write:
        page = updated(_PAGE.read_text(encoding="utf-8"), "soak", f"{today()}, {machine()}. {text}")
        _PAGE.write_text(page, encoding="utf-8")
    return bool(failures)


def lines(passed: Counter[str]) -> list[str]:
    """The table: each fault, how many rounds of its tests passed, and what it cost."""
    rows = [(one.what, str(passed[one.what]), one.cost if passed[one.what] else "not known") for one in FAULTS]
    return table(("what happens", "rounds that passed", "what is lost"), rows).splitlines()


def goes_on(rounds: int, minutes: float, done: int, seconds: float) -> bool:
    """Whether another round starts: the first always does, others until the rounds are done or the time is up."""
    if rounds and done >= rounds:
        return False
    return not done or not minutes or seconds < 60 * minutes


def _run(variables: dict[str, str], tally: Path, tests: Sequence[str]) -> int:
    """Pytest's exit status."""
    environment = os.environ | variables | {"CLEW_TALLY": str(tally)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", f"--timeout={_TIMEOUT_S}"]
    return subprocess.run([*command, *tests], env=environment, check=False).returncode


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
