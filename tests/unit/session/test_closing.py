"""What is left behind when a program ends: nothing that was made at the last moment, and nobody waits in a queue."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from clew_gui.doctor import login
from clew_gui.doctor.examination import Verdict
from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.agent_route import AgentRoute
from clew_gui.jobs.job import JobOrder
from clew_gui.jobs.job_book import job_book
from clew_gui.jobs.manager import JobManager
from clew_gui.ssh.connection import Hop
from clew_gui.ssh.prompts import AskOnce
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, problem
from tests.unit.fake_site import NobodyHere, an_access

BOUND_S = 30.0


class Line:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_a_line_that_is_made_while_its_owner_closes_is_closed_as_well() -> None:
    line: Any = Line()

    def made_meanwhile() -> Any:
        shared.close()
        return line

    shared = an_access(made_meanwhile)
    with pytest.raises(ProblemError, match="closed here"):
        shared.opened()
    assert line.closed


def no_site(*_: object) -> Any:
    raise problem("site.absent", "There is none.")


def test_all_ways_to_nodes_begin_to_end_before_one_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = job_book(Places(home=tmp_path, private=tmp_path / "private"))
    manager = JobManager(book, lambda name: an_access(no_site, name=name), str)
    targets = []
    for job in ("one", "two"):
        book.note_order(JobOrder(job=job, site="site"), "")
        targets.append(manager.target(job))
    done: list[tuple[str, int]] = []
    leave, join = AgentRoute.leave, threading.Thread.join

    def noted_leave(target: AgentRoute) -> None:
        done.append(("leave", targets.index(target)))
        leave(target)

    def noted_join(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "clew-route":
            done.append(("join", -1))
        join(thread, timeout)

    monkeypatch.setattr(AgentRoute, "leave", noted_leave)
    monkeypatch.setattr(threading.Thread, "join", noted_join)
    manager.close()
    assert done.index(("leave", 1)) < done.index(("join", -1))
    assert all(target.closed for target in targets)


def test_all_sites_are_closed_at_the_same_time(tmp_path: Path) -> None:
    together = threading.Barrier(2)

    class Closing(SiteAccess):
        def close(self) -> None:
            together.wait(BOUND_S)

    book = job_book(Places(home=tmp_path, private=tmp_path / "private"))
    manager = JobManager(book, lambda name: Closing(name, no_site, AskOnce(NobodyHere())), str)
    for site in ("one", "two"):
        manager.watch_of(site)
    manager.close()
    assert not together.broken


def test_a_name_service_that_never_answers_holds_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def asleep(*_: object) -> list[Any]:
        answers.wait(BOUND_S)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", asleep)
    monkeypatch.setattr(login, "_NAME_S", 0.01)
    told = login.check_name(Hop(host="somewhere", user="me", name="somewhere"))
    assert (told.verdict, told.code) == (Verdict.BAD, "ssh.name")
    waiting = [thread for thread in threading.enumerate() if thread.name == "look up somewhere"]
    assert [thread.daemon for thread in waiting] == [True]  # at the end of a program only others are waited for
    answers.set()
    for thread in waiting:
        thread.join(BOUND_S)
