"""The vocabulary of the fault tests: a lab has an agent, runs, viewers and links, and things happen to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

from clew_gui.session.intake import Changes
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.targets.local_agent import find_agent
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Attempt, Points
from clew_shared.journal.files import Record, journal_path, read_journal
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import AgentAddress
from tests.integration.agents import BOUND_S
from tests.integration.faults.chance import Chance, Tally
from tests.integration.faults.programs import PROGRAM
from tests.integration.faults.proxy import Proxy
from tests.integration.faults.viewing import ProxiedTarget, viewer_places
from tests.offspring import Offspring
from tests.stand_in.engine import CATALOGUE

T = TypeVar("T")
AGENT = (sys.executable, "-P", "-m", "clew_agent")
WAYS = {"nursery": (), "standby": ("--no-fork",), "fresh": ("--fresh",)}
"""How trainers are started: the supervisor's options."""
_STILL_S = 0.01


class Viewer:
    """A window without a window: the session, ticked while the lab waits. ``proxy`` is its link to the agent."""

    def __init__(self, places: Places, mirrors: Path, command: Sequence[str], catalogue: Catalogue = CATALOGUE) -> None:
        self.mirrors = mirrors
        self.proxy = Proxy()
        self.problems: list[Problem] = []
        own = viewer_places(places, mirrors)
        self.session = Session(own, catalogue, ProxiedTarget(own, command, self.proxy))
        self.session.start()

    def tick(self) -> Changes:
        """As the window's timer does."""
        changes = self.session.tick(budget=0.05)
        self.problems += changes.problems
        return changes

    @property
    def live(self) -> bool:
        """Whether the link works."""
        return self.session.link.state is LinkState.LIVE

    def start(self, **params: Value) -> str:
        """Start a run of the stand-in; its id."""
        return self.session.start_run(RunSpec(exercise="stand-in", params=params))

    def model(self, run: str) -> RunModel:
        """The run as it is shown."""
        return self.session.runs[run]

    def close(self) -> None:
        """Close the window and its link."""
        self.session.close()
        self.proxy.close()


class DistantViewer:
    """A viewer that is a process of its own: it can be killed, frozen and opened again."""

    def __init__(self, places: Places, mirrors: Path, options: Sequence[str]) -> None:
        self.mirrors = mirrors
        self._options = options
        self._log = places.home / f"{mirrors.name}.log"
        self.process = self._open()

    def _open(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            command = (*PROGRAM, "viewer", str(self.mirrors), *self._options)
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def taken(self, run: str) -> int:
        """Bytes of the run's journal that it has."""
        return sum(path.stat().st_size for path in (self.mirrors / run).glob("journal.*"))

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(BOUND_S)

    def reopen(self) -> None:
        """Open it again on the same mirrors."""
        self.kill()
        self.process = self._open()

    def freeze(self) -> None:
        """It does not get the processor any more. Each thread first ends the system call in which it is."""
        os.kill(self.process.pid, signal.SIGSTOP)
        deadline = time.monotonic() + BOUND_S
        threads = Path("/proc", str(self.process.pid), "task")
        while any(_state(thread) != "T" for thread in threads.iterdir()):
            assert time.monotonic() < deadline, "it is not frozen"
            time.sleep(0.005)

    def thaw(self) -> None:
        """Go on."""
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self.kill()


def _state(thread: Path) -> str:
    """The letter that proc(5) has for the state of a thread; empty when it has just ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Lab:
    """One home with everything in it. ``dice`` are the test's; ``tally`` counts what is done; ``way`` is how the agents
    that the viewers start begin their trainers."""

    def __init__(self, chance: Chance, tally: Tally, way: str = "nursery") -> None:
        self.way = way
        self.places = find_places()
        self.chance = chance
        self.dice = chance.dice
        self.tally = tally
        self.viewers: list[Viewer] = []
        self.distant: list[DistantViewer] = []
        self._agents = Offspring()

    # --- Who is there -------------------------------------------------------------------------------------------------

    def viewer(self) -> Viewer:
        """Open a viewer; it starts the agent where none serves, also after each death."""
        return self._open((*PROGRAM, "serve", *WAYS[self.way]), CATALOGUE)

    def real_viewer(self) -> Viewer:
        """Open a viewer whose agents are the product's, with TensorFlow in their trainers."""
        return self._open((*AGENT, "serve", *WAYS[self.way]), load_builtin())

    def _open(self, command: Sequence[str], catalogue: Catalogue) -> Viewer:
        mirrors = self.places.home / f"viewer-{len(self.viewers)}"
        self.viewers.append(Viewer(self.places, mirrors, command, catalogue))
        return self.viewers[-1]

    def distant_viewer(self) -> DistantViewer:
        """Open a viewer in a process of its own."""
        mirrors = self.places.home / f"distant-{len(self.distant)}"
        self.distant.append(DistantViewer(self.places, mirrors, WAYS[self.way]))
        return self.distant[-1]

    def folder(self, run: str) -> RunFolder:
        """The run's folder on the node."""
        return RunFolder(self.places.runs / run)

    def agent(self) -> AgentAddress | None:
        """The agent that serves."""
        return find_agent(self.places)

    def process(self, role: str, run: str) -> psutil.Process | None:
        """The living process of a role: trainer and guard of ``run``, supervisor, nursery."""
        if role == "supervisor":
            found = self.agent()
            return _living(found.pid) if found is not None else None
        if role == "nursery":
            return self._nursery()
        trainer = self._trainer(run)
        if role == "trainer":
            return trainer
        return next((one for one in processes_of(run) if "guard" in words_of(one)), None)

    def nursery(self) -> psutil.Process:
        """Wait for a nursery; after a death there is none for some seconds."""
        return self.wait(self._nursery, "a nursery")

    def _nursery(self) -> psutil.Process | None:
        supervisor = self.process("supervisor", "")
        try:
            children = supervisor.children() if supervisor is not None else []
        except psutil.Error:
            return None
        return next((one for one in children if "nursery" in words_of(one)), None)

    def _trainer(self, run: str) -> psutil.Process | None:
        """The process that the latest journal names, or, while there is none, the one with that command line."""
        numbers = self.folder(run).attempts()
        first = next(read_journal(self.folder(run).journal(numbers[-1])), None) if numbers else None
        if isinstance(first, Record) and isinstance(first.event, Attempt):
            return _living(first.event.pid)
        return next((one for one in processes_of(run) if "trainer" in words_of(one)), None)

    # --- What happens -------------------------------------------------------------------------------------------------

    def kill(self, role: str, run: str) -> bool:
        """kill -9, out of the blue; False when there is no such process just now."""
        process = self.process(role, run)
        if process is None:
            return False
        try:
            process.kill()
            process.wait(BOUND_S)
        except psutil.NoSuchProcess:
            return False
        self.tally.add("kills")
        return True

    def freeze(self, role: str, run: str) -> psutil.Process:
        """SIGSTOP; the process, to be resumed."""
        process = self.wait(lambda: self.process(role, run), f"the {role}")
        process.suspend()
        return process

    # --- Waiting ------------------------------------------------------------------------------------------------------

    def wait(self, look: Callable[[], T | None], what: str = "it") -> T:
        """The first thing (anything true) that ``look`` finds, while all viewers live on."""
        deadline = time.monotonic() + BOUND_S
        while not (found := look()):
            assert time.monotonic() < deadline, f"{what} did not happen within {BOUND_S:g} s; {self._messages()}"
            for viewer in self.viewers:
                viewer.tick()
                assert not _broken(viewer), self._messages()
            time.sleep(_STILL_S)
        return found

    def _messages(self) -> str:
        shown = [f"{run}: {m.state} {m.reason!r}" for v in self.viewers for run, m in v.session.runs.items()]
        problems = [problem for viewer in self.viewers for problem in viewer.problems]
        lives = [" ".join(words_of(one)[-5:]) for one in self.left()]
        return f"{[viewer.session.link for viewer in self.viewers]}, {shown}, {problems}, living: {lives}"

    def rest(self, seconds: float) -> None:
        """Let a moment pass, while all viewers live on."""
        deadline = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= deadline)

    def steps(self, run: str, attempt: int = 1) -> int:
        """How many steps are recorded on the node."""
        path = journal_path(self.folder(run).path, attempt)
        found = read_journal(path) if path.exists() else ()
        points = [item.event for item in found if isinstance(item, Record) and isinstance(item.event, Points)]
        return max((event.first + event.count for event in points), default=0)

    def trained(self, run: str, steps: int, attempt: int = 1) -> None:
        """Wait until so many steps are recorded on the node."""

        def there() -> bool:
            if self.steps(run, attempt) >= steps:
                return True
            models = [viewer.model(run) for viewer in self.viewers if run in viewer.session.runs]
            assert not any(model.history.fold.sealed and model.history.fold.attempt == attempt for model in models)
            return False

        self.wait(there, f"step {steps}")

    def shown(self, run: str, *states: RunState) -> RunModel:
        """Wait until the first viewer shows one of these states."""
        viewer = self.viewers[0]
        self.wait(lambda: run in viewer.session.runs and viewer.model(run).state in states, f"{states}")
        return viewer.model(run)

    def ended(self, run: str) -> RunModel:
        """Wait until the first viewer shows an end."""
        return self.shown(run, *TERMINAL)

    # --- The end ------------------------------------------------------------------------------------------------------

    @property
    def mirrors(self) -> list[Path]:
        """The folders of mirrors of all viewers."""
        return [viewer.mirrors for viewer in self.viewers] + [viewer.mirrors for viewer in self.distant]

    def close_viewers(self) -> None:
        """Close all windows; agent and runs go on."""
        while self.viewers:
            self.viewers.pop().close()
        while self.distant:
            self.distant.pop().close()

    def end_agent(self) -> None:
        """Ask the agent to end, as a shutdown of the computer does; and the one that a second viewer had started at the
        same moment, which serves as soon as the first is gone."""
        while serving := [one for one in self.left() if "serve" in words_of(one)]:
            for process in serving:
                with suppress(psutil.NoSuchProcess):
                    process.terminate()
                    process.wait(BOUND_S)

    def close(self) -> None:
        """End whatever is left, also after a failure."""
        self.close_viewers()
        while left := self.left():
            for process in left:
                _end(process)
        self._agents.end()  # those that a viewer has left to themselves, and that have ended

    def left(self) -> list[psutil.Process]:
        """Everything of this home that still runs, whoever started it."""
        return [one for one in psutil.process_iter() if one.pid != os.getpid() and self._is_ours(one)]

    def _is_ours(self, process: psutil.Process) -> bool:
        """By its environment, or, where a process has written its title over that, by its title."""
        home = str(self.places.home)
        try:
            ours = process.environ().get("CLEW_HOME") == home or any(home in word for word in process.cmdline())
            return ours and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def _broken(viewer: Viewer) -> list[str]:
    """Runs that ended by an exception that nobody foresaw: no fault that a test makes ends like that."""
    folds = [model.history.fold for model in viewer.session.runs.values()]
    return [fold.reason for fold in folds if fold.problem is not None and fold.problem.code == "run.error"]


def processes_of(run: str) -> list[psutil.Process]:
    """The living processes whose command line names the run."""
    return [process for process in psutil.process_iter() if any(run in word for word in words_of(process))]


def words_of(process: psutil.Process) -> list[str]:
    """The words of the command line, or of the title that took its place; nothing for a process that has ended."""
    try:
        return " ".join(process.cmdline()).split() if process.status() != psutil.STATUS_ZOMBIE else []
    except psutil.Error:
        return []


def _living(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _end(process: psutil.Process) -> None:
    try:
        process.kill()
        process.wait(BOUND_S)
    except psutil.Error:
        return
