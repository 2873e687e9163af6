"""Gathers what one tick of a session brought."""

from __future__ import annotations

import time

import msgspec

from clew_gui.jobs.job import JobStatus
from clew_gui.session.job_links import JobLinks
from clew_gui.session.links.inbox import (
    Arrival,
    Cards,
    FrameBatch,
    Inbox,
    LinkState,
    LinkStatus,
    NodeKept,
    Released,
    RequestFailed,
    Restarted,
    RunFound,
    Settled,
    Statuses,
    TryAnswered,
)
from clew_gui.session.run_record import RunLine
from clew_gui.session.run_state import not_begun
from clew_gui.session.runs import RunModel, RunTable
from clew_gui.session.summaries import Summaries
from clew_gui.ssh.prompts import NEEDS_PERSON
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue
from clew_shared.journal.files import Record
from clew_shared.journal.lifecycle import TERMINAL


class Changes(msgspec.Struct):
    """Runs with new points, with another state, seen for the first time; troubles to show. ``link``: this computer's
    link has another state; ``jobs``: of these jobs there is news, or their link has another state."""

    points: set[str] = set()
    states: set[str] = set()
    new: set[str] = set()
    jobs: set[str] = set()
    link: bool = False
    problems: list[Problem] = []
    tried: list[TryAnswered] = []
    catalogue: Catalogue | None = None


# --- Intake -----------------------------------------------------------------------------------------------------------
# What arrives from the links and the sites, folded into the models: the half of a session that a tick works on.


_LOOK_AFTER = 32
"""Events between two looks at the clock."""


_SHOWN = (NEEDS_PERSON, "run.ended")
"""The codes of refusals that are seen elsewhere: at the jobs, as long as nobody is logged in, and by a run's state,
where it ended before it could be paused."""


def is_stale(link: LinkState, job: JobStatus | None, began: bool) -> bool:
    """Whether the run's shown data may be out of date because its link is not live. ``began``: its journal has begun;
    what has not begun yet cannot be out of date."""
    if link is LinkState.LIVE or (job is not None and (not_begun(job) or job.over)):
        return False
    return job is None or began or link is LinkState.STALE


class Intake:
    """Empties ``inbox`` into ``runs`` and ``jobs``. ``link`` is how this computer's link is, ``started`` holds runs
    that its agent has not listed yet. Runs that are over are summed up in ``summaries``."""

    def __init__(
        self, inbox: Inbox, runs: RunTable, jobs: JobLinks, catalogue: Catalogue, summaries: Summaries
    ) -> None:
        self.catalogue = catalogue
        self.link = LinkStatus(LinkState.OFFLINE, time.time(), "not started")
        self.started: set[str] = set()
        self._inbox = inbox
        self._runs = runs
        self._jobs = jobs
        self._summaries = summaries
        self._half: tuple[FrameBatch, int] | None = None

    def tick(self, budget: float) -> Changes:
        """Take in what arrived, for about ``budget`` seconds."""
        deadline = time.perf_counter() + budget
        changes = Changes()
        self._look_around(changes)
        while time.perf_counter() < deadline:
            if self._half is not None:
                self._fold(*self._half, deadline, changes)
                continue
            arrival = self._inbox.take()
            if arrival is None:
                break
            self._take(arrival, changes)
        for run in changes.points | changes.states | changes.new:
            if run in self._runs.models:
                self._runs.models[run].version += 1
        return changes

    def _take(self, arrival: Arrival, changes: Changes) -> None:
        match arrival:
            case FrameBatch() as batch:
                self._half = (batch, 0)
            case RunFound() as found:
                self._found(found, changes)
            case Restarted() as restarted:
                self._restarted(restarted.run, changes)
            case Statuses() as statuses:
                self._statuses(statuses, changes)
            case JobStatus() as news:
                self._news(news, changes)
            case Settled() | Released() | NodeKept() as end:
                self._ended(end, changes)
            case Cards() as cards:
                self.catalogue = changes.catalogue = cards.catalogue
                self._summaries.cards = {card.id: card for card in cards.catalogue.exercises}
            case TryAnswered() as answered:
                changes.tried.append(answered)
            case RequestFailed() as failed:
                self._request_failed(failed, changes)
            case _:
                self._link_changed(arrival, changes)

    # --- Journals -----------------------------------------------------------------------------------------------------

    def _restarted(self, run: str, changes: Changes) -> None:
        if run in self._runs.models:
            self._runs.models[run].restart()
            changes.points.add(run)

    def _fold(self, batch: FrameBatch, start: int, deadline: float, changes: Changes) -> None:
        model = self._runs.models.get(batch.run)
        if model is None:  # forgotten meanwhile
            self._half = None
            return
        before = (model.state, model.reason, model.summed_up)
        place = start
        while place < len(batch.items) and (place % _LOOK_AFTER or place == start or time.perf_counter() < deadline):
            place += 1
            item = batch.items[place - 1]
            if isinstance(item, Record):
                model.history.feed(batch.attempt, item.event, item.offset)
            else:
                model.history.note(batch.attempt, item)
        done = place == len(batch.items)
        self._half = None if done else (batch, place)
        if done:
            model.took(batch.attempt, batch.have, batch.size)
            if model.complete:
                self._summaries.take(model.folder, model.history, model.spec)
        changes.points.add(batch.run)
        if before != (model.state, model.reason, model.summed_up):
            changes.states.add(batch.run)

    def _found(self, found: RunFound, changes: Changes) -> None:
        known = self._runs.models.get(found.run)
        if known is not None:
            known.copied = max(known.copied, found.size)
        elif found.run not in self._runs.record.forgotten:
            try:
                model = self._runs.add(found.spec)
                model.copied, model.summary = found.size, found.summary
            except OSError as error:
                changes.problems.append(Problem("session.disk", f"A run cannot be recorded: {error}."))
                return
            changes.new.add(found.run)

    # --- Agents -------------------------------------------------------------------------------------------------------

    def _statuses(self, statuses: Statuses, changes: Changes) -> None:
        said = {status.run: status for status in statuses.runs}
        here = not statuses.link
        if here:
            self.started -= said.keys()
        for run, model in self._runs.models.items():
            if model.link != statuses.link:
                continue
            before = (model.state, model.reason, model.queue)
            model.status = said.get(run)
            model.never_arrived = here and model.status is None and run not in self.started and not model.elsewhere
            if model.status is not None and model.status.state not in TERMINAL:
                self._jobs.on_alive(model)
            if before != (model.state, model.reason, model.queue):
                changes.states.add(run)

    def _request_failed(self, failed: RequestFailed, changes: Changes) -> None:
        if failed.problem.code not in _SHOWN:
            changes.problems.append(failed.problem)
        model = self._runs.models.get(failed.refused)
        if model is None:
            return
        model.refused = failed.problem.text
        self.started.discard(model.id)
        changes.states.add(model.id)
        try:
            self._runs.record.add(RunLine(run=model.id, refused=failed.problem.text))
        except OSError as error:
            changes.problems.append(Problem("session.disk", f"The refusal cannot be recorded: {error}."))

    def _link_changed(self, status: LinkStatus, changes: Changes) -> None:
        if status.link:
            changes.jobs.add(status.link)
        else:
            self.link = status
            changes.link = True
        for model in self._jobs.on_link(status):
            self._refresh_stale(model, status, changes)

    def _refresh_stale(self, model: RunModel, status: LinkStatus, changes: Changes) -> None:
        stale = is_stale(status.state, model.job, bool(model.fold.attempt))
        if model.link_stale != stale:
            model.link_stale = stale
            changes.states.add(model.id)

    # --- Jobs ---------------------------------------------------------------------------------------------------------

    def _news(self, news: JobStatus, changes: Changes) -> None:
        job = self._jobs.models.get(news.job)
        was_over = job is not None and job.news.over
        changes.jobs.add(news.job)
        for model in self._jobs.on_news(news):
            changes.states.add(model.id)
            self._refresh_stale(model, self._jobs.models[news.job].link, changes)
        unsent = job is not None and job.elsewhere and not news.id  # the program that sent it has reported that
        if job is not None and news.over and not was_over and not unsent and news.problem is not None:
            changes.problems.append(news.problem)

    def _look_around(self, changes: Changes) -> None:
        """Takes in the jobs that other programs of this computer sent, and the actions that they chose."""
        new, jobs = self._jobs.look_around(time.monotonic())
        changes.new |= new
        changes.jobs |= jobs
        changes.states |= {run for job in jobs for run in self._jobs.models[job].runs if run in self._runs.models}
        for run in new:
            model = self._runs.models[run]
            self._refresh_stale(model, self._jobs.models[model.link].link if model.link else self.link, changes)

    def _ended(self, end: Settled | Released | NodeKept, changes: Changes) -> None:
        if isinstance(end, NodeKept):
            self._jobs.on_kept(end.link, end.text)
            changes.jobs.add(end.link)
            return
        model = self._runs.models.get(end.run)
        if model is None:
            return
        try:
            if isinstance(end, Settled):
                self._jobs.on_settled(model, end.link)
            else:
                self._jobs.on_released(model)
                changes.points.add(end.run)
        except ProblemError as error:
            changes.problems += error.problems
        changes.states.add(end.run)
