"""Carries out requests about runs: start, continue, steer, stop. Holds the queue, the registry and the processes
together."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_agent.datasets.search import Search, available
from clew_agent.node.devices import Devices
from clew_agent.node.exit_codes import BAD_INPUT
from clew_agent.node.host import processor
from clew_agent.processes import guard_mark
from clew_agent.processes.guard import open_end
from clew_agent.supervisor.launcher import Launcher, is_guarded, is_trainer
from clew_agent.supervisor.run_queue import QueueEntry, QueueRecord, RunQueue
from clew_agent.supervisor.run_registry import RunRegistry
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_agent.supervisor.trainer_client import ControlClient
from clew_agent.trainer.resuming import still_going_on
from clew_agent.trainer.spec_check import check_spec, combine, recorded_revision
from clew_agent.wire.long_polls import Caller
from clew_shared.base.file_names import is_uuid
from clew_shared.base.foreign import from_json
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, ProblemError, os_refused, problem
from clew_shared.cards import Catalogue
from clew_shared.catalogue import find_card
from clew_shared.journal.events import State
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.spec import SPREAD, RunSpec, read_spec, spread_again, to_table, to_toml
from clew_shared.wire.messages import AnyReply, Done, MoveRun, Reply, RunningRunRequest, RunStatus, Stop

_log = logging.getLogger(__name__)

_STOP_NOW_S = 3.0
"""Seconds that a trainer that was asked to stop at once may take before it is killed."""
_REMEMBERED = 50
"""Runs that left the queue before they began and are kept for a successor; each takes a few hundred bytes."""


class RunManager:
    """Runs of one agent. ``turn`` does what has become due and returns answers that were waited for."""

    def __init__(
        self,
        runs: Path,
        record: Path,
        launcher: Launcher,
        control: ControlClient,
        devices: Devices,
        search: Search,
        job: str = "",
        asked_for: bool = False,
        out: Path | None = None,
    ) -> None:
        self._search = search
        self._record_file = record
        self._launcher = launcher
        self._control = control
        before = read_record(record)
        self._queue = RunQueue(devices, before)
        self._to_kill: dict[str, float] = {}
        self._discarded = {run for run in before.discarded if is_uuid(run)}
        """Runs that nobody keeps, whose folders go as soon as their processes have gone."""
        self._cancelled: dict[str, RunSpec] = {}
        self._begun = dict(before.begun)
        self._stopped = set(before.stopped)
        self._job = job
        self.awaited: Callable[[str], bool] = lambda _: False
        """Whether the job's folder names the run and it is still to be begun, or gone on with, in this start of the
        job."""
        self._asked_for = asked_for
        self.registry = RunRegistry(runs, self._queue.__contains__, job, asked_for, out)
        self._recall(before.cancelled)

    # --- Seen from outside --------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Grows with every change of ``statuses`` but progress."""
        return self.registry.version

    def devices(self) -> tuple[str, ...]:
        """Returns the devices that runs can have here, in words: the processor, and the GPUs."""
        return (processor(), *(gpu.name for gpu in self._queue.devices.gpus))

    def datasets(self) -> tuple[str, ...]:
        """Names of the data sets that are here now."""
        return available(self._search)

    def statuses(self) -> tuple[RunStatus, ...]:
        """Returns the status of all runs that are known so far."""
        return tuple(self._status(tracked) for tracked in self.registry.runs.values())

    def busy(self) -> bool:
        """Whether a run lives, waits or is being ended. One has its devices until its guard has gone, also a guard that
        an earlier agent started."""
        at_work = self._queue.running() or len(self._launcher) > 0 or any(True for _ in self.registry.live())
        return bool(at_work) or len(self._queue) > 0

    def hurried(self) -> bool:
        """Whether the next turn should come at once."""
        return self.registry.unread or self.registry.has_more()

    def turn(self) -> list[tuple[Caller, AnyReply]]:
        """Read what grew, reap, seal what nobody seals, kill what does not obey, start what may start."""
        self.registry.refresh()
        for run, exit_code in self._launcher.reap():
            self._child_ended(run, exit_code)
        self._launcher.seal_the_dead(list(self.registry.live()))
        self._kill_overdue()
        answers = [answer for run in self._queue.running() for answer in self._free_slot(run)]
        self._remove_discarded()
        self._start_waiting()
        return answers

    # --- Requests -----------------------------------------------------------------------------------------------------

    def start(self, spec: RunSpec, catalogue: Catalogue) -> Reply:
        """Queue a new run; the same request twice starts it once. Raises ``ProblemError`` with all that is wrong.

        A run that was taken out of the queue stays out: a request that is repeated after a cut must not undo what a
        person has decided meanwhile. ``resume`` queues it again.
        """
        if not is_uuid(spec.run):
            raise problem("spec.run", f"A run is named by a UUID, got {spec.run[:64]!r}.", where="run")
        known = self.registry.find(spec.run)
        if known is not None:
            if to_table(known.spec) != to_table(spec):
                raise problem(
                    "run.exists", f"There is already a run {spec.run} with another spec.", "Choose a new UUID."
                )
            return Done(run=spec.run)
        few = self._queue.devices.problem(spec.devices)
        found = (*check_spec(spec, catalogue, self._search), *((few,) if few is not None else ()))
        if found:
            raise ProblemError(combine(found))
        folder = _make_folder(self.registry.place(spec.run).path, spec)
        self._enqueue(TrackedRun(folder, spec, spec.run), 1)
        return Done(run=spec.run)

    def resume(self, run: str, catalogue: Catalogue, changes: Mapping[str, str | int] | None = None) -> Reply:
        """Queue a further attempt of a run that has ended, with ``changes`` of how it spreads over devices. Raises
        ``ProblemError`` when that makes no sense."""
        tracked = (self.registry.claim(run) if self._job else None) or self.registry.get(run)
        left = run not in self._queue and self._is_left(tracked)
        if self._queue.position(run) or (self._at_work(tracked) and not left):
            return Done(run=run)
        if tracked.fold.state is RunState.FINISHED:
            raise problem("run.finished", "This run has finished; there is nothing to continue.", "Start a new run.")
        with suppress(ProblemError):  # one that cannot be read any more is the trainer's to refuse
            tracked.spec = read_spec(tracked.folder.latest_spec)  # a terminal may have gone on on other devices
        spec = self._spread_again(tracked, catalogue, changes or {})
        few = self._queue.devices.problem(spec.devices)
        if few is not None:
            raise ProblemError(few)
        if tracked.attempt:
            _keep_changed(tracked.folder.changed_spec(tracked.attempt + 1), spec if spec != tracked.spec else None)
        tracked.spec = spec
        if tracked.cancelled:  # it left the queue before it began, and its folder went with it
            _make_folder(tracked.folder.path, tracked.spec)
        if left:  # what comes next in the queue begins when it is sealed
            self._queue.hold(run, tracked.attempt)
            self._launcher.seal(run, tracked.folder.path, tracked.attempt, "--lost")
        self._enqueue(tracked, tracked.attempt + 1)
        return Done(run=run)

    def _is_left(self, tracked: TrackedRun) -> bool:
        """Whether all its processes died before they could seal its journal. Raises ``ProblemError`` in a command's
        agent when there are some: another program follows it."""
        trains = tracked.live and is_trainer(tracked)
        pid = tracked.pid if trains else guard_mark.guard_pid(tracked.folder.path)
        if pid is not None and self._asked_for:
            raise ProblemError(still_going_on(tracked.folder, pid))
        return pid is None and tracked.live and not tracked.elsewhere

    def _spread_again(self, run: TrackedRun, catalogue: Catalogue, changes: Mapping[str, str | int]) -> RunSpec:
        """The run's spec with these changes, checked. Raises ``ProblemError`` with all that is wrong."""
        spec = run.spec
        if all(getattr(spec, name) == value for name, value in changes.items()):
            return spec
        spread = spread_again(spec, find_card(catalogue.exercises, spec.exercise), changes)
        revision = recorded_revision(run.folder, run.attempt)
        found = check_spec(spread, catalogue, self._search, revision)
        if found:
            raise ProblemError(combine(found))
        return spread

    def begin(self, spec: RunSpec, catalogue: Catalogue, incarnation: str) -> bool:
        """Begin a run that a job's folder names, or go on with it, once in each ``incarnation`` of the job.

        One that has finished, that trains, or that a person stopped or took out of the queue is left as it is. One that
        another job left spreads as ``spec`` says now. False when that has to wait: an earlier attempt of this node is
        still ending. Raises ``ProblemError`` with all that is wrong.
        """
        if self.is_handled(spec.run, incarnation):
            return True
        tracked = self.registry.claim(spec.run)
        if tracked is not None and tracked.attempt and tracked.live and not tracked.elsewhere:
            return False
        self._begun[spec.run] = incarnation  # what follows writes it down
        try:
            if tracked is None:
                self.start(spec, catalogue)
            elif tracked.attempt and tracked.fold.state is not RunState.FINISHED:
                here = tracked.fold.job == self._job
                self.resume(spec.run, catalogue, {} if here else {name: getattr(spec, name) for name in SPREAD})
        except ProblemError:
            del self._begun[spec.run]
            raise
        return True

    def is_handled(self, run: str, incarnation: str) -> bool:
        """Whether nothing is to be begun of the run in this ``incarnation`` of the job."""
        return self._begun.get(run) == incarnation or run in self._stopped

    def refuse(self, run: str, spec: bytes, found: Problem, incarnation: str) -> None:
        """Let a viewer see a run of a job's folder that cannot begin, as one that failed. Raises ``OSError``."""
        self._begun[run] = incarnation
        tracked = self.registry.claim(run)
        if tracked is None:
            write_refused(self.registry.place(run), spec, found)
            self.registry.claim(run)
        else:
            tracked.problem_text = found.text
            self.registry.touch()
        self._keep_record()

    def steer(self, run: str, request: RunningRunRequest | Stop, caller: Caller) -> Reply | None:
        """Pass a command on to the trainer, which answers it. Raises ``ProblemError`` when there is no trainer."""
        tracked = self.registry.get(run)
        if not self._at_work(tracked):
            raise problem("run.not_running", f"This run is not running: it is {self._status(tracked).state}.")
        self._control.send(run, request, caller)
        return None

    def move(self, request: MoveRun) -> Reply:
        """Put a waiting run at another place of the queue; one that began, ended or was taken out stays as it is.

        That is no error: it may have begun while the request was on its way, or after the same request came once
        before. Raises ``ProblemError`` for an unknown run and a place that is none.
        """
        self.registry.get(request.run)
        if request.place < 1:
            raise problem("queue.place", f"Places in the queue count from 1, got {request.place}.", where="place")
        if self._queue.move(request.run, request.place):
            self._keep_record()
            self.registry.touch()
        return Done(run=request.run)

    def stop(self, request: Stop, caller: Caller) -> Reply | None:
        """End a run: out of the queue, after the block, or at once. One that has ended already is no error. A command's
        agent leaves a run alone that it has not started itself."""
        if request.discard and self.registry.find(request.run) is None:
            return Done(run=request.run)
        tracked = self.registry.get(request.run)
        if self._asked_for and request.run not in self._queue:
            return Done(run=request.run)
        if request.discard and tracked.folder.path.name == request.run:  # not the folder that a command was given
            self._discarded.add(request.run)
            self._launcher.expect_more()  # it was a try
            self._keep_record()
        if self._job and (self._queue.position(request.run) or self._at_work(tracked)):
            self._stopped.add(request.run)
            self._keep_record()
        if self._queue.cancel(request.run):
            self._take_out(tracked)
        elif not self._at_work(tracked):
            return Done(run=request.run)
        elif request.discard:
            self._to_kill[request.run] = 0.0
        elif not self._control.reachable(request.run):
            # Nothing to save yet, and nobody there who could stop by itself; or one that ends already, asked twice.
            begun = tracked.fold.state in (RunState.PREPARING, RunState.RUNNING, RunState.PAUSED)
            self._to_kill.setdefault(request.run, time.monotonic() + _STOP_NOW_S if begun else 0.0)
        elif request.now:
            self._control.send(request.run, request, None)
            again = request.run in self._to_kill
            self._to_kill[request.run] = 0.0 if again else time.monotonic() + _STOP_NOW_S
        else:
            return self.steer(request.run, request, caller)
        return Done(run=request.run)

    # --- Turning ------------------------------------------------------------------------------------------------------

    def _status(self, tracked: TrackedRun) -> RunStatus:
        devices = self._queue.devices.names(self._queue.held(tracked.run))
        ends = self._asked_for and tracked.done and self._is_worked_on(tracked)  # who asks may remove its folder then
        return tracked.status(self._queue.position(tracked.run), ends or self._starting(tracked), devices)

    def _starting(self, tracked: TrackedRun) -> bool:
        """Whether its processes, or those that an earlier agent started, come up and have not written anything yet; or
        the job was started again and is to go on with it: how an earlier attempt ended is no end then."""
        if self.awaited(tracked.run) and tracked.fold.state is not RunState.FINISHED:
            return True
        begun = tracked.attempt >= self._queue.attempt(tracked.run) or bool(tracked.problem_text)
        return tracked.run in self._queue.running() and not begun

    def _at_work(self, tracked: TrackedRun) -> bool:
        """Whether the run starts or trains: it has not said that it ended."""
        return self._starting(tracked) or (tracked.live and not tracked.done and not tracked.elsewhere)

    def _enqueue(self, tracked: TrackedRun, attempt: int) -> None:
        tracked.problem_text, tracked.cancelled = "", False
        self._cancelled.pop(tracked.run, None)
        self._stopped.discard(tracked.run)
        self._queue.add(_entry(tracked, attempt))
        self._keep_record()
        self.registry.add(tracked)

    def _start_waiting(self) -> None:
        while (entry := self._queue.hopeless()) is not None:
            self._give_up(entry)
        while (entry := self._queue.next_to_start()) is not None:
            tracked = self.registry.find(entry.run)
            if tracked is None:
                self._queue.ended(entry.run)
                continue
            tracked.wanted = entry.attempt
            try:
                environment = self._queue.devices.environment(self._queue.held(entry.run))
                self._launcher.start(tracked.folder.path, entry.attempt, environment, entry.run)
            except OSError as error:
                tracked.problem_text = f"Its processes could not be started: {error}."
            self._keep_record()
            self.registry.touch()

    def _give_up(self, entry: QueueEntry) -> None:
        """Gives up a run that waits for more devices than this agent has. It is found while it waits: once out of the
        queue, one without a journal would be nobody's."""
        tracked, found = self.registry.find(entry.run), self._queue.devices.problem(entry.devices)
        self._queue.cancel(entry.run)
        if tracked is not None and found is not None:
            tracked.problem_text = found.text
        self._keep_record()
        self.registry.touch()

    def _child_ended(self, run: str, exit_code: int) -> None:
        _log.info("The guard or sealer of run %s ended with exit code %d.", run, exit_code)
        tracked = self.registry.find(run)
        if tracked is None:
            return
        while tracked.refresh() or tracked.has_more:
            pass  # what it wrote last; bounded by the file, which nobody lengthens now
        if tracked.attempt < tracked.wanted:
            tracked.problem_text = f"Its guard ended with exit code {exit_code} before the run began. See agent.log."
        self.registry.touch()

    def _free_slot(self, run: str) -> list[tuple[Caller, AnyReply]]:
        """Give the slot of a run back when all its processes are gone and its journal is sealed, or never came.

        The seal of one that nobody keeps holds up no other."""
        tracked = self.registry.find(run)
        unkept = run in self._discarded and self._launcher.is_sealing(run)
        if tracked is not None and not unkept and self._is_worked_on(tracked):
            return []
        if tracked is not None:
            self._put_back(tracked)
            guard_mark.forget(tracked.folder.path)
        self._queue.ended(run)
        self._to_kill.pop(run, None)
        self._keep_record()
        self.registry.touch()
        return self._control.forget(run)

    def _is_worked_on(self, tracked: TrackedRun) -> bool:
        here = tracked.live and not tracked.elsewhere
        return self._launcher.has(tracked.run) or here or is_guarded(tracked)

    def _put_back(self, tracked: TrackedRun) -> None:
        """Let a run that an earlier agent started in vain be the next: its processes ended before they wrote a byte."""
        attempt = self._queue.attempt(tracked.run)
        if tracked.problem_text or tracked.cancelled:
            return
        if not tracked.wanted and tracked.attempt < attempt:
            self._queue.again(_entry(tracked, attempt))
        elif not tracked.attempt:  # this agent's own, or of an agent that kept no account of attempts
            tracked.problem_text = "Its processes ended before it began."

    def _kill_overdue(self) -> None:
        now = time.monotonic()
        for run in [run for run, deadline in self._to_kill.items() if now >= deadline]:
            del self._to_kill[run]
            tracked = self.registry.find(run)
            if tracked is not None and (tracked.live or self._launcher.has(run)):
                self._launcher.kill(tracked, max(tracked.wanted, tracked.attempt))

    def _take_out(self, tracked: TrackedRun) -> None:
        """Removes the folder of a queued run; a queued continuation leaves the run as it was."""
        if not tracked.attempt:
            tracked.cancelled = True
            self._cancelled[tracked.run] = tracked.spec
            for run in list(self._cancelled)[:-_REMEMBERED]:
                del self._cancelled[run]
        self._keep_record()
        if tracked.cancelled:
            tracked.folder.spec.unlink(missing_ok=True)
            try:
                tracked.folder.path.rmdir()
            except OSError as error:
                _log.info("The folder of the cancelled run %s stays: %s", tracked.run, error)
        self.registry.touch()

    def _remove_discarded(self) -> None:
        """Removes the folders of runs that nobody keeps, each when its last process has gone. Where the system refuses
        that, as Windows does while a file is open, it is tried again at the next turn."""
        for run in tuple(self._discarded):
            tracked = self.registry.find(run)
            if tracked is not None and (run in self._queue or self._is_worked_on(tracked)):
                self._to_kill.setdefault(run, time.monotonic() + _STOP_NOW_S)  # also one that an earlier agent stopped
                continue
            folder = self.registry.place(run).path
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                self._discarded.discard(run)
                self._cancelled.pop(run, None)
                if tracked is not None:
                    self.registry.remove(run)
                self._keep_record()

    def _recall(self, cancelled: Iterable[RunSpec]) -> None:
        """List the runs again that left the queue of an earlier agent before they began."""
        for spec in cancelled:
            tracked = TrackedRun(self.registry.place(spec.run), spec, spec.run)
            if is_uuid(spec.run) and not tracked.folder.attempts():
                tracked.cancelled = True
                self._cancelled[spec.run] = spec
                self.registry.add(tracked)

    def forget_record(self, asked: bool) -> None:
        """Remove the queue of a job that has ended in good order, unless a run trains or waits, or was
        taken out of it: its job may be queued again. ``asked``: the agent was asked to end, as it is then."""
        record = self._queue.record
        if not (self._cancelled or record.waiting or record.running or (asked and self._stopped)):
            self._record_file.unlink(missing_ok=True)

    def _keep_record(self) -> None:
        cancelled = tuple(self._cancelled.values())
        begun, stopped = dict(self._begun), frozenset(self._stopped)
        record = msgspec.structs.replace(
            self._queue.record,
            cancelled=cancelled,
            begun=begun,
            stopped=stopped,
            discarded=frozenset(self._discarded),
        )
        make_private(self._record_file.parent)
        try:
            write_private(self._record_file, msgspec.json.encode(record))
        except OSError as error:
            _log.error("The run queue cannot be saved in %s: %s", self._record_file, error)


def _keep_changed(path: Path, spec: RunSpec | None) -> None:
    """Write the spec of an attempt that spreads otherwise than the one before; None: it does not."""
    with os_refused("run.folder", f"{path} cannot be written", "Make room, or move CLEW_HOME.", str(path)):
        if spec is None:
            path.unlink(missing_ok=True)  # of an attempt that left the queue before it began
        else:
            write_private(path, to_toml(spec).encode())


def _entry(tracked: TrackedRun, attempt: int) -> QueueEntry:
    spec = tracked.spec
    return QueueEntry(tracked.run, attempt, spec.devices, alone=spec.timed)


def _make_folder(path: Path, spec: RunSpec) -> RunFolder:
    """The folder of a new run with its spec, complete before its name appears."""
    folder = RunFolder(path)
    text, hint = f"The run folder {path} cannot be made", "Make room, or move CLEW_HOME."
    with os_refused("run.folder", text, hint, str(path)):
        path.mkdir(parents=True, exist_ok=True)
        write_private(folder.spec, to_toml(spec).encode())
    return folder


def read_record(path: Path) -> QueueRecord:
    """The record of the queue; an empty one when it cannot be read."""
    try:
        found: QueueRecord = from_json(path.read_bytes(), QueueRecord)
    except FileNotFoundError:
        return QueueRecord()
    except (OSError, msgspec.DecodeError) as error:
        _log.error("The run queue in %s cannot be read and starts empty: %s", path, error)
        return QueueRecord()
    return found


def write_refused(folder: RunFolder, spec: bytes, found: Problem) -> None:
    """Make the folder of a run that a job was to begin by itself and could not, with what was to be its spec and a
    sealed journal that says why. Raises ``OSError``."""
    folder.path.mkdir(parents=True, exist_ok=True)
    write_private(folder.spec, spec)
    state = State(time=time.time(), state=RunState.FAILED, reason=found.text, problem=found, exit_code=BAD_INPUT)
    with open_end(folder, 1) as writer:
        for files in final_files(folder.path):
            writer.append(files)
        writer.append(state)
        writer.seal("supervisor")
