"""The trainer's loop: blocks of steps, what is due between them, and what was asked of the run meanwhile."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from clew_agent.engine.base import TrainingEngine
from clew_agent.engine.blocks import BlockUpdates, TrainedBlock
from clew_agent.peers.members import Members
from clew_agent.trainer.checkpoints import CheckpointPlace, files_below
from clew_agent.trainer.control import ControlRequests, JobEnds, StopAsked, Superseded
from clew_agent.trainer.endings import Ending
from clew_agent.trainer.recorder import Recorder
from clew_agent.trainer.resuming import AttemptStart
from clew_agent.trainer.time_limit import Deadline, TimeIsUp, Timekeeper
from clew_agent.trainer.tracing import StepTracing
from clew_shared.base.disk_full import disk_full
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.events import Checkpoint, Diverged, Evaluation, Event, Live, Log, Points, State, Updates
from clew_shared.journal.history import JOB_ENDED
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, record_file
from clew_shared.wire.messages import DisturbCluster, Pause, SetLive, Stop, TraceSteps

SCHEMA = 1
_FRAME_BYTES = 512 * 1024
"""Values in one ``Points`` frame, well below the 1 MiB that a frame may have."""
_TICK_S = 0.05
"""Seconds between two looks at requests while a run is paused."""
_RETRY_S = 1.0
_LOOK_EVERY_S = 2.0
"""Seconds between two checks whether a later attempt has taken over the run."""


class Loop:
    """Trains ``engine`` to its end or until it is asked to stop, and records everything.

    ``start`` says where the ``attempt`` began and what it knows of earlier ones, ``timekeeper`` when the job around the
    run is over. ``peers`` are the run's other processes, ``disturb`` does what was asked of them and not refused,
    ``endings`` may end the run before its last step, ``tracing`` records what its steps do. A full disk may hold up a
    checkpoint as long as the ``recorder`` has patience.
    """

    def __init__(
        self,
        engine: TrainingEngine,
        recorder: Recorder,
        commands: ControlRequests,
        folder: RunFolder,
        *,
        attempt: int = 1,
        start: AttemptStart | None = None,
        timekeeper: Timekeeper | None = None,
        peers: Members | None = None,
        disturb: Callable[[DisturbCluster], None] | None = None,
        endings: Sequence[Ending] = (),
        tracing: StepTracing | None = None,
    ) -> None:
        start = start or AttemptStart()
        self._engine = engine
        self._course = engine.course
        self._recorder = recorder
        self._commands = commands
        self._folder = folder
        self._attempt = attempt
        self._place = CheckpointPlace(folder, attempt, start.damaged)
        self._saved = folder.checkpoints
        self._patience = recorder.patience
        self._time = timekeeper or Timekeeper(Deadline(), commands, folder.path.name, recorder.put)
        self._peers, self._disturb = peers, disturb
        self._endings = endings
        self._tracing = tracing or StepTracing(None, recorder.put)
        self._next_look = 0.0
        self._saved_at = start.step if start.checkpoint else -1
        self._waiting = deque(sorted(start.live, key=lambda change: change.step))
        self._warned = set(start.diverged)
        self._evaluable = False

    def run(self) -> State:
        """Train; returns the state in which the run ends. Raises ``ProblemError`` when the disk refuses for good."""
        try:
            return self._train()
        except StopAsked:
            if self._commands.stop is None:
                raise
            return self._stop(self._commands.stop, reachable=False)
        finally:
            self._tracing.done(self._course.step, last=True)

    def _train(self) -> State:
        course = self._course
        self._recorder.put(State(state=RunState.RUNNING, step=course.step))
        if course.step == 0:
            self._report_batch()
        while not course.done:
            self._repeat_changes()
            ended = self._obey()
            if ended is not None:
                return ended
            self._block()
            if not self._evaluable:
                self._prepare_evaluation()
            if course.evaluation_due():
                self._evaluate()
            self._take_pictures()
            if course.checkpoint_due():
                self._save()
            self._recorder.wait_for_disk(self._stop_asked)
            early = next(filter(None, (ending.reason() for ending in self._endings)), "")
            if early:
                self._take_pictures(last=True)
                return State(state=RunState.FINISHED, reason=early, step=course.step)
        refused = self._save() if self._saved_at != course.step else None
        self._take_pictures(last=True)
        if refused is not None:
            return stopped(self._commands.stop, course.step, refused)
        reason = f"Stopped early after {course.step} steps." if course.step < course.steps else ""
        return State(state=RunState.FINISHED, reason=reason, step=course.step)

    def _report_batch(self) -> None:
        asked, size = self._course.plan.batch_size, self._course.samples_per_epoch
        if asked > size:
            text = f"The batch size {asked:,} is larger than the training set: every step takes all {size:,} samples."
            self._recorder.put(Log(text=text, level="warning"))

    def _stop_asked(self) -> bool:
        self._time.look(self._course.step, self._course.steps, idle=True)
        return self._commands.stop is not None

    def _block(self) -> None:
        until = self._waiting[0].step if self._waiting else None
        for ending in self._endings:
            until = ending.begin_block(until)
        clock = self._course.clock
        until, traced = self._tracing.block(self._course.step, until)
        with traced:
            block = self._engine.run_block(until)
        for points in split(block, clock, _FRAME_BYTES):
            self._recorder.put(points)
        if block.updates is not None:
            self._recorder.put(updates_event(block.updates, clock))
        columns = dict(zip((spec.name for spec in self._course.per_step), block.values, strict=True))
        for ending in self._endings:
            ending.trained(block.first, columns)
        if block.nonfinite is not None:
            self._report_divergence(block)
        self._tracing.done(self._course.step)

    def _report_divergence(self, block: TrainedBlock) -> None:
        for spec, values in zip(self._course.per_step, block.values, strict=True):
            wrong = np.flatnonzero(~np.isfinite(values))
            if len(wrong):
                self._report_diverged(spec.name, block.first + int(wrong[0]), float(values[wrong[0]]))

    def _report_diverged(self, metric: str, step: int, value: float) -> None:
        """Records the divergence of a metric once, because every later step is the same."""
        if metric not in self._warned:
            self._warned.add(metric)
            word: Literal["NaN", "inf", "-inf"] = "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
            self._recorder.put(Diverged(metric=metric, step=step, value=word))

    def _prepare_evaluation(self) -> None:
        """Compiles evaluation and pictures after the first points and not before: anyone who waits for the curve to
        begin need not wait for this."""
        self._evaluable = True
        for what, make in (
            ("Evaluation", self._engine.compile_evaluation),
            ("Pictures", self._engine.compile_pictures),
        ):
            if seconds := make():
                self._recorder.put(Log(text=f"{what} compiled in {seconds:.2f} s.", stage="compile", seconds=seconds))

    def _evaluate(self) -> None:
        start = time.perf_counter()
        values = self._engine.evaluate()
        seconds = time.perf_counter() - start
        event = Evaluation(step=self._course.step, values=values, seconds=seconds, clock=self._course.clock)
        self._recorder.put(event)
        for ending in self._endings:
            ending.evaluated(event.step, values)
        for name, value in values.items():
            if not math.isfinite(value):
                self._report_diverged(name, self._course.step, value)

    def _take_pictures(self, *, last: bool = False) -> None:
        for event in self._engine.take_pictures(last=last):
            self._recorder.put(event)

    # Commands.

    def _repeat_changes(self) -> None:
        """Repeats what someone changed at this step in an earlier attempt, so that the same steps are done."""
        while self._waiting and self._waiting[0].step <= self._course.step:
            change = self._waiting.popleft()
            self._change(change.name, change.value)

    def _obey(self) -> State | None:
        """Carry out what was asked since the last block; waits while paused, as long as that takes.

        Returns the state in which the run ends, if it was asked to end.
        """
        paused = False
        while True:
            self._time.look(self._course.step, self._course.steps, idle=paused)
            self._look_for_successor()
            if self._peers is not None:
                self._peers.check()
            for command in self._commands.take():
                if isinstance(command, Stop):
                    return self._stop(command)
                if isinstance(command, SetLive | TraceSteps | DisturbCluster):
                    self._carry_out(command)
                elif isinstance(command, Pause) != paused:
                    paused = not paused
                    state = RunState.PAUSED if paused else RunState.RUNNING
                    reason = "Paused on request." if paused else ""
                    self._recorder.put(State(state=state, reason=reason, step=self._course.step))
            if not paused:
                return None
            time.sleep(_TICK_S)

    def _carry_out(self, command: SetLive | TraceSteps | DisturbCluster) -> None:
        if isinstance(command, SetLive):
            self._set_live(command)
        elif isinstance(command, TraceSteps):
            self._tracing.ask(command.steps)
        elif self._disturb is not None:
            self._disturb(command)

    def _set_live(self, command: SetLive) -> None:
        """Changes a live hyperparameter. A new word counts more than what was changed later on in an earlier
        attempt."""
        self._waiting = deque(change for change in self._waiting if change.name != command.name)
        self._change(command.name, command.value)

    def _change(self, name: str, value: float) -> None:
        self._course.set_live(name, value)
        self._recorder.put(Live(name=name, value=value, step=self._course.step))

    def _look_for_successor(self) -> None:
        """Looks for a later attempt of the run. On a node that was cut off a trainer may go on while its run has begun
        again elsewhere: it spoils nothing, but computes in vain."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY_S
            if self._folder.journal(self._attempt + 1).exists():
                self._commands.put(Superseded(run=self._folder.path.name))

    def _stop(self, command: Stop, *, reachable: bool = True) -> State:
        """End with a checkpoint. ``reachable`` is False while a cluster forms again: its weights are safe here, and no
        picture can be taken of them."""
        if command.now or isinstance(command, Superseded):
            return stopped(command, self._course.step)
        due = self._course.step > 0 and self._saved_at != self._course.step
        refused = self._save() if due else None
        if reachable:
            self._take_pictures(last=True)
        return stopped(command, self._course.step, refused)

    # Checkpoints.

    def _save(self) -> Problem | None:
        """Write a checkpoint, make it last, then record it. A full disk pauses the run.

        Returns what is wrong when someone who asked for the end need not wait longer; the run can stop without it.
        Raises ``ProblemError`` when the disk refuses for too long.
        """
        deadline = time.monotonic() + self._patience
        start = time.perf_counter()
        while (found := self._try_save()) is not None:
            if self._stop_asked():
                return self._unsaved(found)
            self._recorder.training_waits(found)
            if time.monotonic() > deadline:
                raise ProblemError(self._unsaved(found))
            time.sleep(min(_RETRY_S, self._patience / 10))
        self._recorder.training_goes_on()
        seconds = time.perf_counter() - start
        self._time.saved(seconds)
        self._record_checkpoint(seconds)
        return None

    def _unsaved(self, reason: str) -> Problem:
        text = (
            f"The checkpoint of step {self._course.step} could not be written: {reason}. Every step is recorded, but"
            f" the run will continue from step {max(0, self._saved_at)}."
        )
        return Problem("checkpoint.write", text, "Make room on that disk, then continue the run.")

    def _try_save(self) -> str | None:
        """Write the checkpoint under its name in one go; the reason when the disk refuses, which leaves nothing."""
        try:
            self._saved = self._place.write(self._course.step, self._engine.save)
        except Exception as error:
            found = disk_full(error)
            if found is None:
                raise
            return found
        return None

    def _record_checkpoint(self, seconds: float) -> None:
        self._saved_at = step = self._course.step
        records = tuple(record_file(self._folder.path, path) for path in files_below(self._saved))
        name = self._saved.relative_to(self._folder.path).as_posix()
        self._recorder.put(Checkpoint(step=step, folder=name, files=records, seconds=seconds))


def updates_event(updates: BlockUpdates, clock: float) -> Updates:
    """``updates`` for the journal; ``clock`` is the training clock at the beginning of their block."""
    return Updates(
        steps=updates.steps.tobytes(),
        workers=updates.workers.tobytes(),
        ended=(updates.ended + clock).astype("<f8").tobytes(),
        seconds=updates.seconds.tobytes(),
        staleness=updates.staleness.tobytes(),
        accepted=updates.accepted.tobytes(),
        moved=updates.moved,
    )


def split(block: TrainedBlock, clock: float, limit: int) -> Iterator[Points]:
    """The block as ``Points`` of at most ``limit`` bytes of values each; ``clock`` is the training clock before it.

    The parts share the block's seconds by their steps, as a reader would interpolate them.
    """
    width = sum(values.dtype.itemsize for values in block.values)
    rows = max(1, limit // max(1, width))
    for start in range(0, block.count, rows):
        stop = min(start + rows, block.count)
        yield Points(
            schema=SCHEMA,
            first=block.first + start,
            count=stop - start,
            seconds=block.seconds * (stop - start) / block.count,
            clock=clock + block.seconds * stop / block.count,
            values=tuple(_memory(values[start:stop]) for values in block.values),
        )


def _memory(column: npt.NDArray[np.floating[Any]]) -> bytes:
    """The column's own bytes, little-endian: the journal writes them from where they lie, without a copy."""
    ordered = np.ascontiguousarray(column, column.dtype.newbyteorder("<"))
    return cast("bytes", ordered.data.cast("B"))


def measure(events: Iterator[Event | None], recorder: Recorder, asked: Callable[[], Stop | None]) -> State:
    """Record what a measurement yields, to its end or until it is ``asked`` to end; returns the state in which it
    does."""
    recorder.put(State(state=RunState.RUNNING))
    for event in events:
        if event is not None:
            recorder.put(event)
        recorder.wait_for_disk(lambda: asked() is not None)
        if (command := asked()) is not None:
            return stopped(command, 0)
    return State(state=RunState.FINISHED)


def stopped(command: Stop | None, step: int, refused: Problem | None = None) -> State:
    """The state in which ``command`` ends a run after ``step`` updates; ``refused``: why nothing could be saved."""
    state = RunState.TIMED_OUT if isinstance(command, TimeIsUp) else RunState.STOPPED
    if refused is not None:
        reason = refused.text
    elif isinstance(command, TimeIsUp):
        reason = "The job's time was up. The run can be continued in another job."
    elif isinstance(command, JobEnds):
        reason = JOB_ENDED
    elif isinstance(command, Superseded):
        reason = "A later attempt continues this run elsewhere."
    else:
        reason = "Stopped at once." if command is not None and command.now else "Stopped on request."
    return State(state=state, reason=reason, step=step, problem=refused)
