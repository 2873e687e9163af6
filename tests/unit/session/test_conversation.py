"""What a conversation asks its agent for, and when again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_an_answer_to_what_is_tried_arrives_and_so_does_its_refusal(tmp_path: Path) -> None:
    places, inbox = Places(home=tmp_path / "home", private=tmp_path / "private"), Inbox()
    target, commands = LocalTarget(places, ["/bin/false"]), OutgoingCommands()
    parts = Parts(Fetcher(places.mirrors, inbox), commands, inbox, target, lambda _: True, lambda _: None)
    channel: Any = FakeChannel()
    address: Any = None
    talk = Conversation(channel, address, parts, None)
    tried = Tried(run="one", step=5, probabilities=(1.0,))
    refused = Refused(problem=Problem("try.checkpoint", "No checkpoint yet."))
    replies: tuple[AnyReply, ...] = (tried, refused, Done(run="one"))
    for reply in replies:
        commands.put(TryRun(run="one", sample=1))
        talk.send()
        channel.answer(TryRun, reply)
        talk.receive()
    assert list(iter(inbox.take, None)) == [TryAnswered("one", tried), TryAnswered("one", refused)]
