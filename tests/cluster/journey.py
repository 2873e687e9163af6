"""A student at the mini cluster's laptop: one program after the other on the same home, and what must be true of a
run's two copies, the node's and the laptop's, whatever happened between them."""

from __future__ import annotations

import hashlib
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
from minicluster.namespaces import processes_of
from minicluster.state import State

from clew_gui.jobs.job import Place
from clew_gui.jobs.manager import open_manager
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.session.job_links import JobModel
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.connection import ssh_files
from clew_gui.ssh.kept_logins import KeptLogins
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter, PromptKind
from clew_gui.targets.local_agent import find_agent
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.catalogue import load_builtin
from clew_shared.journal.history import History
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from tests.cluster.mini import MiniCluster
from tests.integration.agents import command_of, give_way, wait_for
from tests.stand_in import FOLDER

BOUND_S = 240.0
"""A job starts, the agent comes up, TensorFlow is imported: on a busy machine."""
ENDLESS = 10_000_000
"""Steps of a run that goes on until it is stopped."""

_HUNGRY = "[ -z \"$SLURM_JOB_ID\" ] || { kept=$(head -c 600000000 /dev/zero | tr '\\0' x); sleep 60; }"
"""Shell commands of a site that take 600 MB, in a job only: they are tried on the login node as well."""


def stand_in(home: Path) -> str:
    """Puts a trainer without TensorFlow into an account's ``home``: most tests are about what is around a training.
    Returns the prologue of the site whose jobs use it."""
    shutil.copytree(FOLDER, home / "stand-in", dirs_exist_ok=True)
    return "export PYTHONPATH=$HOME/stand-in:$PYTHONPATH"


class Agrees(Prompter):
    """A person who has seen the fingerprints and knows no password."""

    def ask(self, prompt: Prompt) -> str | None:
        return "yes" if prompt.kind is PromptKind.CONFIRM else None


class Student:
    """Who sits at the laptop. ``programs`` count how often a program was begun there."""

    def __init__(self, cluster: MiniCluster, folder: Path) -> None:
        self.cluster = cluster
        self.places = Places(home=folder / "home", private=folder / "private")
        key = Path(cluster.info()["laptop_home"]) / ".ssh/id_ed25519"
        site = Site(
            title="Mini cluster",
            host="10.77.0.1",
            user="student",
            key=str(key),
            scheduler="slurm",
            modules=("tensorflow",),
        )
        light = msgspec.structs.replace(site, prologue=stand_in(cluster.student_home()))
        small = msgspec.structs.replace(site, extra=("--mem=300",))
        sites = {
            "mini": light,
            "tensorflow": site,
            "otp": msgspec.structs.replace(light, key="", port=2222),
            "again": msgspec.structs.replace(light, requeue=True),
            "small": small,
            "hungry": msgspec.structs.replace(small, prologue=_HUNGRY),
        }
        for name, each in sites.items():
            site_store(self.places).save(name, each)
            consents(self.places).give(words_of(each))

    @contextmanager
    def program(self, *jobs: str, prompter: Prompter | None = None) -> Iterator[Program]:
        """A program that has just been started, and follows ``jobs`` and what it sends itself."""
        manager = open_manager(self.places, prompter or Agrees())
        with _open(Session(self.places, load_builtin(), manager=manager, only=jobs)) as program:
            yield program

    @contextmanager
    def window(self) -> Iterator[Program]:
        """As a window does: it follows all jobs, and trains on the laptop as well, whose agent ends with it."""
        manager = open_manager(self.places, Agrees())
        try:
            with _open(Session(self.places, load_builtin(), manager=manager)) as program:
                yield program
        finally:
            if (agent := find_agent(self.places)) is not None:
                process = psutil.Process(agent.pid)
                process.terminate()
                process.wait(BOUND_S)

    def line(self) -> SiteConnection:
        """A connection of its own to the login node."""
        return open_connection("mini", site_store(self.places).load("mini"), self.places, AskOnce(Agrees()))

    def there(self, run: str) -> RunFolder:
        """The run's folder on the cluster."""
        return self.cluster.run_there(run)

    def here(self, run: str) -> RunFolder:
        """The laptop's copy."""
        return RunFolder(self.places.mirrors / run)

    def processes(self, node: str, **environment: str) -> list[psutil.Process]:
        """Those on the node with these environment variables, parents before their children."""
        found = []
        for pid in processes_of(State(self.cluster.folder).pid(node)):
            with suppress(psutil.Error):  # it ended meanwhile
                process = psutil.Process(pid)
                if environment.items() <= process.environ().items():
                    found.append(process)
        return sorted(found, key=lambda process: process.create_time())

    def kill_all(self, node: str, **environment: str) -> None:
        """As a scheduler does that gives nobody the time for a last word."""
        for send in (psutil.Process.suspend, psutil.Process.kill):
            for process in self.processes(node, **environment):
                with suppress(psutil.Error):
                    send(process)

    def judge(self, run: RunModel, attempts: int = 1) -> None:
        """Both copies of every attempt are the same bytes, sealed and sound, and the curve has each step once."""
        judge(self.there(run.id), self.here(run.id), run.history, attempts)


@contextmanager
def _open(session: Session) -> Iterator[Program]:
    try:
        session.start()
        yield Program(session)
    finally:
        session.close()


def logins(places: Places) -> KeptLogins:
    """Those that stay after the programs of somebody who has these folders."""
    return KeptLogins(ssh_files(places))


def end_logins(places: Places) -> None:
    """End them all, also one that a program was still making when it closed."""
    kept = logins(places)

    def gone() -> bool:
        kept.clear()
        return not any(path.is_dir() for path in kept.folder.glob("*"))

    wait_for(gone, "the end of all kept logins")


class Program:
    """A session, and everything that it told."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.problems: list[Problem] = []

    def until(self, true: Callable[[], bool], what: str, limit_s: float = BOUND_S) -> None:
        """Let the program live until something is so."""
        deadline = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < deadline, f"{what}: {self._messages()}"
            changes = self.session.tick()
            self.problems += changes.problems
            if not changes.points:
                time.sleep(0.02)

    def live_for(self, seconds: float) -> None:
        """Let the program live while a fault lasts."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end, "time")

    def _messages(self) -> str:
        jobs = [(job.news.stage, job.news.text, job.link) for job in self.session.jobs.values()]
        runs = [(run.state, run.reason, run.history.fold.step) for run in self.session.runs.values()]
        return f"{jobs} {runs} {[str(problem) for problem in self.problems]}"

    # --- One run ------------------------------------------------------------------------------------------------------

    def send(
        self,
        steps: int = ENDLESS,
        checkpoint_every: int = 500,
        site: str = "",
        hold: bool = False,
        **asked: object,
    ) -> RunModel:
        """Send a run as a job that asks for this, with a process on each of its nodes; its model. It trains with
        TensorFlow where it has several."""
        params: dict[str, Value] = {"steps": steps, "checkpoint_every": checkpoint_every}
        nodes = int(str(asked.get("nodes", 1)))
        spec = RunSpec(
            exercise="softmax",
            run=str(uuid.uuid4()),
            data="digits",
            params=params,
            strategy="multi-worker" if nodes > 1 else "single",
            nodes=nodes,
        )
        site = site or ("tensorflow" if nodes > 1 else "mini")
        allocation = AllocationRequest(**{"time": "10", **asked})  # type: ignore[arg-type]
        return self.session.runs[self.session.start_run(spec, Place(site=site, allocation=allocation, hold=hold))]

    def job(self, run: RunModel) -> JobModel:
        """The run's latest job."""
        assert run.job is not None
        return self.session.jobs[run.job.job]

    def trains(self, run: RunModel) -> None:
        """Wait for steps that were not here before; from then on a run of one process gives way to others."""
        before = run.history.fold.step
        self.until(lambda: run.history.fold.step > before, "the curve goes on")
        if run.spec.nodes == 1:
            give_way(run.id)

    def catches_up(self, there: RunFolder, here: RunFolder) -> float:
        """Wait until all is here that the node has written by now, and the same bytes; how many seconds that took."""
        last, start = there.journal(there.attempts()[-1]), time.monotonic()
        size, copy = last.stat().st_size, here.path / last.name
        self.until(lambda: copy.exists() and copy.stat().st_size >= size, "what was written meanwhile is here")
        seconds, known = time.monotonic() - start, copy.read_bytes()
        assert last.read_bytes().startswith(known), "the copy is another than what the node has written"
        return seconds

    def is_live(self, run: RunModel) -> bool:
        """Whether the run's agent speaks."""
        return self.job(run).link.state is LinkState.LIVE

    def stop(self, run: RunModel) -> None:
        """End the run, and wait for its last byte and its job's end."""
        self.session.stop(run.id)
        self.until(lambda: run.complete, "the run's end")
        self.until(lambda: self.job(run).news.over, "the job's end")


class Scene(NamedTuple):
    """A run that trains on a node, and who looks at it."""

    student: Student
    program: Program
    run: RunModel

    @property
    def cluster(self) -> MiniCluster:
        return self.student.cluster

    @property
    def id(self) -> str:
        """The scheduler's number of the job."""
        return self.program.job(self.run).news.id

    @property
    def node(self) -> str:
        return self.cluster.on("ctl", "squeue", "--noheader", f"--jobs={self.id}", "--format=%N")

    def agent(self) -> psutil.Process | None:
        """The agent that serves the run's job; None while there is none."""
        found = self.student.processes(self.node, SLURM_JOB_ID=self.id)
        return next((one for one in found if "serve" in command_of(one)), None)


def judge(there: RunFolder, here: RunFolder, history: History, attempts: int = 1) -> None:
    """The run folder on the cluster, its copy on a laptop, and the curves that were read from that."""
    assert there.attempts() == here.attempts() == tuple(range(1, attempts + 1))
    for attempt in there.attempts():
        assert _digest(here.journal(attempt)) == _digest(there.journal(attempt)), f"attempt {attempt}"
    assert not list(here.path.glob("damaged.*")), "no copy had to be set aside"
    assert [str(finding) for finding in verify_run(there.path).findings] == []
    every_step_once(history)


def every_step_once(history: History, metric: str = "loss") -> None:
    """No gap, no duplicate."""
    steps = history.column(metric).steps
    assert steps.tolist() == list(range(history.fold.step)), f"{len(steps)} of {history.fold.step} steps"


def same_bits(history: History, metric: str = "loss") -> int:
    """Whatever attempt recorded a step, it has the same bits; how many steps were done more than once."""
    known: dict[int, bytes] = {}
    again = 0
    for attempt in range(1, history.fold.attempt + 1):
        column = history.column(metric, attempt)
        for step, value in zip(column.steps.tolist(), column.values, strict=True):
            again += step in known
            assert known.setdefault(step, value.tobytes()) == value.tobytes(), f"step {step} of attempt {attempt}"
    return again


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
