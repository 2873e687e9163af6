"""Updates per second of each mode of parameter servers, beside a bare loop of TensorFlow on the very same processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.measure import machine, ratio, short, table

MODES = {
    "async": "asynchronous",
    "sync": "synchronous",
    "wait": "bounded, 2, by waiting",
    "drop": "bounded, 2, by dropping",
    "calls": "asynchronous, 8 updates per call",
    "local": "asynchronous, 8 local steps per update",
}
UPDATES = 300
_ROOT = Path(__file__).parent.parent.parent
_LIMIT_S = 900.0
_ENVIRONMENT = {**os.environ, "GRPC_FAIL_FAST": "use_caller", "TF_CPP_MIN_LOG_LEVEL": "3"}
METHOD = """`softmax`, two workers and one server, processes of this computer. The bare loop uses the same coordinator,
workers and server, and does what a person writes who follows TensorFlow's tutorial and wants to know each update's
staleness: one scheduled function for each gradient, a counter on the server, plain gradient descent by `assign_sub`; no
tickets, no copy, no metrics but the loss, nothing recorded. Clew and the bare loop take turns. Ratios are to the bare
loop; in brackets are the bounds of 95 % of 10,000 bootstrap resamples of the rounds. Limits: loopback, and two cores
for four processes."""


def report(rounds: int, quick: bool) -> str:
    """The table, in Markdown."""
    rounds, updates = (3, 100) if quick else (rounds, UPDATES)
    rows = []
    for mode, about in MODES.items():
        ours, bare, staleness = _measure(mode, rounds, updates)
        rates = (short(median(ours)), short(median(bare)), str(ratio(ours, bare)))
        rows.append((about, *rates, f"{staleness['mean']:.2f}, {staleness['max']:.0f}"))
        print(rows[-1], flush=True)
    head = ("mode", "Clew, updates/s", "bare loop, updates/s", "× the bare loop", "staleness: mean, largest")
    return f"Machine: {machine()}. {rounds} rounds of {updates} updates.\n\n{table(head, rows)}\n\n{METHOD}"


def _measure(mode: str, rounds: int, updates: int) -> tuple[list[float], list[float], dict[str, Any]]:
    words = [sys.executable, "-m", "tests.bench.servers_worker", mode, str(rounds), str(updates)]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=_ENVIRONMENT, cwd=_ROOT
    )
    if done.returncode:
        raise RuntimeError(f"the cluster of {mode} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["ours"], found["bare"], found["staleness"]
