"""When a site's scheduler is asked about its jobs: seldom, once for all, and not while the agents themselves answer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from clew_gui.jobs.watch import HEARTBEAT_S, LONGEST_S, Watched, due, wait_s
from clew_gui.schedulers.state import JobState, Phase

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
