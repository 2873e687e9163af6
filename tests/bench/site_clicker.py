"""Runs on the mini cluster, from the laptop, with the moments that each of them came through on its way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import psutil

from clew_gui.deploy.install import Installed, ensure_agent
from clew_gui.jobs.access import Deployer, Say, SiteAccess
from clew_gui.jobs.job import JobStage, JobStatus, Place
from clew_gui.jobs.job_book import job_book
from clew_gui.jobs.managed_job import ManagedJob
from clew_gui.jobs.manager import JobManager
from clew_gui.schedulers.job import LOG
from clew_gui.session.job_links import JobModel
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_shared.base.problem import Problem
from clew_shared.catalogue import load_builtin
from clew_shared.journal.files import journal_path
from clew_shared.spec import RunSpec
from tests.bench.first_point_worker import BEGUN, BLOCK, STAGES, journal_marks
from tests.bench.laptop import SITE, Laptop

_BOUND_S = 180.0
_LOOK_S = 0.002
_IDLE_S = 1.0
CLICK, DIALLED, BROUGHT, PUT, SUBMITTED, STARTED, AGENT, FOUND, WAY, LIVE, ARRIVED = (
    "Run",
    "dialled, logged in",
    "the agent is there",
    "job script and spec are there",
    "submitted",
    "queued, until the job begins",
    "modules, keeper, agent up",
    "its address found",
    "its key there, a way through",
    "linked",
    "first point at the laptop",
)
BEFORE = {
    DIALLED: CLICK,
    BROUGHT: DIALLED,
    PUT: BROUGHT,
    SUBMITTED: PUT,
    STARTED: SUBMITTED,
    AGENT: STARTED,
    FOUND: AGENT,
    WAY: FOUND,
    LIVE: WAY,
}
"""What each stage of the way follows on; those of the run follow on each other, beside finding the agent."""
IMPORTED = "→ TensorFlow imported, run begun"
OF_THE_RUN = {
    BEGUN: IMPORTED,  # an agent begins it as a copy of what has imported TensorFlow
    STAGES["data"]: STAGES["data"],
    STAGES["import"]: "→ the exercise imported",
    STAGES["build"]: STAGES["build"],
    STAGES["compile"]: STAGES["compile"],
    BLOCK: BLOCK,
}
"""The stages as this computer's benchmark calls them, and as they are called here."""


class LaptopManager(JobManager):
    """A manager that notes when something was so; ``marks`` by site."""

    def __init__(self, laptop: Laptop) -> None:
        self.marks: dict[str, dict[str, float]] = {}
        self._laptop = laptop
        super().__init__(job_book(laptop.places), self._access, lambda _name: "Mini cluster")

    def note(self, site: str, what: str) -> None:
        """It is so now; the first time counts."""
        self.marks.setdefault(site, {}).setdefault(what, time.time())

    def job(self, job_id: str) -> ManagedJob:
        """See ``JobManager``."""
        job = super().job(job_id)
        if job.serves.__name__ != "noted":
            honest = job.serves

            def noted() -> None:
                self.note(job.access.name, FOUND)
                honest()

            job.serves = noted  # type: ignore[method-assign]
        return job

    def take(self, news: JobStatus) -> None:
        """Takes what is new of a job."""
        marks = {JobStage.PREPARING: DIALLED, JobStage.SUBMITTING: PUT, JobStage.QUEUED: SUBMITTED}
        self.note(self.book.order(news.job).site, marks.get(news.stage, ""))

    def _access(self, name: str) -> SiteAccess:
        laptop, site = self._laptop, site_store(self._laptop.places).load(name)

        def bring(line: SiteConnection, say: Say) -> Installed:
            installed = ensure_agent(line, say)
            self.note(name, BROUGHT)
            return installed

        def open_site(access: SiteAccess) -> SiteConnection:
            return open_connection(name, site, laptop.places, access.asker)

        return SiteAccess(name, open_site, laptop.asker, deployer=Deployer(ensure_agent=bring))


class Clicker:
    """A program at the laptop, without a window, that presses Run."""

    def __init__(self, laptop: Laptop) -> None:
        self._laptop = laptop
        self._manager = manager = LaptopManager(laptop)
        self.session = Session(laptop.places, load_builtin(), manager=manager, only=())
        listen = manager.listen

        def noting(news: JobStatus) -> None:
            manager.take(news)
            listen(news)

        manager.listen = noting
        self.session.start()

    def until(self, condition: Callable[[], bool]) -> None:
        """Take in what comes until something is so. Raises ``TimeoutError``."""
        deadline = time.monotonic() + _BOUND_S
        problems: list[Problem] = []
        while not condition():
            problems += self.session.tick().problems
            if time.monotonic() > deadline:
                jobs = [(job.news, job.link) for job in self.session.jobs.values()]
                raise TimeoutError(f"the cluster did not get there in {_BOUND_S:g} s; {jobs}, {problems}")
            time.sleep(_LOOK_S)

    def hold(self) -> str:
        """Take a node and wait until its agent has nothing more to warm up; the job."""
        job = self.session.hold(Place(site=SITE))
        self.until(lambda: self.session.jobs[job].link.state is LinkState.LIVE)
        self.until(_quiet(job))
        return job

    def press(self, exercise: str, site: str = SITE, held: str = "") -> dict[str, float]:
        """Press Run, on a node that is held or in a job of its own; the moments on the way, by their names."""
        begin = time.time()
        run = self.session.start_run(RunSpec(exercise=exercise), Place(site=site, job=held))
        model = self.session.runs[run]
        job = self.session.jobs[held or (model.job.job if model.job is not None else "")]
        marks: dict[str, float] = {CLICK: begin}
        self.until(lambda: self._look(marks, None if held else job, model) or model.complete)
        self.until(lambda: model.complete)
        marks |= {OF_THE_RUN[name]: at for name, at in journal_marks(journal_path(model.folder, 1)).items()}
        if not held:
            marks |= {name: at for name, at in self._manager.marks[site].items() if name}
            marks[STARTED] = self._began(site, job.id)
            self.session.cancel(job.id)  # its agent would end by itself, but perhaps a minute later
            self.until(lambda: job.news.over)
        return marks

    def _look(self, marks: dict[str, float], job: JobModel | None, model: RunModel) -> bool:
        """Note what is so by now of the run and of a job that begins; whether the first point is here."""
        found = job.target.find() if job is not None and job.target is not None and WAY not in marks else None
        if found is not None:
            marks[WAY], marks[AGENT] = time.time(), found.started
        if job is not None and LIVE not in marks and job.link.state is LinkState.LIVE:
            marks[LIVE] = time.time()
        if not len(model.history.column("loss").steps):
            return False
        marks[ARRIVED] = time.time()
        return True

    def _began(self, site: str, job: str) -> float:
        """When the scheduler began the job on the node: it makes the job's log then."""
        log = f"{self._manager.watch_of(site).access.connected().layout().job(job)}/{LOG}"
        return float(self._laptop.cluster.on("login", "stat", "--format=%.W", log))

    def close(self) -> None:
        """Leave; jobs go on."""
        self.session.close()


@contextmanager
def clicker(laptop: Laptop) -> Iterator[Clicker]:
    """A program that is closed again."""
    found = Clicker(laptop)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def held_node(laptop: Laptop) -> Iterator[tuple[Clicker, str]]:
    """A program that holds a node, and the job."""
    with clicker(laptop) as found:
        job = found.hold()
        yield found, job
        found.session.cancel(job)
        found.until(lambda: found.session.jobs[job].news.over)


def new_place(laptop: Laptop, number: int) -> str:
    """The same site with a folder there in which nothing is yet."""
    name, store = f"place{number}", site_store(laptop.places)
    store.save(name, msgspec.structs.replace(store.load(SITE), scratch=f"~/place{number}"))
    return name


def stages(marks: dict[str, float]) -> dict[str, tuple[float, float]]:
    """By the name of each moment: seconds since the one that it follows on, and since Run."""
    begin, before = marks[CLICK], {}
    for name in BEFORE:
        earlier = BEFORE[name]
        while earlier not in marks:  # it was passed unseen
            earlier = BEFORE[earlier]
        before[name] = marks[earlier]
    last = marks.get(AGENT, begin)
    for name in (name for name in OF_THE_RUN.values() if name in marks):
        before[name], last = last, marks[name]
    before[ARRIVED] = max(last, marks.get(LIVE, begin))
    order = (*BEFORE, *OF_THE_RUN.values(), ARRIVED)
    return {name: (marks[name] - before[name], marks[name] - begin) for name in order if name in marks}


def _quiet(job: str) -> Callable[[], bool]:
    """Says whether the job's processes have stopped working for a second."""
    seen: list[tuple[float, float]] = []

    def look() -> bool:
        now = time.monotonic()
        if seen and now - seen[-1][0] < 0.2:
            return False
        seen.append((now, _work_of(job)))
        return any(now - at >= _IDLE_S and seen[-1][1] - work < 0.1 for at, work in seen[:-1])

    return look


def _work_of(job: str) -> float:
    """Processor seconds of what carries the job's name in its environment, on whichever host."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            if process.environ().get("CLEW_JOB") == job:
                total += sum(process.cpu_times()[:2])
        except psutil.Error:
            continue
    return total
