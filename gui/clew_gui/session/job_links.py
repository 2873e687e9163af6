"""The jobs on sites that a session follows, each with a link of its own, and which run comes through which."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus, Place
from clew_gui.schedulers.allocation import AllocationRequest, refit
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Inbox, LinkState, LinkStatus
from clew_gui.session.links.link import Link
from clew_gui.session.run_state import not_begun
from clew_gui.session.runs import RunModel, RunTable
from clew_gui.targets.target import Target
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, os_refused, problem
from clew_shared.base.remedies import list_all
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import Shutdown

if TYPE_CHECKING:
    from clew_gui.jobs.manager import JobManager

_LOOK_EVERY_S = 1.0
_AGAIN_S = 10.0


class JobModel:
    """A job on a site as the viewer knows it. Changed by ``Session.tick`` only. ``title`` is the site's; ``runs`` those
    that it was given, in order; ``link`` how the link to its agent is; ``number`` is the job book's. ``elsewhere``:
    another program sent it while this one was open; ``locked``: why nobody is logged in there, until a person does it;
    ``kept``: why its agent, asked to give the node back after its runs, does not; ``idle_until``: until when (wall
    clock) its node is kept although all of its runs have ended, 0 where it is not, and ``let_go_at`` the same by the
    monotonic clock; ``end_request``: what another program asked for."""

    def __init__(self, number: int, order: JobOrder, title: str, news: JobStatus) -> None:
        self.number = number
        self.order = order
        self.title = title
        self.news = news
        self.runs: list[str] = []
        self.link = LinkStatus(LinkState.OFFLINE, 0.0, "connecting", link=order.job)
        self.target: Target | None = None
        self.elsewhere = False
        self.locked: Problem | None = None
        self.kept = ""
        self.idle_until = 0.0
        self.let_go_at: float | None = None
        self.end_request: EndRequest | None = None

    @property
    def id(self) -> str:
        """The job's UUID."""
        return self.order.job

    @property
    def route(self) -> str:
        """The route to its agent in words; empty while there is none."""
        return str(getattr(self.target, "route", ""))


class JobLinks:
    """Handles the jobs on sites for a session. ``models`` by UUID: all jobs of the book and those that were sent since,
    the oldest first. ``here`` is this computer's link, through which runs come whose job needs none any more. ``grace``
    is for how many seconds a node without work is kept, if nobody holds it: so long Continue goes on at once. With
    ``watching`` the jobs that other programs send meanwhile are followed as well.

    For the session's thread. The disk is asked for the book; nothing else is waited for.
    """

    here: Link

    def __init__(
        self,
        places: Places,
        runs: RunTable,
        inbox: Inbox,
        manager: JobManager | None,
        grace: float,
        watching: bool = True,
    ) -> None:
        self.models: dict[str, JobModel] = {}
        self._places = places
        self._runs = runs
        self._inbox = inbox
        self._manager = manager
        self._links: dict[str, Link] = {}
        self._left: list[Link] = []
        self._handed: dict[str, str] = {}
        self._continued: set[str] = set()
        self._grace = grace
        self._started = False
        self._watching = watching and manager is not None
        self._look_next = 0.0
        self._mark: tuple[int, int] | None = None
        if manager is not None:
            manager.listen = inbox.put
            for job in manager.book.jobs():
                self._know(job)

    # --- Life ---------------------------------------------------------------------------------------------------------

    def reopen(self, only: Collection[str] | None) -> None:
        """Make links to the jobs that are not over, or still have something to fetch; to those of ``only`` if it is
        given."""
        for job in self.models if self._manager is not None else ():
            if only is not None and job not in only:
                continue
            if not self._is_done(job):
                self.manager.log_in(self.models[job].order.site)  # anyone who starts a program is there to be asked
                self._open(job)

    def owned(self) -> frozenset[str]:
        """The runs that come through links to jobs."""
        return frozenset(run for job in self._links for run in self._runs_of(job))

    def start(self) -> None:
        """Begin to follow."""
        self._started = True
        for job, link in self._links.items():
            link.start()
            if self.models[job].news.over:
                link.finish()
            else:
                self.manager.follow(job)

    def close(self) -> None:
        """End all links; jobs go on."""
        links = [*self._links.values(), *self._left]
        for link in links:
            link.leave()
        for link in links:
            link.close()
        if self._manager is not None:
            self._manager.close()

    def link(self, job: str) -> Link | None:
        """The link to a job; None when it is over and everything is here."""
        return self._links.get(job)

    # --- What a person wants ------------------------------------------------------------------------------------------

    def submit(self, place: Place, *specs: RunSpec) -> str:
        """Send a job with these runs; its UUID. Raises ``ProblemError``."""
        order = place.order(*specs)
        self.manager.submit(order)
        self._know(order.job)
        return order.job

    def follow(self, job: str, handed: Collection[RunModel] = ()) -> None:
        """Make the link of a job that was sent just now. Runs in ``handed`` come through another one so far, and go on
        in this job."""
        self._handed |= dict.fromkeys((model.id for model in handed), job)
        link = self._open(job)
        if self._started:
            link.start()
        self._hand_over(handed)

    def give_run(self, job: str, spec: RunSpec) -> Link:
        """Gives another run to a job that holds a node; returns the link through which to start it. Raises
        ``ProblemError`` if that job is over."""
        manager, model, link = self.manager, self.models.get(job), self._links.get(job)
        if model is None or link is None or model.news.over:
            raise problem("job.over", "That allocation is over.", "Take another one.", job)
        if model.news.is_past(time.time()):
            at = time.strftime("%H:%M", time.localtime(model.news.until))
            raise problem("job.over", f"The time of that allocation was up at {at}.", "Take another one.", job)
        with os_refused("session.disk", "The job cannot be recorded"):
            manager.book.note_runs(job, spec.run)
        model.runs.append(spec.run)
        return link

    def continue_in_next(
        self,
        model: RunModel,
        allocation: AllocationRequest | None = None,
        change: Callable[[RunSpec], RunSpec] | None = None,
    ) -> str:
        """Send a job that goes on with a run whose job is over, like the one before; with this ``allocation`` if one is
        given, and as ``change`` spreads it over devices. Raises ``ProblemError``."""
        known = model.job.job if model.job is not None else ""  # another program may have taken the job out of the list
        last = self.manager.book.order(self.manager.book.job_of(model.id) or known)
        asked = last.allocation if allocation is None else allocation
        spec = next((spec for spec in last.runs if spec.run == model.id), model.spec)
        if change is not None:
            spec = change(spec)
            asked = refit(asked, spec)
        place = Place(site=last.site, allocation=asked, data=last.data, exercises=last.exercises)
        job = self.submit(place, spec)
        self.follow(job, [model])
        return job

    def end(self, job: str) -> None:
        """Cancel a job, or give back an allocation. Raises ``ProblemError`` for an unknown one."""
        model = self.models.get(job)
        if model is None:
            raise problem("job.unknown", f"There is no job {job}.", "", job, list_all("jobs"))
        if not model.news.over:
            held = model.order.hold and not not_begun(model.news)
            self.manager.end(job, EndRequest.LET_GO if held else EndRequest.CANCEL)

    def on_continue_asked(self, model: RunModel) -> None:
        """Notes that the run's agent was asked to continue it: if the job ends before that is done, the next job does
        it."""
        self._continued.add(model.id)

    # --- What became known --------------------------------------------------------------------------------------------

    def on_news(self, news: JobStatus) -> tuple[RunModel, ...]:
        """Notes what is new of a job; returns its runs."""
        job = self.models.get(news.job)
        if job is None:
            return ()
        stage, job.news = job.news.stage, news
        link = self._links.get(news.job)
        if link is not None and news.over:
            self._perhaps_leave(news.job)
            if news.job in self._links:
                link.finish()
        elif link is not None and stage is not news.stage and news.stage is JobStage.RUNNING:
            link.look()
        found = self._models_of(news.job)
        for model in found:
            model.job = news
        return tuple(found)

    def on_link(self, status: LinkStatus) -> tuple[RunModel, ...]:
        """Notes how a link is; returns the runs that come through it."""
        job = self.models.get(status.link)
        if job is not None:
            job.link = status
        return tuple(model for model in self._runs.models.values() if model.link == status.link)

    def on_settled(self, model: RunModel, job: str) -> None:
        """Notes that all that the job left of the run is here. Raises ``ProblemError`` if the next job cannot be
        sent."""
        if model.link == job:
            self._runs.settle(model, job)
            self._perhaps_leave(job)
        if model.id in self._continued:
            self._continued.discard(model.id)
            self.continue_in_next(model)

    def on_released(self, model: RunModel) -> None:
        """Lets the run come through the next job's link from now on, because its old link has released it."""
        job = self._handed.pop(model.id, "")
        link = self._links.get(job)
        if link is not None:
            model.restart()
            model.link = job
            link.adopt(model.id)

    def on_alive(self, model: RunModel) -> None:
        """An agent is running it."""
        self._continued.discard(model.id)

    def let_go_of_idle(self, now: float) -> None:
        """Ask the agents of jobs whose runs have all ended to end: a link that stays would keep their node until its
        time is up, and it is paid for. Where one of the runs could be continued, that is after a while. An agent that
        someone uses otherwise stays. ``now`` is a reading of the monotonic clock."""
        for job, link in self._links.items():
            model = self.models[job]
            if not self._is_idle(job):
                model.kept, model.idle_until, model.let_go_at = "", 0.0, None
                continue
            if model.let_go_at is None:
                unfinished = (run for run in self._models_of(job) if run.state is not RunState.FINISHED)
                grace = self._grace if any(run.history.checkpoints for run in unfinished) else 0.0
                model.let_go_at, model.idle_until = now + grace, time.time() + grace
            if now >= model.let_go_at:
                model.let_go_at = math.inf
                link.ask(Shutdown(idle=True))

    def on_kept(self, job: str, text: str) -> None:
        """Notes that the job's agent is used by someone, or did not answer: it is asked again after a while."""
        self.models[job].kept, self.models[job].let_go_at = text, time.monotonic() + _AGAIN_S

    def _is_idle(self, job: str) -> bool:
        model, runs = self.models[job], self._models_of(job)
        running = model.news.stage is JobStage.RUNNING and model.link.state is LinkState.LIVE
        return running and not model.order.hold and bool(runs) and all(run.complete or run.withdrawn for run in runs)

    # --- What other programs do ---------------------------------------------------------------------------------------

    def look_around(self, now: float) -> tuple[set[str], set[str]]:
        """The runs that other programs sent since, and the jobs of which that or the login is new. ``now`` is a reading
        of the monotonic clock; the book is looked at once a second, and read when someone wrote into it."""
        if not self._watching or not self._started or now < self._look_next:
            return set(), set()
        self._look_next = now + _LOOK_EVERY_S
        changed = self._locked()
        mark, self._mark = self._mark, self.manager.book.mark()
        if mark == self._mark:
            return set(), changed
        with suppress(OSError):
            self.manager.book.refresh()
            self._runs.record.refresh()
        before = set(self._runs.models)
        for job in self.manager.book.jobs():
            if job not in self.models:
                self._follow_new_job(job)
                changed.add(job)
            elif self._add_runs(job):
                changed.add(job)
        return self._runs.models.keys() - before, changed

    def _locked(self) -> set[str]:
        """Note why nobody is logged in; returns the jobs for which that is new."""
        refusals, changed = self.manager.refusals(), set()
        for job, model in self.models.items():
            locked = refusals.get(model.order.site) if job in self._links else None
            if locked != model.locked:
                model.locked = locked
                changed.add(job)
                for run in self._models_of(job):
                    run.logged_out = locked is not None
        return changed

    def _follow_new_job(self, job: str) -> None:
        """Follow a job that another program sent. Nobody is asked to log in for it."""
        self._know(job)
        self.models[job].elsewhere = True
        self.models[job].end_request = self.manager.book.end_request(job)
        moved = self._moved(job, self.models[job].runs)
        if self._is_done(job):
            self._hand_over(moved)
            return
        self.follow(job, moved)
        if self.models[job].news.over:
            self._links[job].finish()
        else:
            self.manager.follow(job, asked=False)

    def _add_runs(self, job: str) -> bool:
        """Take in what another program gave to a job or wants of it; whether there are further runs."""
        book, model, link = self.manager.book, self.models[job], self._links.get(job)
        if book.news(job) != model.news or book.end_request(job) is not model.end_request:
            model.end_request = book.end_request(job)
            if not model.news.over:
                self.manager.noted(job)
        new = [run for run in book.runs(job) if run not in model.runs]
        model.runs += new
        moved = self._moved(job, new)
        if link is not None:
            self._handed |= dict.fromkeys((run.id for run in moved), job)
            self._adopt_runs(link, [run for run in self._runs_of(job) if run in new])
        self._hand_over(moved)
        return bool(new)

    def _moved(self, job: str, runs: Collection[str]) -> list[RunModel]:
        """Returns those of ``runs`` that are known already and came through another link so far. The others are
        released from this computer's agent, which does not have them although there is a copy here."""
        mine = set(self._runs_of(job))
        for run in mine.intersection(runs) - self._runs.models.keys():
            self.here.release(run)
        return [self._runs.models[run] for run in runs if run in mine and run in self._runs.models]

    def _hand_over(self, moved: Collection[RunModel]) -> None:
        """Release runs at the link that they came through."""
        for model in moved:
            self._runs.place(model)
            before = self._links.get(model.link) if model.link else self.here
            if before is not None:
                before.release(model.id)
            else:
                self.on_released(model)  # the link that it came through has ended

    # --- Parts --------------------------------------------------------------------------------------------------------

    @property
    def manager(self) -> JobManager:
        """The manager of the jobs. Raises ``ProblemError`` in a session without sites."""
        if self._manager is None:
            raise problem("session.sites", "This window does not connect to sites.", "Run it on this computer.")
        return self._manager

    def _know(self, job: str) -> None:
        book = self.manager.book
        model = JobModel(book.number(job), book.order(job), book.title(job), book.news(job))
        model.runs = list(book.runs(job))
        self.models[job] = model

    def _runs_of(self, job: str) -> list[str]:
        """The runs whose latest job it is, but those that were taken out."""
        book, forgotten = self.manager.book, self._runs.record.forgotten
        return [run for run in self.models[job].runs if book.job_of(run) == job and run not in forgotten]

    def _models_of(self, job: str) -> list[RunModel]:
        """Those of the runs that are known here."""
        return [self._runs.models[run] for run in self._runs_of(job) if run in self._runs.models]

    def _open(self, job: str) -> Link:
        target = self.models[job].target = self.manager.target(job)
        link = Link(target, Fetcher(self._places.mirrors, self._inbox, job), self._inbox, job=job)
        self._links[job] = link
        self._adopt_runs(link, self._runs_of(job))
        return link

    def _adopt_runs(self, link: Link, runs: Collection[str]) -> None:
        """Has the link follow these runs, but for those that another link has to release first."""
        for run in runs:
            if run not in self._handed:
                self._add_run(link.job, run)
                link.adopt(run)

    def _add_run(self, job: str, run: str) -> None:
        """See that there is a model of the run, and a copy of its spec."""
        mirror, model = self._runs.mirror(run), self._runs.models.get(run)
        asked = next((spec for spec in self.models[job].order.runs if spec.run == run), None)
        with suppress(OSError):  # what cannot be noted now is found again next time
            kept = mirror.spec()
            if kept is None and asked is not None:
                mirror.keep_spec(asked, lasting=False)
            spec = kept or asked
            if model is None and spec is not None:
                model = self._runs.add(spec)
        if model is not None:
            model.link = job

    def _is_done(self, job: str) -> bool:
        """Whether it is over and nothing is left to fetch. To learn that of one that was never sent nobody logs in."""
        news, book = self.models[job].news, self.manager.book
        settled = self._runs.record.settled
        return news.over and all(
            settled.get(run) == job or not (news.id or book.went_with(run)) for run in self._runs_of(job)
        )

    def _perhaps_leave(self, job: str) -> None:
        """End the link of a job that is over when nothing is left to fetch."""
        if self._is_done(job):
            link = self._links.pop(job, None)
            if link is not None:
                link.leave()
                self._left.append(link)
