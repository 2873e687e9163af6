"""The agent that a command starts for itself: nobody else finds it, and it ends with the command."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

from clew_gui.commands.context import BAD_INPUT, INTERRUPTED, CommandContext
from clew_gui.commands.run.follow import FollowedRun
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.session import Session
from clew_gui.session.study_runner import PlannedRun, StudyResult
from clew_gui.targets.local_agent import agent_program
from clew_gui.targets.target import LocalTarget
from clew_shared.base import operating_system
from clew_shared.base.places import AgentPlaces, Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run

T = TypeVar("T")
_END_S = 10.0
_STOP_S = 15.0
"""A block takes a tenth of a second, but the first one is compiled before it."""
_COPY_S = 10.0
"""A copy for which there was no room is tried again every five seconds."""
_KILL_AT = 4
"""The number of the Ctrl+C that ends a run which answers none of those before."""
_KILLED_S = 3.0
"""A guard seals the journal of a dead trainer within a tenth of a second, unless it hangs."""
_NO_ANSWER = ("fetch.", "link.internal", "link.lost", "link.timeout", "mirror.")
"""The codes of what goes wrong between this program and the agent while the run may train."""


class OwnTarget(LocalTarget):
    """An agent in ``folder`` that serves the program alone which has started it."""

    def __init__(self, places: Places, folder: Path, command: Sequence[str]) -> None:
        super().__init__(AgentPlaces(home=places.home, private=places.private, own=folder), command)
        self.ended = False
        """Whether it was ended; then no other one starts."""
        self._log = ""  # it is removed with the folder

    @property
    def memory(self) -> int:
        """The bytes of memory that the processes of its runs take."""
        return sum(self._of_children(lambda child: int(child.memory_info().rss)))

    def _of_children(self, what: Callable[[psutil.Process], T]) -> list[T]:
        """Does something with each process that the agent has started."""
        found = []
        with suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True) if self._process else ():
                with suppress(psutil.Error):
                    found.append(what(child))
        return found

    def while_absent(self) -> str:
        """Starts one, unless it was ended."""
        return "the agent was ended" if self.ended else super().while_absent()

    def end(self, kill: bool = False) -> None:
        """Have the agent end, and with it what it keeps warm; ``kill``: and all that it has started."""
        self.ended = True
        process = self._process
        if process is None:
            return
        if not kill:
            operating_system.pass_on(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        if process.poll() is None:
            self._of_children(psutil.Process.kill)
            process.kill()
            process.wait(_END_S)
        self._process = None

    def close(self) -> None:
        """Does nothing: the program that has started the agent ends it."""


class OwnSession:
    """A session of runs that train here by an agent of this command's own. ``out`` is the folder of the only run."""

    def __init__(self, places: Places, session: Session, target: OwnTarget, out: Path | None) -> None:
        self.places, self.session, self.target, self.out = places, session, target, out
        self.run: OwnRun | None = None
        self._new = [one for one in (out, *out.parents) if not one.exists()] if out is not None else []

    def undo(self, attempt: int, log_size: int) -> None:
        """Leave nothing of the run's attempt; an empty folder that a person had made for it stays."""
        if self.run is not None:
            RunFolder(self.run.folder).undo(attempt, log_size)
        if self.out is not None:
            self.out.mkdir(exist_ok=True)
        for folder in self._new:
            with suppress(OSError):  # there is something else in it
                folder.rmdir()

    def close(self) -> None:
        """End the agent. A run that nobody follows any more is stopped with a checkpoint, as by Ctrl+C; what does not
        listen is killed."""
        run = self.run
        for _ in range(2):
            if run is not None and not run.complete() and not self.target.ended:
                run.stop()
                deadline = time.monotonic() + _STOP_S
                while not run.complete() and time.monotonic() < deadline:
                    run.turn()
        self.session.close()
        self.target.end(kill=run is not None and not run.is_over())


@contextmanager
def own_session(
    context: CommandContext,
    known: Catalogue,
    exercises: str | None = None,
    out: Path | None = None,
    fresh: bool = False,
) -> Iterator[OwnSession]:
    """A session whose agent starts with its first run, with the exercises of one's own in a folder. ``fresh``: each
    trainer is a fresh interpreter. Raises ``ProblemError`` when no Python with TensorFlow is known."""
    places = context.places
    words = [*agent_program(places), "serve", *(["--fresh"] if fresh else [])]
    words += ["--exercises", str(Path(exercises).expanduser().absolute())] if exercises else []
    words += ["--out", str(out)] if out is not None else []
    with ExitStack() as ending:
        try:  # outside CLEW_HOME, which may be full, and where others look for agents
            place = tempfile.TemporaryDirectory(prefix="clew-own-", ignore_cleanup_errors=True)
        except OSError as error:
            text = f"No folder can be made for the agent of this command: {error}."
            raise problem("private.folder", text, "Make room, or set TMPDIR to a folder of your own.") from None
        folder = Path(ending.enter_context(place))
        target = OwnTarget(places, folder, [*words, "--own", str(folder)])
        viewer = Places(home=folder / "viewer", private=places.private)  # the run's own folder is what lasts
        own = OwnSession(places, Session(viewer, known, target, only=()), target, out)
        ending.callback(own.close)
        yield own


class OwnRun(FollowedRun):
    """A run that trains here by an agent of this command's own; one that was ``joined`` by that of another command."""

    def __init__(
        self,
        context: CommandContext,
        own: OwnSession,
        run: str,
        as_json: bool,
        stops: Callable[[], int] = lambda: 0,
        after_attempt: int = 0,
        joined: bool = False,
    ) -> None:
        folder = own.out or own.places.runs / run
        super().__init__(context, own.session, run, as_json, stops, after_attempt, folder)
        self._own, self._joined, log = own, joined, RunFolder(folder).log
        self._log = log.stat().st_size if log.exists() else 0
        self._killed = self._over = 0.0
        own.run = self

    def _end(self, again: bool) -> None:
        """The third request kills; the fourth is for an agent that does not answer. Of a joined run the trainer itself
        is asked: the agent leaves alone what it has not started."""
        if not self._joined and self.asked < _KILL_AT:
            super()._end(again)
            return
        history = read_run(self.folder) if self._joined else self.history
        begun = history.begun if history.fold.attempt > self._after_attempt and not history.fold.done else None
        pid = begun.pid if begun is not None else 0
        if self.asked < _KILL_AT - 1:
            operating_system.ask_to_stop(pid)
            return
        self._killed = self._killed or time.monotonic()
        operating_system.kill_group(pid)

    def is_over(self) -> bool:
        """Whether nothing of it trains any more."""
        return super().complete() or self._never_began() or self._is_uncopied()

    def _is_uncopied(self) -> bool:
        """Whether it has ended, and there is no room for the copy of its journal."""
        status = self.model.status
        over = status is not None and status.state in TERMINAL and status.attempt > self._after_attempt
        if not over or self._no_room is None or super().complete():
            self._over = 0.0
            return False
        self._over = self._over or time.monotonic()
        return time.monotonic() - self._over > _COPY_S

    def complete(self) -> bool:
        """Whether it has ended, or was killed and nobody says so."""
        return self.is_over() or (bool(self._killed) and time.monotonic() - self._killed > _KILLED_S)

    def waiting(self) -> str:
        """Returns nothing: it does not wait."""
        return ""

    def refused(self) -> list[Problem] | None:
        """Returns why it never began: the agent refused it, or there is none."""
        status, began = self.model.status, self.history.fold.attempt > self._after_attempt
        unheard = status is None and self._session.link.state is not LinkState.LIVE
        trains = status is not None and (status.state not in TERMINAL or status.attempt > self._after_attempt)
        codes = [found.code for found in self._problems if not found.code.startswith(_NO_ANSWER)]
        said = any(unheard or not code.startswith("agent.") for code in codes)
        elsewhere = "run.running" in codes  # what trains is another command's
        refused = self.model.refused or elsewhere or (said and not trains)
        return list(self._problems) if refused and not began else None

    def _never_began(self) -> bool:
        """Whether it was stopped before its attempt began; the agent's list has an earlier one then, or none."""
        status = self.model.status
        ended = status is not None and status.state in TERMINAL and status.attempt <= self._after_attempt
        return ended and self.asked > 0

    def conclude(self, card: ExerciseCard | None) -> int:
        """Shows how it ended; returns the exit status."""
        status = super().conclude(card)
        return INTERRUPTED if self._never_began() else status

    def _ending(self, card: ExerciseCard | None) -> Iterator[str]:
        yield from [self._in_words()] if self._never_began() else super()._ending(card)

    def _in_words(self) -> str:
        return "Stopped before it began." if self._never_began() else super()._in_words()

    @property
    def discard(self) -> bool:
        """Whether its trainer has refused it."""
        fold = self.history.fold
        return fold.attempt > self._after_attempt and fold.exit_code == BAD_INPUT and fold.problem is not None

    def raise_refusal(self, new: bool = True) -> None:
        """Raises ``ProblemError`` if it never began, or its trainer has refused it; nothing is left of it then. Also if
        it has ended, and cannot be shown."""
        super().raise_refusal(new=False)
        if self._no_room is not None and self._is_uncopied():
            text = f"The run has ended, and is kept in {self.folder}. {self._no_room.text}"
            raise problem(self._no_room.code, text, f"Make room. Then: clew verify {self.word}")
        fold = self.history.fold
        if self.discard and fold.problem is not None:
            self._own.undo(fold.attempt, self._log)
            raise ProblemError(fold.problem)


def train(
    context: CommandContext,
    own: OwnSession,
    one: PlannedRun,
    card: ExerciseCard,
    heading: str,
    as_json: bool,
    stops: Callable[[], int],
) -> StudyResult:
    """Train a run of a study, or join it if it has begun already, and show it to its end under this heading. Raises
    ``ProblemError`` if it was refused; then nothing is left of it."""
    if one.known is None:
        run = OwnRun(context, own, own.session.start_run(one.run.spec), as_json, stops)
    else:
        own.session.follow(one.known.spec)
        run = OwnRun(context, own, one.known.id, as_json, stops, joined=True)
    run.to_the_end(card, heading)
    run.raise_refusal()
    return run.result(one)._replace(asked=stops() > 0)  # also if it had just ended
