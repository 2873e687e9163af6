"""A job that another computer sent is taken into the book of this one when it is over, and not before."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from clew_gui.commands.context import CommandContext
from clew_gui.commands.find import KeptJobs
from clew_gui.commands.run import fetch
from clew_gui.jobs.adopted import adopt_job, ends_of
from clew_gui.jobs.job import JobNews, JobStage
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.schedulers.state import Phase
from clew_gui.session.links.mirror import Mirror
from clew_gui.session.run_record import run_record
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, problem
from clew_shared.journal.events import Attempt, Event, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.spec import RunSpec
from tests.unit.fake_site import CLEW, Job, Login, a_line
from tests.unit.runs import RUN as FETCHED
from tests.unit.runs import begin_run, describe

JOB = "0f3d6c52-8f0e-4c1b-9a70-3b6a4b1f2c11"
RUN = RunSpec(exercise="softmax", run="5f2b8c1e-0000-4000-8000-000000000001", nodes=2)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "home", private=tmp_path / "private")


@pytest.fixture
def book(places: Places) -> JobBook:
    return job_book(places)


@pytest.fixture
def login() -> Login:
    """Its job runs."""
    login = Login()
    login.jobs["7"] = Job(name=f"clew-{JOB}", state="RUNNING", nodes="node1")
    login.files[f"{CLEW}/jobs/{JOB}/record.0"] = a_record("running", "")
    return login


def adopted(login: Login, book: JobBook, run: RunSpec) -> bool:
    line = a_line(login)
    return adopt_job(line, book, JOB, run, ends_of(line, () if JOB in book.jobs() else (JOB,))[0].get(JOB))


def a_record(state: str, why: str) -> bytes:
    lines = {"format": 1, "job": JOB, "id": 7, "host": "node1", "began": 1000, "state": state, "why": why, "code": 0}
    return "".join(f"{name}={value}\n" for name, value in lines.items()).encode()


def test_one_that_lives_is_left_to_the_computer_that_sent_it(login: Login, book: JobBook) -> None:
    assert not adopted(login, book, RUN)
    assert book.jobs() == ()
    login.silent = True
    assert not adopted(login, book, RUN), "nobody knows"


def test_one_that_has_ended_is_in_the_book_with_its_end_and_goes_on_from_here(login: Login, book: JobBook) -> None:
    login.jobs["7"].state = "CANCELLED"
    assert adopted(login, book, RUN)
    news, order = book.news(JOB), book.order(JOB)
    assert (news.stage, news.phase, news.id) == (JobStage.ENDED, Phase.CANCELLED, "7")
    assert (order.site, order.runs, order.allocation.nodes, order.allocation.time) == ("lab", (RUN,), 2, "10")
    assert book.job_of(RUN.run) == JOB
    again = RunSpec(exercise="softmax", run="5f2b8c1e-0000-4000-8000-000000000002")
    login.silent = True
    assert adopted(login, book, again), "of a job that is known nobody is asked"
    assert book.runs(JOB) == (RUN.run, again.run)


def fold_of(job: str) -> RunFold:
    fold = RunFold()
    events: tuple[Event, ...] = (
        Attempt(format=1, run=RUN.run, attempt=1, exercise="softmax", spec_sha256="", job=job),
        State(state=RunState.RUNNING),
    )
    for event in events:
        fold.feed(1, event)
    return fold


def test_a_run_whose_node_died_is_not_called_running_and_one_that_another_job_has_is(
    login: Login, book: JobBook, places: Places
) -> None:
    del login.jobs["7"]
    adopted(login, book, RUN)
    kept = KeptJobs(places)
    assert kept.state(places.mirrors / RUN.run, fold_of(JOB))[0] is RunState.LOST
    assert kept.state(places.mirrors / RUN.run, fold_of("another computer's next job"))[0] is RunState.RUNNING


def test_a_site_that_cannot_say_how_a_job_ended_costs_no_run_that_was_fetched(
    places: Places, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begin_run(places.mirrors / FETCHED)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder, job=JOB))

    def unheard(*_: object) -> tuple[dict[str, JobNews], list[Problem]]:
        return {}, list(problem("ssh.lost", "The connection was lost.").problems)

    monkeypatch.setattr(fetch, "ends_of", unheard)
    context = CommandContext(places, io.StringIO(), io.StringIO())
    found = fetch._adopt_jobs(context, a_line(login), run_record(places), [Mirror(folder.path)] * 2)
    assert [one.code for one in found] == ["ssh.lost"]
