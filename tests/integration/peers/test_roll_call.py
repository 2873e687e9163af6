"""A roll-call of real processes: who is missing, dies or freezes is named, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from clew_agent.peers import processes
from clew_agent.peers.chief import Peers
from clew_agent.peers.hosts import JobHosts
from clew_agent.peers.messages import Cluster, Index, address_file, folder_of, log_of
from clew_agent.peers.watch import Limits
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.events import Event, Peer
from clew_shared.journal.run_folder import RunFolder
from tests.integration.agents import wait_for

IDLE = Path(__file__).with_name("idle_peer.py")
SOON_S = 30.0


class Chief:
    """A chief that does not train, and what its peers' thread told it."""

    def __init__(self, home: Path, hows: Sequence[str], limits: Limits) -> None:
        self.folder = RunFolder(home / "run")
        self.folder.path.mkdir()
        self.events: list[Peer] = []
        self.stuck: list[Problem] = []
        self._hows = hows
        self.peers = Peers(
            self.folder,
            1,
            len(hows) + 1,
            JobHosts(),
            Places(home=home, private=home / "private"),
            self._note,
            self.stuck.append,
            start_here=self._start,
            limits=limits,
        )

    def _note(self, event: Event) -> None:
        assert isinstance(event, Peer)
        self.events.append(event)

    def _start(self, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        index = words[words.index("--index") + 1]
        how = self._hows[int(index) - 1]
        return processes.run_command([sys.executable, "-P", str(IDLE), str(self.folder.path), index, how], log)

    @property
    def pids(self) -> list[int]:
        return [event.pid for event in self.events if event.status == "joined"]

    def told(self, status: str) -> list[int]:
        return [event.index for event in self.events if event.status == status]

    def refusal(self) -> Problem:
        """What the trainer would end with."""
        deadline = time.monotonic() + SOON_S
        while time.monotonic() < deadline:
            try:
                self.peers.members.check()
            except ProblemError as error:
                return error.problems[0]
            time.sleep(0.02)
        raise AssertionError("no peer was lost")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Chief]]:
    made: list[Chief] = []

    def start(*hows: str, limits: Limits | None = None) -> Chief:
        made.append(Chief(tmp_path, hows, limits or Limits()))
        made[-1].peers.start()
        return made[-1]

    yield start
    for chief in made:
        chief.peers.close()
        assert not [pid for pid in chief.pids if operating_system.is_alive(pid)]
        left = [path.name for path in folder_of(chief.folder).iterdir() if path.suffix != ".log"]
        assert not left


def test_all_join_and_are_led_to_their_end(make: Callable[..., Chief]) -> None:
    chief = make("works", "works")
    workers = chief.peers.gather()
    assert len(workers) == 3
    assert workers[1:] == ("127.0.0.1:7", "127.0.0.1:7")
    chief.peers.send(Cluster(workers=workers))
    chief.peers.lead(0, 10, [0.5])
    chief.peers.lead(10, 3, [0.25])
    chief.peers.close()
    assert chief.told("joined") == chief.told("ended") or sorted(chief.told("joined")) == chief.told("ended") == [1, 2]
    for index in (Index(1), Index(2)):
        assert log_of(chief.folder, index).read_text() == "block 0 10 [0.5]\nblock 10 3 [0.25]\n"


def test_the_address_is_the_owners_alone(make: Callable[..., Chief]) -> None:
    chief = make("works")
    assert address_file(chief.folder, 1).stat().st_mode & 0o077 == 0
    chief.peers.gather()


def test_a_missing_peer_is_named(make: Callable[..., Chief]) -> None:
    chief = make("works", "absent", limits=Limits(join=2.0))
    wait_for(lambda: chief.told("joined") == [1], "the one that works", SOON_S)
    with pytest.raises(ProblemError) as caught:
        chief.peers.gather()
    assert [problem.code for problem in caught.value.problems] == ["peers.missing"]
    assert f"Worker 2 on {operating_system.host_name()} did not answer within 2 s" in caught.value.problems[0].text


def test_a_peer_that_cannot_start_is_known_at_once_with_what_it_printed(make: Callable[..., Chief]) -> None:
    chief = make("works", "broken")
    with pytest.raises(ProblemError, match=r"Worker 2 on .* exit code 3 before it joined the run.*\n?no such module"):
        chief.peers.gather()


def test_a_complaint_is_the_reason(make: Callable[..., Chief]) -> None:
    chief = make("complains")
    found = chief.refusal()
    assert found.code == "data.missing"
    assert found.text.startswith("Worker 1 on ")
    assert found.text.endswith(": There is no mnist here.")


def test_a_killed_peer_is_named(make: Callable[..., Chief]) -> None:
    chief = make("works", "works")
    chief.peers.gather()
    victim = next(event for event in chief.events if event.index == 2)
    os.kill(victim.pid, signal.SIGKILL)
    found = chief.refusal()
    assert found.text == f"Worker 2 on {victim.host} (process {victim.pid}) was killed (SIGKILL)."
    assert chief.told("lost") == [2]
    chief.peers.close()
    assert chief.told("ended") == [1]
    assert not chief.stuck


def test_a_frozen_peer_is_ended(make: Callable[..., Chief]) -> None:
    chief = make("works", limits=Limits(silence=2.0))
    chief.peers.gather()
    wait_for(lambda: chief.peers.members.all_built, "that it is built, from when on silence counts", SOON_S)
    os.kill(chief.pids[0], signal.SIGSTOP)
    found = chief.refusal()
    assert "has said nothing for " in found.text
    assert found.text.endswith(" and was ended.")
    assert chief.told("lost") == [1]


def test_a_trainer_that_hangs_is_ended_by_the_watch(make: Callable[..., Chief]) -> None:
    chief = make("works", "works", limits=Limits(grace=0.5))
    chief.peers.gather()
    os.kill(chief.pids[0], signal.SIGKILL)
    wait_for(lambda: chief.stuck, "the end of the trainer", SOON_S)
    assert "was killed (SIGKILL)" in chief.stuck[0].text
    assert not [pid for pid in chief.pids if operating_system.is_alive(pid)]


def test_a_guard_ends_what_a_killed_chief_has_left(make: Callable[..., Chief]) -> None:
    chief = make("works")
    chief.peers.gather()
    os.kill(chief.pids[0], signal.SIGSTOP)  # it cannot end itself
    processes.end_left(chief.folder, 1)
    assert not psutil.pid_exists(chief.pids[0]) or psutil.Process(chief.pids[0]).status() == psutil.STATUS_ZOMBIE
    assert chief.refusal().code == "peers.lost"
