"""What is said of a run on a site while its job waits, works and ends."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from clew_gui.jobs.job import JobStage, JobStatus
from clew_gui.nodes.routes import RouteKind
from clew_gui.schedulers.allocation import AllocationRequest, node_hours, seconds_asked
from clew_gui.schedulers.state import Phase
from clew_gui.session.intake import is_stale
from clew_gui.session.job_links import JobModel
from clew_gui.session.links.inbox import LinkState, LinkStatus
from clew_gui.ssh.prompts import NEEDS_PERSON
from clew_gui.views.presentation import job_words, words
from clew_gui.views.presentation.job_words import NOTHING
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Checkpoint
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.unit.fake_site import Login
from tests.unit.nodes.test_routes import AT, find, open_node, refusal, speaks

NOW = 1_000_000.0


def job_with(
    run: fakes.FakeRun | None, stage: JobStage, link: str = "LIVE", since: float = NOW, **news: object
) -> JobModel:
    """A job and its link."""
    job = fakes.FakeSession().add_job(run, stage, **news)
    job.link = LinkStatus(LinkState(link), since, "the agent comes up")
    return job


def a_run() -> fakes.FakeRun:
    """A run of which nothing is known."""
    return fakes.FakeSession().add()


@pytest.mark.parametrize(
    ("stage", "news", "word", "below"),
    [
        (JobStage.CONNECTING, {"text": "Logging in."}, "Connecting", "Logging in."),
        (
            JobStage.PREPARING,
            {"text": "Brings the agent there: 12 of 31 MB."},
            "Preparing",
            "Brings the agent there: 12",
        ),
        (JobStage.QUEUED, {"text": "Other jobs come first.", "id": "7"}, "Queued", "Other jobs come first."),
        (JobStage.QUEUED, {"text": "The limit is 2 minutes.", "blocked": True}, "Will not start", "The limit is 2"),
        (JobStage.QUEUED, {}, "Queued", "Waits for the site."),
    ],
)
def test_what_the_card_says_while_a_job_waits(stage: JobStage, news: dict[str, Any], word: str, below: str) -> None:
    run = a_run()
    job = job_with(run, stage, **news)
    found = job_words.card_words(run, job, NOW)
    assert found.word == word
    assert found.below.startswith(below)
    assert found.waits


def test_the_table_has_the_stages_words() -> None:
    run = a_run()
    run.waiting = RunState.SUBMITTED
    assert words.state_word(run) == "Submitted"
    job_with(run, JobStage.PREPARING)
    assert words.state_word(run) == "Preparing"


def test_what_was_refused_before_it_was_queued_is_not_said_to_have_failed(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add()
    run.waiting, run.told = RunState.FAILED, "The data set 'mnist' was not found."
    found = Problem("data.missing", run.told, "Give a file of this computer.", "data")
    session.add_job(run, JobStage.ENDED, text=found.text, problem=found)
    assert words.state_word(run) == "Not sent"
    card = open_window(session).window.run_view.card
    assert card.pill.accessibleName() == "State: Not sent"
    assert (card.reason.text.text(), card.reason.hint.text()) == (found.text, found.hint)
    card.why.click()
    assert "the data set 'mnist' was not found" in card.sentence.whole()


def test_the_end_of_a_jobs_time_is_counted_down() -> None:
    run = a_run()
    run.begin()
    found = job_words.card_words(run, job_with(run, JobStage.RUNNING, until=NOW + 1380), NOW)
    assert (found.countdown, found.left_s, found.waits) == ("Job ends in 23 min", 1380, False)
    run.end(RunState.FINISHED)
    assert job_words.card_words(run, None, NOW) == NOTHING, "it is over"


def test_a_silent_link_is_told_calmly() -> None:
    run = a_run()
    run.begin()
    run.link_stale = True
    job = job_with(run, JobStage.RUNNING, "STALE", NOW - 20, nodes="node1")
    words = "No answer from node1 for 20 s. Training goes on there."
    assert job_words.card_words(run, job, NOW).notice == words
    assert job_words.link_words(job, NOW) == words


def test_a_run_of_a_site_where_nobody_is_logged_in_is_not_followed() -> None:
    run = a_run()
    run.begin()
    run.link_stale = run.logged_out = True
    assert (words.state_word(run), words.state_detail(run)) == (
        "Not followed",
        "you are logged out, the run goes on",
    )
    run.end(RunState.FINISHED)
    assert words.state_word(run) == "Finished"


def test_before_the_first_answer_of_its_agent_a_run_starts_and_nothing_is_lost(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add()
    model = session.add_job(run, JobStage.RUNNING, nodes="node1")
    model.link = LinkStatus(LinkState.CONNECTING, NOW, "connecting", link=model.id)
    found = job_words.card_words(run, model, NOW)
    assert (found.sentence, found.notice) == ("connecting to node1", "")
    program = open_window(session)
    assert program.window.top.fact("queue") == "Queue: 1 waiting, 0 running"


def test_runs_whose_journals_are_still_to_be_read_do_not_wait_in_the_queue(open_window: Opener) -> None:
    session = fakes.FakeSession()
    for _ in range(3):
        session.add().copied = 5000
    program = open_window(session)
    assert program.window.top.fact("queue") == "Queue: empty"


def test_the_whole_of_a_reassuring_sentence_is_seen_beside_its_buttons(open_window: Opener, qtbot: QtBot) -> None:
    session = fakes.FakeSession()
    run = session.add().begin()
    run.link_stale = True
    model = session.add_job(run, JobStage.RUNNING, nodes="node1")
    model.link = LinkStatus(LinkState.STALE, time.time() - 25, "silent", link=model.id)
    program = open_window(session, size=(1280, 800))
    card = program.window.run_view.card
    assert card.notice.text().endswith("Training goes on there.")
    assert card.notice.isVisible()
    assert card.notice.heightForWidth(card.notice.width()) <= card.notice.height()


@pytest.mark.parametrize("state", [LinkState.CONNECTING, LinkState.OFFLINE, LinkState.REFUSED])
def test_a_link_that_never_was_is_not_lost(state: LinkState) -> None:
    job = JobStatus(job="j", stage=JobStage.RUNNING)
    assert not is_stale(state, job, began=False)
    assert is_stale(state, job, began=True)
    assert is_stale(LinkState.STALE, job, began=False)
    assert not is_stale(state, JobStatus(job="j", stage=JobStage.QUEUED), began=True)
    assert is_stale(state, None, began=False), "this computer's agent"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (RouteKind.LOGIN, "node1: live, through login"),
        (RouteKind.HOP, "node1: live, through login, jumping into node1"),
        (RouteKind.RELAY, "node1: live, through login, as a step of the job"),
    ],
)
def test_the_route_stands_in_the_status_line(kind: RouteKind, words: str) -> None:
    login = Login()
    if kind is RouteKind.LOGIN:
        login.streams[AT] = speaks
    login.node = open_node() if kind is RouteKind.HOP else None
    login.relay = speaks if kind is RouteKind.RELAY else None
    way = find(login)
    job = job_with(a_run(), JobStage.RUNNING, nodes="node1")
    job.target = FakeRoute(way.text)  # type: ignore[assignment]
    way.close()
    assert job_words.link_words(job, NOW) == words
    assert job_words.pill_words(job)[0] == "The Cave, live"


class FakeRoute:
    """A target that says how it goes."""

    def __init__(self, route: str) -> None:
        self.route = route


def test_that_no_way_leads_stands_there_while_the_journal_comes_as_a_file() -> None:
    why = refusal(Login())
    job = job_with(a_run(), JobStage.RUNNING, nodes="node1")
    job.link = LinkStatus(LinkState.CONNECTING, NOW, why.text)  # as AgentRoute.while_absent says it
    job.target = FakeRoute("its journal as a file")  # type: ignore[assignment]
    text = job_words.link_words(job, NOW)
    assert "cannot reach the agent on node1" in text
    assert "as a step of the job: srun: error: Unable to create step" in text
    assert text.endswith("; its journal as a file")


def test_a_run_whose_jobs_time_was_up_is_continued(open_window: Opener, qtbot: QtBot) -> None:
    session = fakes.FakeSession()
    run = session.add().begin().train(140)
    run.feed(Checkpoint(step=140, folder="checkpoints/00000140", files=()))
    run.end(RunState.TIMED_OUT, "the job's time was up")
    session.add_job(run, JobStage.ENDED, phase=Phase.TIMED_OUT)
    card = open_window(session).window.run_view.card
    assert card.pill.accessibleName() == "State: Timed out"
    assert card.go_on.isEnabled()
    card.go_on.click()
    assert session.asked == [("continue", run.id)]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (AllocationRequest(time="01:00:00"), "1 node-hour"),
        (AllocationRequest(time="02:00:00", nodes=2), "4 node-hours"),
        (AllocationRequest(time="30"), "0.50 node-hours"),
        (AllocationRequest(time="1-00:00:00", nodes=8), "192 node-hours"),
        (AllocationRequest(time="00:00:02"), "under 0.01 node-hours"),
    ],
)
def test_what_a_job_counts_in_node_hours(asked: AllocationRequest, words: str) -> None:
    assert node_hours(asked.nodes, seconds_asked(asked)) == words


def test_a_run_that_will_not_end_in_time_says_so_early(open_window: Opener, qtbot: QtBot) -> None:
    session = fakes.FakeSession()
    run = session.add(steps=10_000).begin(10_000).train(100, 10.0)
    session.add_job(run, JobStage.RUNNING, until=time.time() + 60, nodes="node1")
    program = open_window(session)
    card = program.window.run_view.card
    assert card.forecast.text() == "Will not finish in this job's time."
    assert card.limit.text().startswith("Job ends in")
    session.jobs.clear()
    run.job = None
    program.controller.panels.card()
    assert card.forecast.text().startswith("Will finish in")


# --- Who has to log in ------------------------------------------------------------------------------------------------

CODE = Problem(NEEDS_PERSON, "login asks for a one-time code.", "Log in.")
CANCELLED = Problem("ssh.cancelled", "The login to login was cancelled.")


@pytest.mark.parametrize(
    ("locked", "elsewhere", "stage", "number", "words"),
    [
        (CODE, False, JobStage.RUNNING, 1, "The Cave asks you to log in again; a job goes on there."),
        (CODE, False, JobStage.QUEUED, 2, "The Cave asks you to log in again; 2 jobs go on there."),
        (CODE, True, JobStage.QUEUED, 1, "Sent to The Cave by another program: log in to follow it."),
        (CODE, True, JobStage.QUEUED, 2, "2 jobs were sent to The Cave by another program: log in to follow them."),
        (CANCELLED, False, JobStage.RUNNING, 1, "You are not logged in to The Cave; a job goes on there."),
        (CODE, False, JobStage.ENDED, 1, "Log in to The Cave to fetch what a job left there."),
    ],
)
def test_a_lost_login_says_what_a_person_can_do(
    locked: Problem, elsewhere: bool, stage: JobStage, number: int, words: str
) -> None:
    jobs = [job_with(None, stage) for _ in range(number)]
    for job in jobs:
        job.locked, job.elsewhere = locked, elsewhere
    assert job_words.locked_words(jobs) == words


def test_the_card_and_the_status_line_of_a_run_whose_login_is_lost_lead_to_it() -> None:
    run = a_run()
    job = job_with(run, JobStage.QUEUED, text="Other jobs come first.", id="7")
    job.locked = CODE
    told = job_words.card_words(run, job, NOW)
    assert (told.locked, told.waits, told.word) == (True, True, "Queued")
    assert "log in again" in told.below
    assert job_words.link_words(job, NOW) == "The Cave: log in to follow"
    assert job_words.pill_words(job)[0] == "The Cave, log in"
    at_work = a_run()
    job = job_with(at_work, JobStage.RUNNING, "STALE", nodes="node1")
    job.locked = CODE
    told = job_words.card_words(at_work, job, NOW)
    assert (told.locked, told.waits) == (True, False)
    assert "log in again" in told.notice


def test_a_node_that_is_kept_after_its_runs_is_said_and_can_be_let_go(open_window: Opener, qtbot: QtBot) -> None:
    session = fakes.FakeSession()
    run = session.add().begin().end()
    model = session.add_job(run, JobStage.RUNNING, nodes="node1")
    model.idle_until = time.time() + 40
    program = open_window(session)
    program.sites.nodes.show()
    (line,) = program.sites.bar.rows.values()
    assert line.text.text().startswith("node1 is kept ")
    assert line.text.text().endswith(" s more, so that a run can be continued at once")
    assert program.window.top.fact("queue") == "Queue: empty, 1 node kept"
    gone, other = Problem("route.silent", "No answer from node1."), Problem("route.silent", "No answer from node12.")
    for one in (gone, other, gone):
        program.window.messages.show_problems((one,))
    assert program.window.messages.problems() == (other, gone), "each once, the newest last"
    failed = Problem("run.lost", "node1 ended during the run.")
    program.window.messages.show_problems((failed,), run=run.id)
    line.let_go.click()
    assert session.asked[-1] == ("cancel", model.id)
    assert program.window.messages.problems() == (other, failed), "what was said of a node goes with it"
