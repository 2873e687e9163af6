"""Commands on a site that take long: given up when nothing of them moves, and not before."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from clew_gui.deploy import remote_python
from clew_gui.deploy.probe import probe
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import lost
from clew_shared.base.problem import ProblemError, problem
from tests.integration.local_line import local_line

pytestmark = pytest.mark.unix("a shell of a site")

STILL_S = 2.0
BUSY = "for _ in $(seq 80); do sleep 0.05; done"
"""Four seconds in which little programs begin and end, and nothing is printed."""
COMPUTES = "for i in $(seq 1000000); do :; done"


@pytest.fixture
def line(tmp_path: Path) -> SiteConnection:
    return local_line(tmp_path / "home", Site(host="here"))[0]


@pytest.mark.parametrize("script", [BUSY, f"sh -c '{COMPUTES}'", f"({BUSY}) & wait"])
def test_what_moves_is_waited_for(line: SiteConnection, script: str) -> None:
    moves: list[None] = []
    done = line.work(
        ("sh", "-c", f"printf a; {script}; printf b; echo why >&2; exit 3"),
        still=STILL_S,
        moved=lambda: moves.append(None),
    )
    assert done == Output(3, "abwhy\n"), "all that is printed, in its order, and nothing else"
    assert moves


def test_what_does_not_move_is_late(line: SiteConnection) -> None:
    done = line.work(("sh", "-c", "echo begun; exec sleep 600"), still=STILL_S)
    assert (done.late, done.out) == (True, "begun\n")


def test_input_that_nobody_takes_is_late(line: SiteConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck:
        """A channel whose window stays full until it is closed."""

        def __init__(self) -> None:
            self._closed = threading.Event()

        def send(self, data: bytes) -> None:
            self._closed.wait()
            raise lost("here")

        def recv(self, limit: int) -> bytes:
            self.send(b"")
            return b""

        def end(self) -> None:
            return

        def close(self) -> None:
            self._closed.set()

    monkeypatch.setattr(line.ssh, "open", lambda _command, _timeout: Stuck())
    assert line.work(("cat",), stdin=b"much", still=0.1).late


def test_who_is_told_that_it_moves_may_give_it_up(line: SiteConnection) -> None:
    def unwanted() -> None:
        raise problem("job.cancelled", "You cancelled the job.")

    with pytest.raises(ProblemError, match="You cancelled"):
        line.work(("sh", "-c", f"while :; do {BUSY}; done"), still=STILL_S, moved=unwanted)


def test_its_input_arrives_whole_and_a_command_that_is_not_there_says_so(line: SiteConnection) -> None:
    assert line.work(("wc", "-c"), stdin=bytes(1_000_000)).out.strip() == "1000000"
    late = ("sh", "-c", f"{BUSY}; wc -c")
    assert line.work(late, stdin=bytes(3_000_000), still=STILL_S).out.strip() == "3000000", "more than pipes keep"
    done = line.work(("no-such-program",))
    assert (done.code, "not found" in done.out) == (127, True)
    assert line.work(("true",), stdin=bytes(1_000_000)) == Output(0, ""), "it reads none of it"


def test_a_shell_that_ends_at_once_is_no_answer(line: SiteConnection) -> None:
    with pytest.raises(ProblemError):
        line.work(("sh", "-c", "kill -s KILL $PPID"), still=STILL_S)


def test_a_slow_home_is_waited_for_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules, start files and Python's own files, each a twentieth of a second away."""
    usual = SiteConnection.work
    monkeypatch.setattr(SiteConnection, "work", lambda *command, **more: usual(*command, **more, still=STILL_S))
    monkeypatch.setattr(remote_python, "_SAID_S", 0.5)
    told: list[str] = []
    slow, _ = local_line(tmp_path / "home", Site(host="here", title="Here", prologue=BUSY))
    assert probe(slow, report=told.append).executable
    assert told[0].startswith("Here takes long to prepare its Python: ")
    hangs, _ = local_line(tmp_path / "home", Site(host="here", title="Here", prologue="sleep 600"))
    with pytest.raises(ProblemError, match="nothing moves there") as late:
        probe(hangs, report=told.append)
    assert late.value.problems[0].code == "bootstrap.late"
