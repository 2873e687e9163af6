"""Decides when to ask the scheduler: seldom, once for all jobs, and not at all while the agents themselves answer.

Pure policy: the clock's time comes in with every call, and the scheduler is asked elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from clew_gui.schedulers.state import ENDED, JobState, Phase
from clew_gui.schedulers.verdict import follow

FIRST_S = 2.0
LONGEST_S = 60.0
GROWTH = 1.5
UNANSWERED_S = 10.0
"""The seconds until a scheduler that does not answer is asked again: it has trouble enough."""
HEARTBEAT_S = 15.0
"""An agent that answered within this time speaks for its job."""
CALL_LIMIT_S = 45.0
"""The bound on one call: a dead controller kept `squeue` for 28 s with short settings; sites have longer ones."""
_JITTER = 0.1
"""The random part of each pause: forty students who start at once must not keep asking at the same moment."""


class _Watched:
    def __init__(self, now: float) -> None:
        self.pause = FIRST_S
        self.next = now + FIRST_S
        self.heard = float("-inf")
        self.state: JobState | None = None


class Watcher:
    """Watches all jobs of one site. ``dice`` gives numbers from 0 to 1."""

    def __init__(self, dice: Callable[[], float] = random.random) -> None:
        self._dice = dice
        self._jobs: dict[str, _Watched] = {}
        self._asked_at: float | None = None
        self._asked: tuple[str, ...] = ()

    def add(self, job: str, now: float) -> None:
        """Watch the job with this id; the first question comes after two seconds."""
        self._jobs.setdefault(job, _Watched(now))

    def remove(self, job: str) -> None:
        """Do not ask about it any more."""
        self._jobs.pop(job, None)

    def heard(self, job: str, now: float) -> None:
        """The job's agent answered: nobody asks until it has been silent for a while."""
        if job in self._jobs:
            self._jobs[job].heard = now

    def hurry(self, now: float) -> None:
        """Asks at once, about all jobs, and often again for a while, because something has happened, such as an agent
        that fell silent or a network that is back."""
        for watched in self._jobs.values():
            watched.heard, watched.next, watched.pause = float("-inf"), now, FIRST_S

    def state(self, job: str) -> JobState | None:
        """Returns what was last known of the job; a scheduler's silence changes nothing."""
        watched = self._jobs.get(job)
        return watched.state if watched is not None else None

    def due(self, now: float) -> tuple[str, ...]:
        """The jobs to ask about in one call now; none while a call is under way or nothing is due.

        As soon as one is due all are asked about that no agent speaks for: it costs the scheduler the same.
        """
        if self._asked_at is not None and now - self._asked_at < CALL_LIMIT_S:
            return ()
        silent = {job: one for job, one in self._jobs.items() if not _speaks(one, now)}
        if not any(one.next <= now for one in silent.values()):
            return ()
        return tuple(silent)

    def wait(self, now: float) -> float | None:
        """Seconds until ``due`` may have something; None when nothing is watched."""
        if self._asked_at is not None and now - self._asked_at < CALL_LIMIT_S:
            return self._asked_at + CALL_LIMIT_S - now
        moments = [max(one.next, one.heard + HEARTBEAT_S) for one in self._jobs.values()]
        return max(0.0, min(moments) - now) if moments else None

    def asked(self, jobs: tuple[str, ...], now: float) -> None:
        """A call about ``jobs`` begins."""
        self._asked_at, self._asked = now, jobs

    def answered(self, states: Mapping[str, JobState], now: float) -> dict[str, JobState]:
        """Takes the answer of a call that has ended; returns what is new, by job. Jobs that have ended are not asked
        about again."""
        self._asked_at = None
        news = {}
        for job in self._asked:
            watched = self._jobs.get(job)
            if watched is None:
                continue
            state = states.get(job)
            if state is None or state.phase is Phase.SILENT:
                self._later(watched, now, max(UNANSWERED_S, watched.pause * 2))
                continue
            followed = follow(watched.state, state)
            if followed != watched.state:
                news[job] = followed
            self._later(watched, now, FIRST_S if _moved(watched.state, followed) else watched.pause * GROWTH)
            watched.state = followed
            if followed.phase in ENDED:
                del self._jobs[job]
        self._asked = ()
        return news

    def _later(self, watched: _Watched, now: float, pause: float) -> None:
        watched.pause = min(LONGEST_S, pause)
        watched.next = now + watched.pause * (1 + _JITTER * self._dice())


def _speaks(watched: _Watched, now: float) -> bool:
    return now - watched.heard < HEARTBEAT_S


def _moved(before: JobState | None, now: JobState) -> bool:
    """Whether the job is in another phase, after which the next one may come soon."""
    return before is not None and before.phase is not now.phase
