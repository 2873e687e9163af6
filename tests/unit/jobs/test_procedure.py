"""When a job of another program counts as never sent: a program that is not seen from here may well be sending it."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from clew_gui.jobs import procedure
from clew_gui.jobs.job import EndRequest, JobNews, JobOrder, JobStage
from clew_gui.jobs.job_book import BookLine, JobBook, SendingProgram
from clew_gui.jobs.managed_job import ManagedJob, Work
from clew_gui.jobs.procedure import BEAT_S, QUIET_S
from clew_gui.jobs.watch import JobWatch
from clew_gui.schedulers.allocation import AllocationRequest
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec
from tests.unit.fake_site import AGENT, Job, Login, a_deployer, a_line, an_access

ASKED = 1.7e9
"""When the job was asked for, in seconds since 1970."""
UNSEEN = SendingProgram(2**22 + 1, 0.0, socket.gethostname())
"""No such process is seen here: it has ended, or runs in a container that kept the computer's name."""
ELSEWHERE = SendingProgram(os.getppid(), psutil.Process(os.getppid()).create_time(), "another-computer")


class Waiting(ManagedJob):
    """Pauses take no time and move the clock. ``meanwhile`` happens in each."""

    now = 0.0
    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        self.meanwhile()
        return not self.closing


class Laptop:
    """A program that finds a job in the book which ``sender`` was about to send, ``ago`` seconds ago by the clocks."""

    def __init__(
        self,
        folder: Path,
        sender: SendingProgram,
        stage: JobStage = JobStage.PREPARING,
        ago: float = 0.0,
        sure: float = 0.0,
    ) -> None:
        self.login = Login()
        self.told: list[JobNews] = []
        specs = (RunSpec(exercise="softmax", run=str(uuid.uuid4())),)
        self.order = JobOrder(job=str(uuid.uuid4()), site="lab", runs=specs, allocation=AllocationRequest(time="10"))
        self.job = self.order.job
        path = folder / "jobs.jsonl"
        lines = [
            BookLine(job=self.job, time=ASKED, order=self.order, title="Lab", sender=sender),
            BookLine(job=self.job, time=ASKED, news=JobNews(job=self.job, stage=stage)),
        ]
        path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        self.theirs = JobBook(path)
        self.book = JobBook(path)
        self.watch = JobWatch(an_access(lambda: a_line(self.login)), sure)
        self.managed: Waiting = Waiting(
            self.job,
            self.watch,
            self.book,
            self.told.append,
            lambda: self.managed.now,
            lambda: ASKED + ago + self.managed.now,
        )

    def found(self) -> str:
        return procedure.found_again(self.managed)

    def unsent(self) -> str:
        """Why it counts as never sent."""
        with pytest.raises(ProblemError) as caught:
            self.found()
        assert caught.value.problems[0].code == "job.unsent"
        return caught.value.problems[0].text


@pytest.mark.parametrize("sender", [UNSEEN, ELSEWHERE, SendingProgram(os.getpid(), 0.0)])
def test_a_program_that_is_not_seen_has_a_minute_to_be_heard_of(tmp_path: Path, sender: SendingProgram) -> None:
    laptop = Laptop(tmp_path, sender)
    assert "never sent" in laptop.unsent()
    assert QUIET_S <= laptop.managed.now <= QUIET_S + 2
    assert "is not seen any more" in laptop.told[-1].text, "and it is said what is waited for"
    assert not laptop.told[-1].over


@pytest.mark.parametrize("sender", [UNSEEN, ELSEWHERE])
def test_while_a_program_that_is_not_seen_writes_nothing_is_concluded(tmp_path: Path, sender: SendingProgram) -> None:
    laptop, taken = Laptop(tmp_path, sender), 20 * QUIET_S

    def beat() -> None:
        if laptop.managed.now % BEAT_S < 1.0:
            laptop.theirs.note_beat(laptop.job)
        if laptop.managed.now >= taken:
            laptop.theirs.note_news(JobNews(job=laptop.job, stage=JobStage.QUEUED, id="7"))

    laptop.managed.meanwhile = beat
    assert laptop.found() == "", "it is the other program's"
    assert (laptop.told[-1].stage, laptop.told[-1].id) == (JobStage.QUEUED, "7")
    assert laptop.managed.now >= taken
    assert not any(news.over for news in laptop.told)


def test_a_program_that_falls_silent_after_it_wrote_has_ended(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, ELSEWHERE)

    def beat() -> None:
        if laptop.managed.now <= 3 * QUIET_S:
            laptop.theirs.note_beat(laptop.job)

    laptop.managed.meanwhile = beat
    laptop.unsent()
    assert 4 * QUIET_S <= laptop.managed.now <= 4 * QUIET_S + 2


def test_a_program_that_crashed_here_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, UNSEEN, ago=QUIET_S)
    laptop.unsent()
    assert laptop.managed.now == 0.0


def test_the_clock_of_another_computer_proves_no_silence(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, ELSEWHERE, ago=86_400.0)
    laptop.unsent()
    assert laptop.managed.now >= QUIET_S


def test_a_program_that_is_seen_may_be_silent_and_counts_from_its_end(tmp_path: Path) -> None:
    parent = psutil.Process(os.getppid())
    seen = SendingProgram(parent.pid, parent.create_time(), socket.gethostname())
    laptop, closed = Laptop(tmp_path, seen, ago=QUIET_S), 10 * QUIET_S

    def close() -> None:
        if laptop.managed.now >= closed:
            laptop.managed.stop()

    laptop.managed.meanwhile = close
    assert laptop.found() == ""
    assert not any(news.over for news in laptop.told)


def test_what_may_have_been_sent_is_looked_for_when_its_program_was_silent(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, UNSEEN, JobStage.SUBMITTING)
    laptop.login.jobs["4"] = Job(name=f"clew-{laptop.job}")
    laptop.managed.meanwhile = lambda: _silent_until(laptop, QUIET_S)
    assert laptop.found() == "4"


def _silent_until(laptop: Laptop, seconds: float) -> None:
    assert laptop.managed.now >= seconds or not laptop.login.commands, "it was looked for too early"


def test_a_program_that_comes_back_during_the_look_is_waited_for_anew(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, UNSEEN, JobStage.SUBMITTING, ago=QUIET_S)
    looks: list[float] = []

    def look() -> None:
        looks.append(laptop.managed.now)
        if len(looks) == 1:
            laptop.theirs.note_beat(laptop.job)

    laptop.login.before["squeue"] = look
    assert laptop.unsent() == "The scheduler did not get the job."
    assert looks[-1] - looks[0] >= QUIET_S


# --- The program that sends -------------------------------------------------------------------------------------------


def test_a_program_that_sends_writes_so_until_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procedure, "BEAT_S", 0.01)
    laptop, go_on = Laptop(tmp_path, UNSEEN), threading.Event()

    def ensure_agent(_line: object, _say: object) -> object:
        assert go_on.wait(20.0)
        return AGENT

    access = an_access(lambda: a_line(laptop.login), a_deployer(ensure_agent=ensure_agent))
    watch = JobWatch(access)
    job = ManagedJob(laptop.job, watch, laptop.book, laptop.told.append)
    job.start(Work.SUBMIT, lambda: procedure.submit(job))
    begun = laptop.book.written(laptop.job)[0]
    deadline = time.monotonic() + 20.0
    while laptop.book.written(laptop.job)[0] < begun + 5:
        assert time.monotonic() < deadline, "nothing is written while it is prepared"
        time.sleep(0.01)
    go_on.set()
    job.join(time.monotonic() + 20.0)
    assert job.news.id == "1"
    assert not job.is_busy(Work.BEAT), "who sends no more writes no more"
    job.stop()
    watch.close()


def test_what_another_program_gave_up_is_not_sent(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, UNSEEN)
    unsent = problem("job.unsent", "The job was never sent.").problems[0]
    laptop.theirs.note_news(JobNews(job=laptop.job, stage=JobStage.ENDED, problem=unsent))
    laptop.book.refresh()
    with pytest.raises(ProblemError, match="never sent"):
        procedure.submit(laptop.managed)
    assert laptop.login.sent == 0


def test_a_job_that_waits_for_others_to_be_sent_can_be_given_up(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path, UNSEEN)
    while laptop.watch.access.turns.acquire(blocking=False):
        pass

    def give_up() -> None:
        laptop.theirs.note_end_request(laptop.job, EndRequest.CANCEL)
        laptop.book.refresh()

    laptop.managed.meanwhile = give_up
    with pytest.raises(ProblemError, match="cancelled"):
        procedure.submit(laptop.managed)
    assert laptop.login.dials == 0


def test_the_second_look_for_a_job_waits_whatever_changes_meanwhile(tmp_path: Path) -> None:
    me = SendingProgram(os.getpid(), psutil.Process().create_time(), socket.gethostname())
    laptop, pauses = Laptop(tmp_path, me, JobStage.SUBMITTING, sure=0.2), []

    def woken() -> None:
        pauses.append(laptop.managed.now)
        if len(pauses) == 3:  # the scheduler comes to write it down; until then something woke this twice
            laptop.login.jobs["4"] = Job(name=f"clew-{laptop.job}")
        time.sleep(0.001)

    laptop.managed.meanwhile = woken
    assert laptop.found() == "4"
