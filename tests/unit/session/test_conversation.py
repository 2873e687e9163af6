"""What a conversation asks its agent for, and when again."""

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
from clew_gui.session.links.conversation import Conversation, OutgoingCommands, Parts
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Cards, Inbox, TryAnswered
from clew_gui.ssh.connection import Hop
from clew_gui.ssh.prompts import AskOnce
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.cards import Catalogue
from clew_shared.wire.messages import (
    AnyReply,
    CatalogueReply,
    Done,
    GetCatalogue,
    GetStatus,
    Hello,
    Pause,
    Refused,
    Shutdown,
    Status,
    Tried,
    TryRun,
    Welcome,
)
from tests.unit.fake_site import NobodyHere, an_access
from tests.unit.session.fake_channel import FakeChannel


def test_the_agents_own_exercises_are_asked_for_and_told_when_they_are_others(tmp_path: Path) -> None:
    places, inbox = Places(home=tmp_path / "home", private=tmp_path / "private"), Inbox()
    target = LocalTarget(places, ["/bin/false"])
    parts = Parts(
        Fetcher(places.mirrors, inbox), OutgoingCommands(), inbox, target, lambda _run: True, lambda _problem: None
    )
    channel: Any = FakeChannel()
    address: Any = None
    talk = Conversation(channel, address, parts, Catalogue())
    channel.answer(Hello, Welcome(protocol=(1, 0), agent="a", host="h", version="1", clock=0.0, catalogue_hash=""))
    talk.receive()
    assert channel.sent == [Hello(client="clew"), GetCatalogue()]
    other = Catalogue(version="own")
    channel.answer(GetCatalogue, CatalogueReply(catalogue=Catalogue(), generation=1))
    for number, generation in enumerate((1, 2, 2)):  # as the long poll tells
        talk.send()
        channel.answer(GetStatus, Status(version=number, runs=(), catalogue=generation))
        talk.receive()
    asked = [request for request in channel.sent if not isinstance(request, GetStatus)]
    assert asked[2:] == [GetCatalogue()], "asked again when they have changed"
    channel.answer(GetCatalogue, CatalogueReply(catalogue=other, generation=2))
    talk.receive()
    talk.send(renew=True)
    talk.send()
    assert [type(request) for request in channel.sent].count(Shutdown) == 1
    arrived = iter(inbox.take, None)
    assert [found.catalogue for found in arrived if isinstance(found, Cards)] == [other]


class Trying:
    """A conversation in which something is tried."""

    def __init__(self, folder: Path) -> None:
        places, inbox = Places(home=folder / "home", private=folder / "private"), Inbox()
        target, self.commands = LocalTarget(places, ["/bin/false"]), OutgoingCommands()
        parts = Parts(Fetcher(places.mirrors, inbox), self.commands, inbox, target, lambda _: True, lambda _: None)
        self.channel = FakeChannel()
        there: Any = self.channel
        address: Any = None
        self.inbox, self.talk = inbox, Conversation(there, address, parts, None)

    def arrived(self) -> list[str]:
        """The codes of the refusals that arrived."""
        found = [one for one in iter(self.inbox.take, None) if isinstance(one, TryAnswered)]
        return [one.reply.problem.code for one in found if isinstance(one.reply, Refused)]


def test_what_is_tried_is_given_up_when_its_link_is_lost_and_nothing_else_is(tmp_path: Path) -> None:
    trying = Trying(tmp_path)

    def reconnect() -> None:
        trying.channel.connections += 1

    for end in (reconnect, trying.talk.close):
        for request in (TryRun(run="one", sample=1), Pause(run="two"), TryRun(run="one", close=True)):
            trying.commands.put(request)
        trying.talk.send()
        end()
        trying.talk.receive()
        assert trying.arrived() == ["link.lost"]
        assert trying.commands.next() == Pause(run="two"), "asked again"
        assert not trying.commands._new


def test_an_answer_that_never_comes_is_given_up_after_the_time_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.session.links.conversation.TRY_WITHIN_S", 0.0)
    commands = Trying(tmp_path).commands
    commands.sent(b"1", TryRun(run="one", sample=1))
    (outcome,) = commands.late()
    assert str(outcome.problem) == "The agent did not answer within 0 s. Try again."


def test_an_answer_to_what_is_tried_arrives_and_so_does_its_refusal(tmp_path: Path) -> None:
    trying = Trying(tmp_path)
    channel, talk, commands, inbox = trying.channel, trying.talk, trying.commands, trying.inbox
    tried = Tried(run="one", step=5, probabilities=(1.0,))
    refused = Refused(problem=Problem("try.checkpoint", "No checkpoint yet."))
    replies: tuple[AnyReply, ...] = (tried, refused, Done(run="one"))
    for reply in replies:
        commands.put(TryRun(run="one", sample=1))
        talk.send()
        channel.answer(TryRun, reply)
        talk.receive()
    assert list(iter(inbox.take, None)) == [TryAnswered("one", tried), TryAnswered("one", refused)]


# --- What is left behind when a program ends --------------------------------------------------------------------------

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
