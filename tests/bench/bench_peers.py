"""The roll-call of a run with many processes: how long it takes, and what it costs the chief to lead and watch them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from tests.bench.measure import machine, table

COUNTS = (10, 100, 1000)
_LIMIT_S = 300.0
METHOD = """One process is the chief, as in a run of the strategy `multi-worker`, and another is all of its peers, which
join and obey but train nothing; both are on this computer. *Joined* is from the first peer's start until all have
shaken hands (CURVE) and said who they are. *A block's order* is until the last peer has it. *Memory* is what the
chief's process grew by, *watching* how much of a core the chief takes for everybody's word each second. Figures are
medians over the rounds. Limits: one process that plays all peers does the work of all handshakes on one core."""


def report(rounds: int, quick: bool) -> str:
    """The table, in Markdown."""
    rows = []
    for count in COUNTS[: 2 if quick else None]:
        found = [_measure(count) for _ in range(1 if quick else min(rounds, 3))]
        joined, block, memory, cores = (
            median(one[name] for one in found) for name in ("joined_s", "block_s", "memory", "cores")
        )
        row = [f"{joined:.2f} s", f"{1000 * block:.1f} ms", f"{memory / 2**20:.0f} MB", f"{cores:.1%} of a core"]
        rows.append([f"{count:,}", *row])
    head = ("peers", "joined", "a block's order", "memory", "watching")
    return f"{machine('pyzmq')}\n\n{METHOD}\n\n{table(head, rows)}"


def _measure(count: int) -> dict[str, float]:
    worker = Path(__file__).with_name("peers_worker.py")
    words = [sys.executable, "-P", str(worker), "chief", str(count)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
