"""From the click on Run to the first bytes: no wait, round trip or disk stands before them that could be spared."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from clew_agent.catalogue import exercise_files
from clew_agent.catalogue.examine import find_exercise
from clew_agent.catalogue.lookup import quick_card
from clew_agent.exercises import linear_regression
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_gui.session.links.conversation import Conversation, OutgoingCommands, Parts
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Inbox, Statuses
from clew_gui.session.links.link import Link
from clew_gui.session.run_record import run_record
from clew_gui.session.session import Session
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.events import Attempt, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import Fetch, Refused, RunStatus, StartRun
from tests.unit.runs import RUN, points
from tests.unit.session.fake_channel import FakeChannel

CARDS = Catalogue(exercises=(ExerciseCard(id="toy", title="Toy"),))
SPEC = RunSpec(exercise="toy", run=RUN)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "home", private=tmp_path / "private")


def test_the_first_fetch_goes_right_behind_the_start_and_waits_at_the_agent(places: Places) -> None:
    inbox, commands = Inbox(), OutgoingCommands()
    target = LocalTarget(places, ["/bin/false"])
    parts = Parts(Fetcher(places.mirrors, inbox), commands, inbox, target, lambda _run: True, lambda _problem: None)
    wire: Any = FakeChannel()
    address: Any = None
    talk = Conversation(wire, address, parts, None)
    commands.put(StartRun(spec=SPEC))
    talk.send()
    assert wire.sent[2:] == [StartRun(spec=SPEC), Fetch(run=RUN, attempt=1, offset=0)]


def test_a_start_that_was_refused_is_not_fetched_until_the_agent_lists_it(tmp_path: Path) -> None:
    fetcher = Fetcher(tmp_path, Inbox())
    fetcher.expect(RUN)
    wanted = fetcher.next_fetch()
    assert wanted is not None
    fetcher.sent(RUN, b"1")
    assert fetcher.answered(b"1", Refused(problem=Problem("run.unknown", "There is no such run.")))
    assert fetcher.next_fetch() is None
    fetcher.note(RunStatus(run=RUN, exercise="toy", state=RunState.STARTING, attempt=1, size=0))
    assert fetcher.next_fetch() == wanted, "and then at once"


def test_the_agent_is_asked_before_the_disk_is_waited_for(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(places, CARDS, LocalTarget(places, ["/bin/false"]))
    asked_before: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _handle: asked_before.append(bool(session.local_link.commands._new)))
    session.start_run(SPEC)
    session.close()
    assert asked_before == [True]
    assert run_record(places).numbers == {RUN: 1}


def test_a_click_ends_the_pause_between_two_attempts_to_connect(places: Places) -> None:
    inbox = Inbox()
    looks: list[int] = []
    target: Any = SimpleNamespace(
        find=lambda: looks.append(1),
        while_absent=lambda: "",
        files=lambda _over: None,
        close=lambda: None,
    )
    link = Link(target, Fetcher(places.mirrors, inbox), inbox, frozenset())
    link._not_before = float("inf")
    link.turn()
    assert looks == []
    link.ask(StartRun(spec=SPEC))
    link.turn()
    link.close()
    assert looks == [1]


def test_the_inbox_rings_once_for_all_that_arrives_before_it_is_emptied() -> None:
    inbox, rung = Inbox(), []
    inbox.wake_up = lambda: rung.append(1)
    inbox.put(Statuses(()))
    inbox.put(Statuses(()))
    assert len(rung) == 1
    inbox.take()
    inbox.take()
    inbox.put(Statuses(()))
    assert len(rung) == 2


def test_the_agent_looks_more_often_while_a_first_point_is_waited_for(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    tracked = TrackedRun(folder, RunSpec(exercise="toy"))
    seen = [tracked.beginning]
    journal = JournalWriter.create(folder.journal(1))
    begun = Attempt(format=1, run=RUN, attempt=1, exercise="toy", spec_sha256="")
    for event in (begun, State(state=RunState.RUNNING), points(0, [1.0])):
        journal.append(event)
        tracked.refresh()
        seen.append(tracked.beginning)
    journal.close()
    assert seen == [False, True, True, False]


def test_a_run_reads_one_exercise_file_and_makes_no_card_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    mentions = exercise_files.mentions

    def noted(file: exercise_files.ExerciseFile, exercise: str) -> bool:
        read.append(file.path.name)
        return mentions(file, exercise)

    monkeypatch.setattr(exercise_files, "mentions", noted)
    card = quick_card("softmax", None)
    assert card is not None
    assert read == ["softmax.py"]
    assert find_exercise("softmax", None, card)[1] is card
    other = msgspec.structs.replace(card, source_hash="of another file")
    assert find_exercise("softmax", None, other)[1] == card, "made from the file itself"


def test_the_slides_curve_is_that_of_numpy() -> None:
    w, b = linear_regression.START
    found = dict(linear_regression.slides_curve())
    for step in range(1000):
        error = w * linear_regression.X + b - linear_regression.Y
        assert found.get(float(step), np.sum(error**2)) == np.sum(error**2)
        w, b = w - 0.01 * np.sum(2 * error * linear_regression.X), b - 0.01 * np.sum(2 * error)
    assert len(found) == 40
