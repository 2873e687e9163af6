"""An agent of another version: what is said of it, once, and how an answer that cannot be read is borne."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew_gui.session.links import conversation
from clew_gui.session.links.conversation import VERSION_CODES, Conversation, OutgoingCommands, Parts, other_version
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Inbox, RequestFailed
from clew_gui.session.links.link import Link
from clew_gui.targets.target import LocalTarget
from clew_shared import __version__
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.wire.messages import PROTOCOL_VERSION, AnyReply, GetStatus, Hello, Refused, Status, Welcome
from tests.unit.session.fake_channel import FakeChannel

Version = tuple[int, int]


def welcome(protocol: Version = PROTOCOL_VERSION, version: str = __version__) -> Welcome:
    return Welcome(protocol=protocol, agent="a", host="node17", version=version, clock=0.0)


@pytest.mark.parametrize(
    ("protocol", "version", "text"),
    [
        ((1, 1), "0.1.0", "Clew 0.1.0 (protocol 1.1), older than this one, Clew 0.2.0 (protocol 1.2)."),
        ((1, 2), "0.1.9", "Clew 0.1.9, older than this one, Clew 0.2.0."),
        ((1, 2), "0.10.0", "Clew 0.10.0, newer than this one, Clew 0.2.0."),
        ((1, 3), "0.2.0", "Clew 0.2.0 (protocol 1.3), newer than this one, Clew 0.2.0 (protocol 1.2)."),
        ((1, 2), "0.2.0+own", "Clew 0.2.0+own, not the same as this one, Clew 0.2.0."),
        ((1, 2), "", "Clew of unknown version, not the same as this one, Clew 0.2.0."),
    ],
)
def test_what_it_is_and_what_this_is(protocol: Version, version: str, text: str) -> None:
    found = other_version(welcome(protocol, version), True, (1, 2), "0.2.0")
    assert found is not None
    assert (found.code, found.text) == ("link.version", f"The agent on node17 is {text}")


def test_what_it_means_and_what_to_do() -> None:
    older, newer = welcome((1, 1), "0.1.0"), welcome((1, 3), "0.3.0")
    hints = [
        getattr(other_version(found, job, (1, 2), "0.2.0"), "hint", "")
        for found in (older, newer)
        for job in (True, False)
    ]
    assert all("Runs can be watched, steered and continued as before" in hint for hint in hints)
    assert "it refuses what is new since then" in hints[0]
    assert "the next job starts the one of this version" in hints[0]
    assert "It ends by itself when nothing has run for half an hour" in hints[1]
    assert all(hint.endswith("Update Clew on this computer.") for hint in hints[2:])


def test_of_the_same_version_nothing_is_said_and_another_major_one_only_watches() -> None:
    assert other_version(welcome(), job=True) is None
    other = other_version(welcome((2, 0), "9.0"), job=False)
    assert other is not None
    assert other.code == "link.protocol"
    assert "Runs can be watched" in other.hint


# --- A link -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def parts(tmp_path: Path, inbox: Inbox) -> Iterator[Parts]:
    places = Places(home=tmp_path / "home", private=tmp_path / "private")
    target, fetcher = LocalTarget(places, ["/bin/false"]), Fetcher(places.mirrors, inbox)
    link = Link(target, fetcher, inbox)
    yield Parts(fetcher, OutgoingCommands(), inbox, target, lambda _run: True, link.report)
    link.close()


def told(inbox: Inbox) -> list[str]:
    return [arrival.problem.code for arrival in iter(inbox.take, None) if isinstance(arrival, RequestFailed)]


def test_it_is_said_once_however_often_the_agent_greets(
    parts: Parts, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel: Any = FakeChannel()
    talk = Conversation(channel, Any, parts, None)  # type: ignore[arg-type]  # its address is not asked for

    def greeted(reply: Welcome) -> None:
        """And the connection is cut and made again."""
        channel.answer(Hello, reply)
        channel.connections += 1
        talk.receive()

    for _ in range(3):
        greeted(welcome((1, 0), "0.0.1"))
    assert told(inbox) == [VERSION_CODES[1]]
    greeted(welcome((1, 1), "0.0.2"))
    assert told(inbox) == [VERSION_CODES[1]], "that is another one"
    monkeypatch.setattr(conversation, "other_version", partial(other_version, protocol=(9, 0)))
    for _ in range(2):
        greeted(welcome())
    assert told(inbox) == [VERSION_CODES[0]]


def test_states_that_cannot_be_read_are_told_once_and_not_asked_for_at_every_turn(
    parts: Parts, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(conversation, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    channel: Any = FakeChannel()
    talk = Conversation(channel, Any, parts, None)  # type: ignore[arg-type]  # its address is not asked for

    def turn(reply: AnyReply) -> None:
        talk.send()
        channel.answer(GetStatus, reply)
        talk.receive()

    for _ in range(3):
        turn(Refused(problem=Problem("channel.reply", "The agent's reply cannot be read.")))
    assert [type(request) for request in channel.sent] == [Hello, GetStatus]
    assert told(inbox) == ["channel.reply"]
    now += 60.0  # the pause is over
    turn(Status(version=1, runs=()))
    talk.send()
    assert [type(request) for request in channel.sent] == [Hello, GetStatus, GetStatus, GetStatus]


# --- This computer as a place for runs --------------------------------------------------------------------------------


def start_until_told(target: LocalTarget) -> None:
    """Start agents as a link does while it finds none."""
    while True:
        target.find()
        target.while_absent()


def test_whoever_keeps_a_homes_lock_without_being_found_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of another container or another Wine, for example: each agent that is started here ends at once."""
    says = "print('An agent serves this home already: process 7 of elsewhere since 2026-11-26 10:04:00.')"
    monkeypatch.setattr("clew_gui.targets.target._AGAIN_S", 0.0)
    target = LocalTarget(find_places(), (sys.executable, "-c", says))
    with pytest.raises(ProblemError, match="process 7 of elsewhere since"):
        start_until_told(target)
    target.close()
