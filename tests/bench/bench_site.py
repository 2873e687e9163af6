"""From ``clew run`` to the first point of a run on the mini cluster: the first time, later, and on a held node.

Typed at the laptop, with a key, through its login node to a node of its Slurm; `softmax` with the course's values.
*First time*: nothing of Clew is on the site. *On a held node*: its agent has TensorFlow imported. Seconds from the
command, Python's start included, to the first recorded step, and to its end with everything fetched. Limits: the
queue is empty and the network has no delay; a real site adds both.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from clew_shared.journal.files import journal_path
from tests.bench.first_point_worker import BLOCK, journal_marks
from tests.bench.measure import CannotMeasure, Measured, Table, machine

_CLUSTER = Path(__file__).parents[2] / "packaging/cluster"
_LIMIT_S = 300.0
_RUN = ("run", "softmax", "--data", "digits", "--site", "minicluster", "--json")


def report(rounds: int, quick: bool) -> Measured:
    """Types the commands in each round. Raises ``CannotMeasure`` without a cluster."""
    sys.path.insert(0, str(_CLUSTER))  # as pytest does it for the tests
    from tests.cluster.mini import UP_LIMIT_S, MiniCluster

    rounds = 1 if quick else min(rounds, 5)
    folder = Path(tempfile.mkdtemp(prefix="clew-bench-cluster-"))
    cluster = MiniCluster(folder, **({"CLEW_DATA": os.environ["CLEW_DATA"]} if "CLEW_DATA" in os.environ else {}))

    def clew(*words: str) -> str:
        command = ("on", "laptop", "env", f"CLEW_HOME={folder}/home", sys.executable, "-m", "clew_gui", *words)
        return cluster(*command, limit_s=_LIMIT_S)

    def run() -> tuple[float, float]:
        begin = time.time()
        said = json.loads(clew(*_RUN).splitlines()[-1])
        marks = journal_marks(journal_path(Path(said["run_dir"]), 1))
        return marks[BLOCK] - begin, time.time() - begin

    found: dict[str, list[tuple[float, float]]] = {"first time": [], "next time": [], "on a held node": []}
    try:
        if (told := cluster.call("check")).returncode:
            raise CannotMeasure(f"The mini cluster cannot run here: {(told.stdout + told.stderr).strip()}")
        cluster("up", limit_s=UP_LIMIT_S)
        for number in range(rounds):
            clew("site", "set", "minicluster", f"scratch=~/place{number}")
            found["first time"].append(run())
            found["next time"].append(run())
            clew("hold", "--site", "minicluster", "--detach")
            run()  # the agent there imports TensorFlow
            found["on a held node"].append(run())
            clew("let-go", "--site", "minicluster")
    finally:
        cluster.call("down")
        shutil.rmtree(folder, ignore_errors=True)
    rows = [(name, *(f"{median(one):.1f}" for one in zip(*all_of, strict=True))) for name, all_of in found.items()]
    return Measured(f"{machine('paramiko')}. {rounds} rounds.", (Table("", ("way", "first point", "end"), rows),))
