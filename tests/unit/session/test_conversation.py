"""What a conversation asks its agent for, and when again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew_gui.session.links.conversation import Conversation, OutgoingCommands, Parts
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Cards, Inbox, TryAnswered
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
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
