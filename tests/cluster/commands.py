"""Commands on the mini cluster's laptop, as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.cluster.mini import FOLDER, MiniCluster

CALL_LIMIT_S = 200.0
"""Bringing the agent there, a job's start, TensorFlow's import on a cold disk."""
PROGRAM = (sys.executable, "-P", "-m", "clew_gui")
RUN = ("run", "softmax", "--preset", "tiny", "--data", "digits", "--json")
Clew = Callable[..., subprocess.CompletedProcess[str]]


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class KilledClew:
    """A command on the laptop that is killed at a chosen moment, without a last word."""

    def __init__(self, cluster: MiniCluster, home: Path) -> None:
        self._start = (FOLDER / "cluster", "on", "laptop", "env", f"CLEW_HOME={home}", *PROGRAM)
        self._environment = cluster.environment

    def __call__(self, *words: str, when: Callable[[str], bool]) -> str:
        """Kill it ``when`` a line was printed; what it had said by then."""
        with subprocess.Popen(
            [*self._start, *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as program:
            assert program.stdout is not None
            said = ""
            for line in program.stdout:
                said += line
                if when(line):
                    for child in psutil.Process(program.pid).children(recursive=True):
                        child.kill()
                    return said
        raise AssertionError(f"it ended by itself: {said}")
