"""A site without SSH and scheduler for tests of the session: another home on this computer, whose queue is the test's.

Its agents are real supervisors with the stand-in trainer; what the laptop knows of a job is told by the test.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import zmq

from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.manager import JobManager
from clew_gui.schedulers.state import Phase
from clew_gui.targets.local_agent import find_agent, is_alive
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.files import attempts, journal_path
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, read_spec
from clew_shared.wire.channel import allow
from clew_shared.wire.messages import MAX_FETCH_BYTES, AgentAddress, ContinueRun, Fetch, Fetched, StartRun
from tests.integration.agents import BOUND_S, STAND_IN, Viewer, end_all, wait_for


class FakeFiles:
    """The journals of a home as files."""

    def __init__(self, site: FakeSite, job: str) -> None:
        self._site = site
        self._job = job

    def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
        return [self._piece(one.run, one.attempt, one.offset) for one in wanted]

    def _piece(self, run: str, attempt: int, offset: int) -> Fetched | None:
        self._site.fetches += 1
        if self._site.down:
            raise problem("ssh.network", "No way to the site.")
        over = self._site.book.news(self._job).over
        path = journal_path(self._site.places.runs / run, attempt)
        if not path.exists():
            return None
        whole = path.read_bytes()
        last = max(attempts(path.parent))
        data = whole[offset : offset + MAX_FETCH_BYTES]
        return Fetched(
            run=run,
            attempt=attempt,
            offset=offset,
            data=data,
            size=len(whole),
            attempts=last,
            sealed=over or attempt < last,
        )


class FakeTarget:
    """The way to a job's agent."""

    route = "straight"

    def __init__(self, site: FakeSite, job: str) -> None:
        self._site = site
        self._job = job
        self.name = "node1 of Test site"

    def find(self) -> AgentAddress | None:
        return None if self._site.no_way else self._site.address(self._job)

    def is_alive(self, address: AgentAddress) -> bool:
        return is_alive(address)

    def authorize(self, name: str, public_key: str) -> bool:
        address = self._site.address(self._job)
        if address is not None:
            allow(Path(address.allow_list), name, public_key)
        return address is not None

    def read_spec(self, run: str) -> RunSpec | None:
        return self._site.read_spec(run)

    def while_absent(self) -> str:
        return self._site.book.news(self._job).text or "The agent is coming up."

    def files(self, over: bool) -> FakeFiles | None:
        return FakeFiles(self._site, self._job) if over or self._site.no_way else None

    def log_out(self) -> None:
        self.refusal = Problem("ssh.logged_out", "You logged out of The Cave.", "Log in.")

    def close(self) -> None:
        """Nothing is open."""


class FakeSite:
    """One site of a ``FakeManager``. Jobs stay where they are until the test moves them."""

    def __init__(self, home: Path, book: JobBook, tell: Callable[[JobStatus], None]) -> None:
        self.places = Places(home=home, private=home / "private")
        self.book = book
        self.tell = tell
        self.followed: list[str] = []
        self.unasked: list[str] = []
        """Followed because another program sent them."""
        self.down = self.no_way = False
        self.fetches = 0
        self.refusal: Problem | None = None
        self.logins = 0
        self.asked: list[str] = []
        """Jobs that somebody wanted the scheduler to be asked about at once."""
        self.answer: Callable[[str], None] = lambda _job: None
        """What the scheduler says then."""
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    # --- For the session ----------------------------------------------------------------------------------------------

    def take(self, order: JobOrder, title: str = "") -> None:
        self.book.note_order(order, title)
        self.news(order.job, JobStage.SUBMITTING, "Sending the job.")

    def follow(self, job: str, asked: bool = True) -> None:
        self.followed.append(job)
        self.unasked += [] if asked else [job]
        self.tell(self.book.news(job))

    def ask_now(self, jobs: Collection[str], seconds: float) -> bool:
        self.asked += jobs
        for job in jobs:
            self.answer(job)
        return True

    def end_for(self, job: str, request: EndRequest) -> None:
        self.book.note_end_request(job, request)
        if request is EndRequest.CANCEL:
            self.end(job, Phase.CANCELLED, "You cancelled the job.", kill=True)
        else:
            self.end(job, Phase.COMPLETED, "You let the node go.")

    def target(self, job: str) -> FakeTarget:
        return FakeTarget(self, job)

    def preview(self, order: JobOrder) -> str:
        return f"#!/bin/bash\n# {order.job}\n"

    def noted(self, job: str) -> None:
        self.tell(self.book.news(job))

    def log_in(self) -> None:
        self.logins += 1
        self.refusal = None

    def log_out(self) -> None:
        self.refusal = Problem("ssh.logged_out", "You logged out of The Cave.", "Log in.")

    def close(self) -> None:
        """Nothing is open."""

    def read_spec(self, run: str) -> RunSpec | None:
        try:
            return read_spec(RunFolder(self.places.runs / run).spec)
        except ProblemError:
            return None

    def address(self, job: str) -> AgentAddress | None:
        process = self._agents.get(job)
        found = find_agent(self.places)
        return found if process is not None and found is not None and found.pid == process.pid else None

    # --- For the test -------------------------------------------------------------------------------------------------

    def news(self, job: str, stage: JobStage, text: str = "", **more: object) -> None:
        news = JobStatus(job=job, stage=stage, text=text, **more)  # type: ignore[arg-type]
        self.book.note_news(news)
        self.tell(news)

    def queue(self, job: str, text: str = "Other jobs come first.") -> None:
        self.news(job, JobStage.QUEUED, text, id="7")

    def begin(self, job: str, starts: float | None = None) -> None:
        """A node is there: the job's agent comes up and begins what it was given, or goes on with it."""
        self.places.home.mkdir(exist_ok=True)
        log = self.places.home / "agent.log"
        environment = os.environ | {"CLEW_HOME": str(self.places.home)}
        with log.open("ab") as file:
            self._agents[job] = subprocess.Popen(
                STAND_IN, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment
            )
        address = wait_for(lambda: self.address(job), "the agent of the job")
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        viewer = Viewer(context, address)
        for spec in self.book.order(job).runs:
            again = attempts(self.places.runs / spec.run)
            viewer.ask(ContinueRun(run=spec.run) if again else StartRun(spec=spec))
        viewer.close()
        context.destroy(linger=0)
        self.news(job, JobStage.RUNNING, "Runs on node1.", id="7", nodes="node1", starts=starts)

    def serve(self, job: str, other: FakeSite) -> None:
        """The same job as another program sees it: its agent is there for this one as well."""
        self._agents[job] = other._agents[job]

    def end(self, job: str, phase: Phase, text: str = "", kill: bool = False) -> None:
        """The job is over; with ``kill`` its runs die with it, without a last word."""
        process = self._agents.pop(job, None)
        if process is not None:
            process.kill()
            process.wait(BOUND_S)
        if kill:
            for spec in self.book.order(job).runs:
                end_all(spec.run)
        self.news(job, JobStage.ENDED, text, id="7", phase=phase)

    def clear(self) -> None:
        """End everything."""
        for process in self._agents.values():
            process.kill()
            process.wait(BOUND_S)
        for folder in self.places.runs.glob("*"):
            end_all(folder.name)


class BusySite(FakeSite):
    """A site that works by itself: a job waits until ``nodes`` is set, runs, and ends with its agent."""

    def __init__(self, home: Path, book: JobBook, tell: Callable[[JobStatus], None]) -> None:
        super().__init__(home, book, tell)
        self.nodes = threading.Event()
        self.no_room: Problem | None = None
        """Why its scheduler takes no job."""
        self.slow_end: Callable[[], bool] = lambda: True
        """A job is over only when this holds, although its agent has ended."""
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    def take(self, order: JobOrder, title: str = "") -> None:
        super().take(order, title)
        self._threads.append(threading.Thread(target=self._work, args=(order.job,)))
        self._threads[-1].start()

    def follow(self, job: str, asked: bool = True) -> None:
        super().follow(job, asked)
        if not self._threads:
            self._threads.append(threading.Thread(target=self._work, args=(job,)))
            self._threads[-1].start()

    def _work(self, job: str) -> None:
        if self.no_room is not None:
            self._closing.wait(0.2)  # so long the order is on its way
            self.news(job, JobStage.ENDED, self.no_room.text, problem=self.no_room)
            return
        if self.book.news(job).stage is not JobStage.RUNNING:
            self.queue(job)
            while not self.nodes.wait(0.01):
                if self._closing.is_set() or self.book.news(job).over:
                    return
            self.begin(job)
        while not self._closing.is_set() and not self.book.news(job).over:
            process = self._agents.get(job)
            if (process is None or process.poll() is not None) and self.slow_end():
                self.end(job, Phase.COMPLETED, "The job has ended.")
            self._closing.wait(0.01)

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(BOUND_S)


class FakeManager(JobManager):
    """A program's jobs on the test's sites, each made when it is first needed."""

    def __init__(
        self,
        book: JobBook,
        make: Callable[[str, JobBook, Callable[[JobStatus], None]], FakeSite],
        title: Callable[[str], str],
    ) -> None:
        super().__init__(book, _no_access, title)
        self._make = make
        self._fakes: dict[str, FakeSite] = {}

    def submit(self, order: JobOrder) -> None:
        title = self.title(order.site)
        self._fake(order.site).take(order, title)

    def follow(self, job_id: str, asked: bool = True) -> None:
        self._of(job_id).follow(job_id, asked)

    def ask(self, jobs: Collection[str], heard: Callable[[str], None]) -> set[str]:
        for job in jobs:
            self._of(job).ask_now((job,), 0.0)
            heard(job)
        return set(jobs)

    def noted(self, job: str) -> None:
        self._of(job).noted(job)

    def end(self, job_id: str, request: EndRequest) -> None:
        self._of(job_id).end_for(job_id, request)

    def target(self, job_id: str) -> Any:
        return self._of(job_id).target(job_id)

    def preview(self, order: JobOrder) -> str:
        self.title(order.site)
        return self._fake(order.site).preview(order)

    def refusals(self) -> dict[str, Problem]:
        return {name: site.refusal for name, site in self._fakes.items() if site.refusal is not None}

    def log_in(self, site: str) -> None:
        self._fake(site).log_in()

    def log_out(self) -> bool:
        for site in self._fakes.values():
            site.log_out()
        return bool(self._fakes)

    def close(self) -> None:
        for site in self._fakes.values():
            site.close()
        self._fakes.clear()

    def _of(self, job: str) -> FakeSite:
        return self._fake(self.book.order(job).site)

    def _fake(self, name: str) -> FakeSite:
        if name not in self._fakes:
            self._fakes[name] = self._make(name, self.book, lambda news: self.listen(news))
        return self._fakes[name]


def _no_access(name: str) -> SiteAccess:
    raise AssertionError(f"nobody dials {name}")
