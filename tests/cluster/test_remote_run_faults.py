"""A run on a node while the thread to it breaks, and what each thing that goes wrong there ends in."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest

from clew_gui.session.links.inbox import LinkState
from clew_shared.base.places import find_places
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from tests.cluster.journey import BOUND_S, ENDLESS, Student, judge
from tests.cluster.mini import FOLDER, MiniCluster
from tests.integration.agents import give_way
from tests.integration.faults.chance import Chance, Tally

SOAK = os.environ.get("CLEW_SOAK") == "1"
pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(3600 if SOAK else 900)]
SILENT_S = 20.0
"""So long a silence is told; a shorter one need not be."""
CUTS_S = (1.0, 10.0, SILENT_S)
LONG_CUTS_S = (1.0, 10.0, SILENT_S, 45.0, 90.0)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Chance:
    return Chance(request.node.name)


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    tally = Tally()
    yield tally
    tally.keep()


# --- The thread is cut ------------------------------------------------------------------------------------------------


def test_two_runs_lose_no_byte_to_cuts_restarts_and_laptops_that_freeze_or_close(
    cluster: MiniCluster, student: Student, chance: Chance, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is watched by this program, the other by ``clew run``, whose laptop is frozen as well."""
    cuts = [*LONG_CUTS_S, *(chance.dice.uniform(0.5, 90.0) for _ in range(5))] if chance.soak else CUTS_S
    back: list[str] = []
    with Terminal(cluster, "60" if chance.soak else "10") as terminal, student.program() as program:
        run = program.send(time=terminal.time)
        there, here = student.there(run.id), student.here(run.id)
        program.trains(run)
        program.until(terminal.trains, "the terminal's run trains")
        for seconds, fault in zip(cuts, itertools.cycle(("unplug", "cut"))):  # seen by the laptop, and not seen
            with cluster.broken(fault, "laptop"):
                program.live_for(seconds)
                assert run.state is RunState.RUNNING
                if seconds == SILENT_S:
                    assert program.job(run).link.state is LinkState.STALE
            back.append(f"{seconds:.0f} s {fault}: {program.catches_up(there, here):.1f} s")
            tally.add("cuts")
        with cluster.broken("freeze", "laptop"):  # this program is not among the laptop's
            frozen = terminal.size()
            program.live_for(2 * SILENT_S if chance.soak else 3.0)
            assert terminal.size() == frozen
        terminal.thaw()
        cluster("fault", "sshd-restart")
        restarted = time.monotonic()
        back.append(f"sshd restarted: {program.catches_up(there, here):.1f} s")
        program.until(lambda: terminal.size() > frozen, "the terminal's run goes on")
        back.append(f"in the terminal, frozen before: {time.monotonic() - restarted:.1f} s")
        job = program.job(run).id
    with student.program(job) as program:  # the laptop was closed and is opened again
        run = program.session.runs[run.id]
        program.until(lambda: program.is_live(run), "the agent is reached again")
        back.append(f"opened again: {program.catches_up(there, here):.1f} s")
        program.stop(run)
        assert run.state is RunState.STOPPED
        student.judge(run)
        assert program.problems == []
    terminal.judge(student)
    with capsys.disabled():
        print(f"\nafter so long all was here again: {', '.join(back)}")


class Terminal:
    """``clew run`` on the laptop, with a home of its own, until it is interrupted. Nobody reads what it prints before
    its end, and there is room for little of it."""

    def __init__(self, cluster: MiniCluster, time: str) -> None:
        self.time = time
        self._cluster = cluster
        self._mirrors = find_places().mirrors

    def __enter__(self) -> Self:
        program = Path(sys.executable).with_name("clew")
        words = ["run", "softmax", "--site", "minicluster", "--steps", str(ENDLESS), "--time", self.time, "--json"]
        self._process = subprocess.Popen(
            [FOLDER / "on", "laptop", str(program), *words, "--data", "digits"],
            env=self._cluster.environment | {"CLEW_HOME": os.environ["CLEW_HOME"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pipesize=4096,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()  # also where the test failed while it was frozen
        for child in psutil.Process(self._process.pid).children(recursive=True):
            child.send_signal(signal.SIGINT)
        self.out, self.err = self._process.communicate(timeout=BOUND_S)

    def _journal(self) -> Path | None:
        return next(self._mirrors.glob("*/journal.0001"), None)

    def thaw(self) -> None:
        """``nsenter``, which brought it there, stops itself when it sees it stop, and is no process of the laptop's."""
        self._process.send_signal(signal.SIGCONT)

    def size(self) -> int:
        """Bytes of its run's journal that are on the laptop."""
        return path.stat().st_size if (path := self._journal()) is not None else 0

    def trains(self) -> bool:
        """Whether there is a first step; it ends never before that."""
        assert self._process.poll() is None, self._process.communicate()
        path = self._journal()
        if path is None or read_run(path.parent).fold.step == 0:
            return False
        give_way(path.parent.name)
        return True

    def judge(self, student: Student) -> None:
        """What it said in the end, and the bytes that it has."""
        said = json.loads(self.out.splitlines()[-1])
        assert (self._process.returncode, said["state"]) == (130, "STOPPED"), self.err
        here = RunFolder(self._mirrors / said["run"])
        judge(student.there(said["run"]), here, read_run(here.path))
