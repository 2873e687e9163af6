"""When a job of another program counts as never sent, and what keeps others from concluding that too early."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew_gui.jobs import procedure
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import BookLine, JobBook
from clew_gui.jobs.managed_job import ManagedJob
from clew_gui.jobs.manager import JobManager
from clew_gui.jobs.watch import HEARTBEAT_S, LONGEST_S, JobWatch, Watched, due, wait_s
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.state import JobState, Phase
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec
from tests.unit.fake_site import AGENT, Job, Login, a_deployer, a_line, an_access


class Waiting(ManagedJob):
    """Pauses take no time and move the clock. ``meanwhile`` happens in each."""

    now = 0.0
    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        self.meanwhile()
        return not self.closing


class Laptop:
    """A program that finds a job in the book which another program was about to send."""

    def __init__(
        self,
        folder: Path,
        stage: JobStage = JobStage.PREPARING,
        sure: float = 0.0,
    ) -> None:
        self.login = Login()
        self.told: list[JobStatus] = []
        specs = (RunSpec(exercise="softmax", run=str(uuid.uuid4())),)
        self.order = JobOrder(job=str(uuid.uuid4()), site="lab", runs=specs, allocation=AllocationRequest(time="10"))
        self.job = self.order.job
        path = folder / "jobs.jsonl"
        lines = [
            BookLine(job=self.job, order=self.order, title="Lab"),
            BookLine(job=self.job, news=JobStatus(job=self.job, stage=stage)),
        ]
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        self.theirs, self.book = (JobBook(path, folder / "own disk") for _ in range(2))
        self.watch = JobWatch(an_access(lambda: a_line(self.login)), sure)
        self.managed: Waiting = Waiting(
            self.job,
            self.watch,
            self.book,
            self.told.append,
            lambda: self.managed.now,
        )

    def found(self) -> str:
        return procedure.found_again(self.managed)

    def unsent(self) -> str:
        """Why it counts as never sent."""
        with pytest.raises(ProblemError) as caught:
            self.found()
        assert caught.value.problems[0].code == "job.unsent"
        return caught.value.problems[0].text


@pytest.fixture(params=["a disk with locks", "a disk without"])
def laptop(request: pytest.FixtureRequest, tmp_path: Path) -> Laptop:
    if request.param == "a disk without":
        (tmp_path / "jobs.locks").touch()
    return Laptop(tmp_path)


def test_a_job_whose_program_has_ended_counts_as_never_sent_at_once(laptop: Laptop) -> None:
    assert "never sent" in laptop.unsent()
    assert laptop.managed.now == 0.0


def test_while_a_program_sends_the_job_nothing_is_concluded(laptop: Laptop) -> None:
    lock = laptop.theirs.lock(laptop.job)
    assert lock is not None

    def look() -> None:
        if laptop.managed.now >= 100.0:
            laptop.theirs.note_news(JobStatus(job=laptop.job, stage=JobStage.QUEUED, id="7"))

    laptop.managed.meanwhile = look
    assert laptop.found() == "", "it is the other program's"
    assert (laptop.told[-1].stage, laptop.told[-1].id) == (JobStage.QUEUED, "7")
    assert laptop.managed.now >= 100.0
    assert not any(news.over for news in laptop.told)
    lock.remove()
    laptop.watch.close()


def test_a_program_that_ends_while_it_sends_counts_from_its_end(laptop: Laptop) -> None:
    lock = laptop.theirs.lock(laptop.job)
    assert lock is not None

    def end() -> None:
        if laptop.managed.now >= 100.0:
            lock.release()

    laptop.managed.meanwhile = end
    laptop.unsent()
    assert laptop.managed.now >= 100.0


def test_what_may_have_been_sent_is_looked_for(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, JobStage.SUBMITTING)
    laptop.login.jobs["4"] = Job(name=f"clew-{laptop.job}")
    assert laptop.found() == "4"


# --- The program that sends -------------------------------------------------------------------------------------------


def test_a_program_that_sends_has_the_lock_until_the_book_has_the_id(tmp_path: Path) -> None:
    path, login = tmp_path / "jobs.jsonl", Login()
    looks: list[bool] = []
    other = JobBook(path)

    def ensure_agent(_line: object, _say: object) -> object:
        other.refresh()
        looks.append(other.lock(other.jobs()[0]) is None)
        return AGENT

    access = an_access(lambda: a_line(login), a_deployer(ensure_agent=ensure_agent))
    manager = JobManager(JobBook(path), lambda _site: access, lambda _site: "Lab", sure=0.0)
    specs = (RunSpec(exercise="softmax", run=str(uuid.uuid4())),)
    order = JobOrder(job=str(uuid.uuid4()), site="lab", runs=specs, allocation=AllocationRequest(time="10"))
    manager.submit(order)
    job = manager.job(order.job)
    job.join(time.monotonic() + 20.0)
    assert (job.news.id, looks) == ("1", [True])
    other.refresh()
    assert other.news(order.job).id == "1"
    assert not list(tmp_path.glob("jobs.locks/*")), "nothing is left of the lock"
    manager.close()


def test_what_another_program_gave_up_is_not_sent(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path)
    unsent = problem("job.unsent", "The job was never sent.").problems[0]
    laptop.theirs.note_news(JobStatus(job=laptop.job, stage=JobStage.ENDED, problem=unsent))
    laptop.book.refresh()
    with pytest.raises(ProblemError, match="never sent"):
        procedure.submit(laptop.managed)
    assert laptop.login.sent == 0


def test_a_job_that_waits_for_others_to_be_sent_can_be_given_up(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path)
    while laptop.watch.access.turns.acquire(blocking=False):
        pass

    def give_up() -> None:
        laptop.theirs.note_end_request(laptop.job, EndRequest.CANCEL)
        laptop.book.refresh()

    laptop.managed.meanwhile = give_up
    with pytest.raises(ProblemError, match="cancelled"):
        procedure.submit(laptop.managed)
    assert laptop.login.dials == 0


@pytest.mark.parametrize("just_now", [False, True], ids=["long ago", "its command may still run"])
def test_the_second_look_for_a_job_waits_whatever_changes_meanwhile(
    just_now: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, pauses = Laptop(tmp_path, JobStage.SUBMITTING, sure=0.0 if just_now else 0.2), []
    monkeypatch.setattr(procedure, "CALL_LIMIT_S", 0.2)
    if just_now:
        laptop.theirs.note_runs(laptop.job, "another")

    def woken() -> None:
        pauses.append(laptop.managed.now)
        if len(pauses) == 3:  # the scheduler comes to write it down; until then something woke this twice
            laptop.login.jobs["4"] = Job(name=f"clew-{laptop.job}")
        time.sleep(0.001)

    laptop.managed.meanwhile = woken
    assert laptop.found() == "4"


# --- When a site's scheduler is asked about its jobs ------------------------------------------------------------------

JOB: Any = None
"""Nothing is reported to it here."""


def watched(now: float) -> Watched:
    return Watched(JOB, now, dice=lambda: 0.0)


class Night:
    """Jobs that may be asked about every tenth of a second; ``calls`` are the moments of the questions."""

    def __init__(self, *jobs: str) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, tuple[str, ...]]] = []
        self.phase = Phase.PENDING
        self.jobs = {job: watched(0.0) for job in jobs}

    def until(self, end: float) -> None:
        while self.now < end:
            if asked := due(self.jobs, self.now):
                self.calls.append((round(self.now, 1), tuple(asked)))
                for job, one in asked.items():
                    one.answer(JobState(id=job, phase=self.phase), self.now)
            self.now += 0.1


def test_the_first_question_comes_after_two_seconds_and_then_ever_more_seldom() -> None:
    night = Night("7")
    night.until(400)
    moments = [moment for moment, _ in night.calls]
    pauses = [later - sooner for sooner, later in pairwise(moments)]
    assert moments[0] == pytest.approx(2.0)
    assert pauses[0] == pytest.approx(3.0, abs=0.2)
    assert all(later >= sooner - 0.2 for sooner, later in pairwise(pauses))
    assert pauses[-1] == pytest.approx(LONGEST_S, abs=0.2)
    assert len(moments) < 16


def test_one_call_is_for_all_jobs() -> None:
    night = Night("7", "8", "9")
    night.until(300)
    assert {jobs for _, jobs in night.calls} == {("7", "8", "9")}


def test_after_something_has_happened_it_is_asked_at_once_although_agents_spoke() -> None:
    night = Night("7")
    night.until(200)
    night.jobs["7"].hear(night.now)
    asked = len(night.calls)
    night.jobs["7"].hurry(night.now)
    night.until(206)
    moments = [moment for moment, _ in night.calls[asked:]]
    assert moments[0] == pytest.approx(200, abs=0.2)
    assert moments[1] - moments[0] < 4


def test_after_a_change_the_next_question_comes_soon_again() -> None:
    night = Night("7")
    night.until(200)
    night.phase = Phase.RUNNING
    asked = len(night.calls)
    night.until(300)
    news = [moment for moment, _ in night.calls[asked:]]
    assert news[1] - news[0] == pytest.approx(2.0, abs=0.2)


def test_nobody_asks_about_jobs_whose_agent_is_heard() -> None:
    night = Night("7", "8")
    while night.now < 300:
        night.jobs["7"].hear(night.now)
        night.until(night.now + 5)
    assert {jobs for _, jobs in night.calls} == {("8",)}
    silent_since = night.now
    night.calls.clear()
    night.until(silent_since + 120)
    first = next(moment for moment, jobs in night.calls if "7" in jobs)
    assert first >= silent_since + HEARTBEAT_S - 5.2


def test_with_every_agent_heard_there_is_no_call_at_all() -> None:
    night = Night("7")
    while night.now < 600:
        night.jobs["7"].hear(night.now)
        night.until(night.now + 10)
    assert night.calls == []
    assert wait_s(night.jobs, night.now) == pytest.approx(HEARTBEAT_S - 10, abs=0.2)


def test_a_scheduler_that_does_not_answer_is_left_in_peace_and_changes_nothing() -> None:
    night = Night("7")
    night.until(4)
    known = night.jobs["7"].state
    night.phase = Phase.SILENT
    asked = len(night.calls)
    night.until(200)
    assert night.jobs["7"].state == known
    moments = [moment for moment, _ in night.calls[asked:]]
    assert all(later - sooner >= 10 for sooner, later in pairwise(moments))


def test_a_job_that_has_ended_is_not_asked_about_any_more() -> None:
    one, states = watched(0.0), []
    for now, phase in ((10.0, Phase.PENDING), (20.0, Phase.PENDING), (30.0, Phase.RUNNING), (90.0, Phase.FAILED)):
        one.answer(JobState(id="7", phase=phase), now)
        assert one.state is not None
        states.append(one.state.phase)
    assert states == [Phase.PENDING, Phase.PENDING, Phase.RUNNING, Phase.FAILED]
    assert wait_s({"7": one}, 100.0) is None
    assert due({"7": one}, 1000.0) == {}
