"""Why nothing of a run on a site moves, as a terminal says it."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from clew_gui.commands.output.progress import PlainDisplay, picture
from clew_gui.commands.output.standstill import QUIET_S, Standstill, Watched, clock, no_agent
from clew_gui.jobs.job import JobStage, JobStatus
from clew_gui.session.links.inbox import AGENT_ENDED, LinkState, LinkStatus
from clew_gui.session.links.link import STALE_AFTER_S
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Attempt, Points, Schema, State
from clew_shared.journal.files import JOURNAL_FORMAT
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.messages import RunStatus
from tests.unit.runs import METRICS, points

NOW = 1_800_000_000.0
RUNNING = JobStatus(job="j", stage=JobStage.RUNNING, text="The job runs.", id="7", nodes="node1")


def history(*more: State | Points) -> History:
    """A run of 100 steps that has begun."""
    found = History()
    first = Attempt(time=NOW, format=JOURNAL_FORMAT, run="r", attempt=1, exercise="softmax", spec_sha256="", steps=100)
    for event in (first, Schema(id=1, metrics=METRICS), State(state=RunState.RUNNING), *more):
        found.feed(1, event)
    return found


class Scene:
    """A run that trains on node1, heard all the time."""

    def __init__(self) -> None:
        self.run: Any = SimpleNamespace(
            history=history(points(0, [4, 3])), status=None, settled=False, state=RunState.RUNNING, catching_up=None
        )
        link = LinkStatus(LinkState.LIVE, NOW, "live")
        self.job: Any = SimpleNamespace(title="Uni", news=RUNNING, link=link, locked=None)
        self.watched = Watched(NOW)

    def why(self, after: float) -> str:
        found = self.watched.look(self.run, self.job, NOW + after)
        return found.text if found is not None else ""


def test_what_moves_needs_no_word() -> None:
    scene = Scene()
    assert [scene.why(after) for after in (0.0, 5.0, QUIET_S - 1)] == ["", "", ""]
    for step in range(2, 6):
        scene.run.history.feed(1, points(step, [2]))
        assert scene.why(10.0 * step) == ""


def test_a_cut_is_said_with_the_time_of_the_last_word_until_it_is_over() -> None:
    scene = Scene()
    scene.why(0.0)
    scene.job.link = LinkStatus(LinkState.STALE, NOW + 3, "silent")
    said = f"No answer from node1 since {clock(NOW + 3)}. Training goes on there."
    assert scene.why(18.0) == said
    scene.job.link = LinkStatus(LinkState.CONNECTING, NOW + 40, "connecting")
    assert scene.why(41.0) == said, "the same silence"
    scene.job.news = JobStatus(
        job="j", stage=JobStage.RUNNING, id="7", nodes="node1", problem=Problem("ssh.reach", "login cannot be reached.")
    )
    assert scene.why(42.0) == f"{said} login cannot be reached."
    scene.job.locked = Problem("ssh.person", "Uni asks for a one-time code.")
    assert scene.why(43.0) == f"{said} Uni asks for a one-time code."
    scene.job.link = LinkStatus(LinkState.LIVE, NOW + 50, "live")
    assert scene.why(51.0) == "", "steps are on their way"
    assert scene.why(51.0 + QUIET_S) == f"No new step since {clock(NOW + 43)}; node1 answers."


def test_an_agent_that_falls_silent_is_one_sentence_and_not_two() -> None:
    scene = Scene()
    assert [scene.why(0.0), scene.why(STALE_AFTER_S + 1)] == ["", ""], "the link is about to say it"
    scene.job.link = LinkStatus(LinkState.STALE, NOW, "silent")
    assert scene.why(STALE_AFTER_S + 2) == f"No answer from node1 since {clock(NOW)}. Training goes on there."


def test_nothing_is_said_to_train_on_where_the_agent_has_ended() -> None:
    scene = Scene()
    scene.job.link = LinkStatus(LinkState.CONNECTING, NOW + 3, AGENT_ENDED)
    said = "The agent on node1 has ended; Clew asks the scheduler what became of the job."
    assert scene.why(4.0) == said
    scene.job.link = LinkStatus(LinkState.CONNECTING, NOW + 4, "connecting")
    assert scene.why(5.0) == said, "nothing else is known"
    scene.job.news = JobStatus(job="j", stage=JobStage.QUEUED, text="The job was put back into the queue.", id="7")
    assert scene.why(6.0) == "The job is back in the queue. The job was put back into the queue."
    scene.job.news = RUNNING
    assert scene.why(6.5) == "The job runs; its agent is starting.", "nothing trains there yet"
    scene.job.link = LinkStatus(LinkState.LIVE, NOW + 7, "live")
    assert scene.why(7.0) == ""
    scene.job.link = LinkStatus(LinkState.STALE, NOW + 8, "silent")
    assert scene.why(23.0) == f"No answer from node1 since {clock(NOW + 8)}. Training goes on there."


@pytest.mark.parametrize(
    ("state", "words", "said"),
    [
        (LinkState.STALE, "silent", f"No answer from node1 since {clock(NOW)}."),
        (
            LinkState.CONNECTING,
            AGENT_ENDED,
            "The agent on node1 has ended; Clew asks the scheduler what became of the job.",
        ),
        (LinkState.CONNECTING, "no agent answers at its address", "No agent answers at its address."),
        (LinkState.CONNECTING, "The job runs; its agent is starting.", "The job runs; its agent is starting."),
        (LinkState.CONNECTING, "connecting", ""),
        (LinkState.LIVE, "live", ""),
    ],
)
def test_why_an_agent_is_not_heard_is_a_sentence(state: LinkState, words: str, said: str) -> None:
    scene = Scene()
    scene.job.link = LinkStatus(state, NOW, words)
    assert no_agent(scene.job) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"news": JobStatus(job="j", stage=JobStage.QUEUED, text="Begins again.", id="7")},
            "The job is back in the queue",
        ),
        ({"news": JobStatus(job="j", stage=JobStage.ENDED, id="7")}, "The job is over; what it left is being fetched."),
    ],
)
def test_a_job_that_waits_again_or_is_over_is_said(change: dict[str, object], said: str) -> None:
    scene = Scene()
    for name, value in change.items():
        setattr(scene.job, name, value)
    assert scene.why(1.0).startswith(said)
    scene.run.settled = True
    assert scene.why(2.0) == "", "the end says the rest"


def test_a_run_that_waits_in_its_agents_queue_says_its_place() -> None:
    scene = Scene()
    scene.run.status = RunStatus(run="r", exercise="softmax", state=RunState.QUEUED, attempt=1, size=0, queue=2)
    assert scene.why(1.0) == "Waiting: 2nd in the queue of node1."


def test_what_was_fetched_of_long_ago_is_no_standstill() -> None:
    scene = Scene()
    scene.run.catching_up = 0.4
    scene.why(0.0)
    assert scene.why(60.0) == ""


# --- How it is shown --------------------------------------------------------------------------------------------------


def test_the_picture_shows_no_speed_and_no_end_while_nothing_moves() -> None:
    run = history(points(0, [4, 3]))
    still = Standstill("No answer from node1 since 14:03:05. Training goes on there.", time.time() - 32)

    def drawn(still: Standstill | None) -> str:
        console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
        with console.capture() as capture:
            console.print(picture(run, None, "a title", 100, still=still))
        return capture.get()

    assert "2.00 steps/s" in drawn(None)
    assert "left" in drawn(None)
    shown = drawn(still)
    assert "step 2 of 100" in shown
    assert "steps/s" not in shown
    assert " left" not in shown
    assert "Training goes on there. (32 s)" in shown


def test_without_a_terminal_a_standstill_is_one_line_and_its_end_another() -> None:
    said: list[str] = []
    display = PlainDisplay(said.append, None, "a title")
    run = history(points(0, [4, 3]))
    display.show(run)
    before = len(said)
    still = Standstill("No answer from node1 since 14:03:05.", time.time() - 32)
    for _ in range(3):
        display.show(run, still=still)
    display.show(run)
    assert said[before:] == ["  No answer from node1 since 14:03:05."], "an answer alone is no movement"
    run.feed(1, points(2, [2]))
    display.show(run)
    assert said[before + 1] == "  It moves again after 32 s."
    display.show(run, still=still)
    assert said[-1] == "  No answer from node1 since 14:03:05."


@pytest.mark.parametrize("fetched", [0, 3], ids=["nothing", "steps"])
def test_a_run_that_ends_while_it_stands_still_does_not_move_again(fetched: int) -> None:
    """A node lost its power; what it had written before is fetched afterwards."""
    said: list[str] = []
    display = PlainDisplay(said.append, None, "a title")
    run = history(points(0, [4, 3]))
    display.show(run)
    display.show(run, still=Standstill("No answer from node1 since 14:03:05.", time.time() - 26))
    if fetched:
        run.feed(1, points(2, [2] * fetched))
    display.show(run, still=Standstill("The job is over; what it left is being fetched.", time.time() - 26))
    display.show(run, last=True)
    assert not [line for line in said if "moves again" in line]


def test_without_a_terminal_a_pause_is_a_line_with_its_reason() -> None:
    said: list[str] = []
    display = PlainDisplay(said.append, None, "a title")
    run = history(points(0, [4, 3]))
    display.show(run)
    before = len(said)
    run.feed(1, State(state=RunState.PAUSED, reason="Waiting for the disk: No space left on device"))
    display.show(run)
    display.show(run)
    run.feed(1, State(state=RunState.RUNNING))
    display.show(run)
    assert said[before:] == ["  Paused: Waiting for the disk: No space left on device", "  It goes on."]
