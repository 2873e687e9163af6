"""The trainer: one process for one attempt of a run. It checks, builds, trains, and writes the journal.

The journal exists before TensorFlow is imported, so that a student sees something at once. All that goes wrong becomes
the run's last state; the guard, its parent, covers only a death without a word.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from clew_agent.catalogue.examine import find_exercise
from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, find_search
from clew_agent.engine.base import TrainingEngine
from clew_agent.node import operating_system
from clew_agent.node.allocation import read_allocation
from clew_agent.node.devices import find_devices
from clew_agent.node.exit_codes import BAD_INPUT, FAILED, STOPPED, TAKEN, UNWRITTEN, exit_code_for
from clew_agent.node.host import cores, processor
from clew_agent.node.lean_import import lean_import
from clew_agent.peers.hosts import read_hosts
from clew_agent.peers.messages import CHIEF, Cluster, Index
from clew_agent.peers.peer import tf_config
from clew_agent.peers.processes import TENSORFLOW_OF_SEVERAL, peer_command
from clew_agent.peers.roll_call import Peers
from clew_agent.strategies import registry
from clew_agent.strategies.cluster_settings import ParameterServerSettings
from clew_agent.strategies.registry import Role
from clew_agent.trainer import checkpoints, compile_cache
from clew_agent.trainer.cluster import ClusterRun
from clew_agent.trainer.control import Command, Control, ControlRequests, JobEnds, StopAsked, TimeIsUp
from clew_agent.trainer.deadline import Deadline
from clew_agent.trainer.first_frame import describe_attempt, find_script, quick_card
from clew_agent.trainer.loop import SCHEMA, Loop, measure, stopped
from clew_agent.trainer.pruning import EarlyEnd
from clew_agent.trainer.recorder import PATIENCE_S, Recorder, Reserve
from clew_agent.trainer.resuming import AttemptStart
from clew_agent.trainer.spec_check import combine, data_name, misfits, recorded_revision
from clew_agent.trainer.time_limit import Timekeeper, in_words
from clew_shared.base.harmless import log_to, say
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.events import Event, Log, Predicted, Schema, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.history import no_tensorflow
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.params import Params, build, convert
from clew_shared.params import check as check_params
from clew_shared.spec import RunSpec, read_spec
from clew_shared.study.study import is_timed
from clew_shared.wire.messages import DisturbCluster, Pause, SetLive, Stop

if TYPE_CHECKING:
    from clew_agent.catalogue.examine import AnyExercise

LoadData = Callable[[str, Search], DataSet]
"""Loads the set with a data set's name or path, and where to look."""

T = TypeVar("T")
EventT = TypeVar("EventT", bound=Event)
_log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """``clew-agent trainer RUN_FOLDER --attempt N``: returns the exit code for how the run ended."""
    parser = argparse.ArgumentParser(prog="clew-agent trainer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--exercises", type=Path)
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds that a full disk may last")
    options = parser.parse_args(argv)
    prepare_process()
    folder = RunFolder(options.folder.absolute())
    return train(folder, options.attempt, options.exercises, options.patience)


def prepare_process() -> None:
    """Make a process a trainer: it logs, a crash shows its stack, and when memory runs out it goes before its guard."""
    faulthandler.enable()
    operating_system.end_before_others()
    log_to(None, logging.WARNING, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("clew_agent").setLevel(logging.INFO)


def train(
    folder: RunFolder,
    attempt: int,
    exercises: Path | None = None,
    patience: float = PATIENCE_S,
    load_data: LoadData = load,
) -> int:
    """Run the attempt from its first frame to its seal; returns the exit code. ``load_data`` reads its data set."""
    try:
        writer = JournalWriter.create(folder.journal(attempt))
    except FileExistsError:
        return TAKEN  # without a word: what is printed goes into the other one's log, maybe after its end
    except OSError as error:
        say(f"clew-agent trainer: cannot begin the journal: {error}", sys.stderr)
        return FAILED
    commands, deadline = ControlRequests(), Deadline.of(read_allocation())
    recorder = Recorder(writer, Reserve(checkpoints.reserve(folder, attempt)), patience=patience)
    recorder.start()
    with _stop_signals(folder.path.name, commands, deadline):
        timekeeper = Timekeeper(deadline, commands, folder.path.name, recorder.put)
        last = _Attempt(folder, attempt, exercises, recorder, commands, patience, load_data, timekeeper).run()
        return finish(folder, attempt, recorder, last)


@contextmanager
def _stop_signals(run: str, commands: ControlRequests, deadline: Deadline) -> Iterator[None]:
    """Sets up the signals: the first one stops after the block, with a checkpoint; a second Ctrl+C at once, and the
    guard seals.

    In a job SIGTERM comes from the scheduler or the keeper: its time is up, or someone cancelled it.
    """

    def note(number: int) -> None:
        if commands.stop is not None and number == signal.SIGINT:
            operating_system.exit_at_once(STOPPED)
        if number != signal.SIGINT and deadline.asks():
            commands.put(TimeIsUp(run=run))
        else:
            commands.put(JobEnds(run=run) if number == signal.SIGTERM and deadline.in_job else Stop(run=run))

    with operating_system.stop_requests(note):
        yield


def finish(folder: RunFolder, attempt: int, recorder: Recorder, last: State) -> int:
    """Record the files, the ``last`` state and the seal; returns the exit code.

    When the disk refuses even that, the journal stays unsealed, and the guard tries again.
    """
    sys.stdout.flush()
    writer = recorder.close()
    if recorder.failure is not None:
        last = _failed(recorder.failure, min(last.step, recorder.step))
        say(str(recorder.failure), sys.stderr)
    if not folder.journal(attempt).exists():
        last = _failed(_removed(folder), last.step)
    operating_system.silence()
    fold = RunFold()
    with writer:
        try:
            for files in final_files(folder.path, recorder.files if attempt == 1 else None):
                writer.append(_now(files))
            writer.append(_now(last))
            writer.seal("trainer")
        except OSError:
            return UNWRITTEN
    fold.feed(attempt, last)
    return exit_code_for(fold)


def _removed(folder: RunFolder) -> Problem:
    """Says that a script or a person deleted the folder during the run: no viewer may believe that it is kept."""
    text = f"The run's folder {folder.path} was removed while it trained, so nothing of the run is kept."
    return Problem("run.removed", text, "Find out what removed it, and start the run again.", str(folder.path))


def _now(event: EventT) -> EventT:
    return msgspec.structs.replace(event, time=time.time())


def _failed(found: Problem, step: int, exit_code: int = FAILED) -> State:
    return State(state=RunState.FAILED, reason=found.text, step=step, problem=found, exit_code=exit_code)


class _Attempt:
    """An attempt between its first frame and its last state."""

    def __init__(
        self,
        folder: RunFolder,
        attempt: int,
        exercises: Path | None,
        recorder: Recorder,
        commands: ControlRequests,
        patience: float,
        load_data: LoadData,
        timekeeper: Timekeeper,
    ) -> None:
        self._folder = folder
        self._attempt = attempt
        self._exercises = exercises
        self._recorder = recorder
        self._commands = commands
        self._patience = patience
        self._load_data = load_data
        self._time = timekeeper
        self._card: ExerciseCard | None = None
        self._sharing = 0
        """Replicas that are parts of this node's processor, as far as there are several."""
        self._engine: TrainingEngine | None = None
        self._script_step = 0
        self._trained = False
        self._clock = ClockWatch()
        self._peers: Peers | None = None
        self._cluster: ClusterRun | None = None

    def run(self) -> State:
        """Everything up to the last state, which is returned. This is the process's border: nothing is raised."""
        try:
            return self._run()
        except StopAsked:
            return _stopped_early(self._commands.stop, self._step)
        except ProblemError as error:
            refused = not self._trained and self._peers is None
            return _failed(combine(error.problems), self._step, BAD_INPUT if refused else FAILED)
        except BaseException as error:  # noqa: BLE001  # whatever an exercise or TensorFlow raises ends as a state
            traceback.print_exc()
            lost = self._peers.reason(type(error).__name__ in _UNREACHABLE) if self._peers is not None else None
            found = lost or crash(error, self._step, self._clock.jump() if self._peers is not None else 0.0)
            return _failed(found, self._step)
        finally:
            if self._peers is not None:
                self._peers.close()

    @property
    def _step(self) -> int:
        return self._engine.course.step if self._engine is not None else self._script_step

    def _run(self) -> State:
        spec, complaint = self._read_spec()
        first, start = describe_attempt(self._folder, self._attempt, spec, self._exercises)
        self._recorder.put(first)
        if spec.prediction is not None and not start.resumes:
            drawn = spec.prediction
            self._recorder.put(Predicted(metric=drawn.metric, steps=drawn.steps, values=drawn.values))
        self._recorder.put(State(state=RunState.STARTING, step=start.step))
        if complaint is not None:
            raise complaint
        if start.resumes:
            self._record_start(start)
        control = self._listen(first.run)
        try:
            return self._train(spec, start)
        finally:
            if control is not None:
                control.close()

    def _read_spec(self) -> tuple[RunSpec, ProblemError | None]:
        try:
            return read_spec(self._folder.spec_of(self._attempt)), None
        except ProblemError as error:
            return RunSpec(exercise=""), error

    def _record_start(self, start: AttemptStart) -> None:
        for folder in start.damaged:
            text = f"The checkpoint {folder} has changed since it was recorded and is not used."
            self._recorder.put(Log(text=text, level="warning"))
        if start.checkpoint:
            self._recorder.put(Log(text=f"Continues from the checkpoint of step {start.step}.", step=start.step))
        else:
            self._recorder.put(Log(text="No checkpoint to continue from: starts again at step 0.", level="warning"))

    def _listen(self, run: str) -> Control | None:
        """Opens the control channel. A machine where it cannot be opened can train all the same."""
        control = Control(find_places(), run, self._attempt, self._commands, self._check)
        try:
            control.start()
        except (ProblemError, OSError) as error:
            self._recorder.put(Log(text=f"This run cannot be controlled while it trains: {error}", level="warning"))
            control.close()
            return None
        return control

    def _check(self, command: Command) -> Problem | None:
        """Says why a command cannot be carried out; called in the control thread."""
        if isinstance(command, DisturbCluster):
            return self._cluster.refuses(command) if self._cluster is not None else _NO_CLUSTER
        if isinstance(command, Pause) and self._card is not None and self._card.kind == "script":
            return _NO_PAUSE
        if not isinstance(command, SetLive):
            return None
        specs = self._card.params if self._card is not None else ()
        live = next((spec for spec in specs if spec.name == command.name and spec.live), None)
        if live is None:
            known = ", ".join(spec.name for spec in specs if spec.live) or "none"
            text = f"{command.name!r} cannot be changed while the run trains."
            return Problem("live.unknown", text, f"Live values: {known}.", command.name)
        return convert(live, command.value)[1]

    # Preparing.

    def _train(self, spec: RunSpec, start: AttemptStart) -> State:
        """Check, load and build in the order in which a refusal costs least, then train."""
        search = find_search(find_places())
        revision = recorded_revision(self._folder, start.resumes)
        self._card = card = quick_card(spec.exercise, self._exercises)
        if card is not None:
            raise_all(misfits(spec, card, search, revision=revision))
        self._go_on()
        self._recorder.put(State(state=RunState.PREPARING, step=start.step))
        if card is not None and card.kind == "script":
            return self._script(spec, start)
        roles = registry.entry(spec.strategy).roles(spec)
        if roles:
            self._start_peers(1 + len(roles), roles)
        elif spec.nodes > 1:
            raise_all(_too_many_devices(spec))
            self._start_peers(spec.nodes)
        data = self._data(data_name(spec, card)) if card is not None else None
        exercise, self._card = self._staged("import", lambda: self._import(spec))
        raise_all(misfits(spec, self._card, search, revision=revision))
        if data is None:
            data = self._data(data_name(spec, self._card))
        if exercise.kind == "measurement":
            return self._measure(exercise, spec, data)
        return self._loop(self._build(exercise, spec, data, start), start, spec)

    def _start_peers(self, count: int, roles: Sequence[Role] = ()) -> None:
        for name, value in TENSORFLOW_OF_SEVERAL.items():
            os.environ.setdefault(name, value)

        def command(index: Index, port: int) -> list[str]:
            return peer_command(self._folder.path, self._attempt, index, self._exercises, port)

        self._peers = Peers(
            self._folder,
            self._attempt,
            count,
            read_hosts(),
            find_places(),
            self._recorder.put,
            self._end_stuck,
            command=command,
            roles=roles,
        )
        self._peers.start()

    def _end_stuck(self, found: Problem) -> None:
        """Ends this process when a peer is lost and TensorFlow does not come back from a step with it: the guard does
        what is left."""
        try:
            self._recorder.put_last(_failed(found, self._step))
        finally:
            operating_system.exit_at_once(FAILED)

    def _go_on(self) -> None:
        self._time.look()
        if self._commands.stop is not None:
            raise StopAsked

    def _staged(self, stage: str, work: Callable[[], T], sentence: Callable[[T], str] = lambda _: "") -> T:
        """Do ``work`` and record what it took; ``sentence`` makes one from its result."""
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        text = sentence(result) or f"{_STAGES[stage]} in {seconds:.2f} s."
        self._recorder.put(Log(text=text, stage=stage, seconds=seconds))
        self._go_on()
        return result

    def _import(self, spec: RunSpec) -> tuple[AnyExercise, ExerciseCard]:
        try:
            with lean_import():
                from clew_agent.training.runtime import configure, share_gpus
        except ImportError as error:
            traceback.print_exc()
            raise ProblemError(
                no_tensorflow(operating_system.host_name(), str(error), bool(read_allocation().job))
            ) from None

        compile_cache.prepare(find_places())
        if registry.entry(spec.strategy).roles(spec):
            share_gpus(None)  # workers may be on this node, and need the memory of its GPUs
        configure(devices=spec.devices, precision=spec.precision)
        return find_exercise(spec.exercise, self._exercises, self._card)

    def _data(self, name: str) -> DataSet | None:
        if not name:
            return None
        data = self._staged("data", lambda: self._load_data(name, find_search(find_places())), _data_text)
        for note in data.notes:
            self._recorder.put(Log(text=note, stage="data"))
        return data

    def _build(self, exercise: AnyExercise, spec: RunSpec, data: DataSet | None, start: AttemptStart) -> TrainingEngine:
        from clew_agent.strategies.multi_worker import CLUSTER
        from clew_agent.training.engine import Engine
        from clew_agent.training.runtime import run_operations_plainly

        settings, peers = build(exercise.Settings, spec.params), self._peers
        if registry.entry(spec.strategy).on_servers:
            return self._build_on_cluster(exercise, settings, spec, data, start)
        if peers is not None:
            workers = self._staged("peers", lambda: peers.gather(self._go_on), _workers_text)
            os.environ[CLUSTER] = tf_config(workers, CHIEF)
            peers.send(Cluster(workers=workers, restore=start.checkpoint))
        strategy = registry.make_strategy(spec.strategy, spec.devices, spec.options, spec.nodes)
        if peers is not None:
            peers.release_port()
        run_operations_plainly()
        lead = peers.lead if peers is not None else None
        make = partial(
            Engine, exercise, settings, spec.seed, data, strategy=strategy, precision=spec.precision, lead=lead
        )
        engine = self._staged("build", make)
        if engine.logical_devices:
            self._sharing = spec.devices * (peers.together if peers is not None else 1)
        self._record_devices()
        return self._ready(engine, start, is_timed(spec))

    def _build_on_cluster(
        self, exercise: AnyExercise, settings: Params, spec: RunSpec, data: DataSet | None, start: AttemptStart
    ) -> TrainingEngine:
        from clew_agent.training.servers.engine import ServerEngine

        options, peers = build(ParameterServerSettings, spec.options), self._peers
        if peers is not None:
            self._staged("peers", lambda: peers.gather(self._go_on), _workers_text)
        run = ClusterRun(options, peers, self._recorder.put, self._go_on)
        cluster = self._staged("cluster", run.form)
        make = partial(
            ServerEngine,
            exercise,
            settings,
            spec.seed,
            data,
            cluster=cluster,
            clusters=run,
            precision=spec.precision,
        )
        engine = self._staged("build", make)
        self._cluster = run
        return self._ready(engine, start)

    def _ready(self, engine: TrainingEngine, start: AttemptStart, timed: bool = False) -> TrainingEngine:
        self._staged("compile", engine.compile)
        if timed:
            engine.measure_parts()
        cache = compile_cache.in_use(find_places())
        if cache is not None:
            compile_cache.vouch(cache)
        if start.checkpoint:
            self._staged("restore", lambda: engine.restore(self._folder.path / start.checkpoint))
        self._engine = engine
        return engine

    def _record_devices(self) -> None:
        """Records that several devices of one processor share its cores: that must be known before anyone compares
        times."""
        if self._sharing > 1:
            text = (
                f"There are no GPUs for {self._sharing} devices. They are parts of one processor and share"
                f" {processor()}: no speed-up is to be expected."
            )
            self._recorder.put(Log(text=text))

    def _measure(self, exercise: AnyExercise, spec: RunSpec, data: DataSet | None) -> State:
        from clew_agent.training.exercise import Measurement, Setup

        if not isinstance(exercise, Measurement):
            text = f"{exercise.id} says that it measures, but is not a Measurement."
            raise ProblemError(Problem("exercise.kind", text, "Derive it from Measurement."))
        setup = Setup(build(exercise.Settings, spec.params), spec.seed, data)
        self._trained = True
        return measure(exercise.measure(setup), self._recorder, self._asked)

    def _script(self, spec: RunSpec, start: AttemptStart) -> State:
        from clew_agent.trainer.script_run import run_script  # late: it needs NumPy, as no other run does so early

        if start.resumes:
            raise ProblemError(_NO_CHECKPOINT)
        script = find_script(spec.exercise, self._exercises) if self._exercises is not None else None
        if script is None:
            text = f"The script of {spec.exercise!r} has changed since the run was started."
            raise ProblemError(Problem("script.changed", text, "Start the run again.", spec.exercise))
        values, problems = check_params(script.card.params, spec.params)
        raise_all(problems)
        self._trained = True

        def asked(step: int) -> Stop | None:
            self._script_step = step
            return self._asked()

        return run_script(script, values, spec.seed, self._folder, self._attempt, self._recorder, asked)

    def _asked(self) -> Stop | None:
        self._time.look()
        return self._commands.stop

    def _early_end(self, spec: RunSpec, engine: TrainingEngine) -> EarlyEnd | None:
        card, pruning = self._card, spec.pruning
        metric = next((one for one in card.metrics if pruning and one.name == pruning.metric), None) if card else None
        if pruning is None or metric is None:
            return None
        higher, steps = metric.better == "higher", engine.course.steps
        return EarlyEnd(self._folder, spec, pruning, higher=higher, per_step=metric.per_step, steps=steps)

    def _loop(self, engine: TrainingEngine, start: AttemptStart, spec: RunSpec) -> State:
        card = self._card
        later = tuple(metric for metric in card.metrics if not metric.per_step) if card is not None else ()
        course = engine.course
        schema = Schema(
            id=SCHEMA,
            metrics=course.per_step + later,
            batch_size=course.samples_per_step,
            samples_per_epoch=course.samples_per_epoch,
            steps=course.steps,
            replicas=engine.replicas,
            reduced_bytes=engine.reduced_bytes,
            shared_cores=cores() if self._sharing > 1 else 0,
            input_seconds=engine.parts.input_seconds,
            reduce_seconds=engine.parts.reduce_seconds,
        )
        self._recorder.put(schema)
        self._trained = True
        saved_at = start.step if start.checkpoint else -1
        loop = Loop(
            engine,
            self._recorder,
            self._commands,
            self._folder,
            attempt=self._attempt,
            saved_at=saved_at,
            live=start.live,
            diverged=start.diverged,
            damaged=start.damaged,
            patience=self._patience,
            timekeeper=self._time,
            check=self._peers.check if self._peers is not None else lambda: None,
            disturb=self._cluster.disturb if self._cluster is not None else lambda _: None,
            early_end=self._early_end(spec, engine),
            rate_range=spec.rate_range,
        )
        return loop.run()


def _stopped_early(command: Stop | None, step: int) -> State:
    last = stopped(command, step)
    known = last.state is RunState.TIMED_OUT or isinstance(command, JobEnds)
    reason = last.reason if known else "Stopped before the first step."
    return msgspec.structs.replace(last, reason=reason)


_NO_CLUSTER = Problem("cluster.none", "This run has no parameter-server cluster that trains.", "", "run")
_NO_PAUSE = Problem("script.pause", "A training script cannot be paused.", "Stop it, or let it run.", "run")
_NO_CHECKPOINT = Problem(
    "script.continue",
    "A training script cannot go on where it ended: Clew has no checkpoint of it.",
    "Start a new run.",
    "run",
)
_STAGES = {
    "cluster": "TensorFlow's cluster formed",
    "peers": "All processes joined",
    "import": "TensorFlow and the exercise imported",
    "data": "Data read",
    "build": "Model built",
    "compile": "Steps compiled",
    "restore": "Checkpoint restored",
}
_NAMED = 8
"""Number of addresses that one sentence names."""
_UNREACHABLE = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")
"""The errors that TensorFlow raises in a step when another process of the run is gone."""
_JUMP_S = 30.0
"""Seconds: a clock that was set by less makes none of TensorFlow's time limits pass."""
_OUT_OF_MEMORY = ("ResourceExhaustedError", "MemoryError")


def _too_many_devices(spec: RunSpec) -> list[Problem]:
    """Says that a process without GPUs is one device, because TensorFlow has one replica on a processor; empty when
    that fits."""
    if spec.devices <= max(1, len(find_devices(1).gpus)):
        return []
    text = f"Without {spec.devices} GPUs a node takes part with one device, not with {spec.devices}."
    hint = "Choose 1 device, or the strategy mirrored on one node."
    return [Problem("spec.devices", text, hint, "devices")]


def _workers_text(workers: Sequence[str]) -> str:
    shown = ", ".join(workers[:_NAMED]) + (", …" if len(workers) > _NAMED else "")
    return f"All {len(workers)} processes joined: {shown}."


def _data_text(data: DataSet | None) -> str:
    if data is None:
        return ""
    counts = f"{len(data.train):,} training, {len(data.validation):,} validation and {len(data.test):,} test images"
    return f"Data set {data.name} from {data.source} (SHA-256 {data.sha256}): {counts}."


class ClockWatch:
    """Measures how far the computer's clock was set since this was made: TensorFlow's processes time each other by
    it."""

    def __init__(self) -> None:
        self._difference = time.time() - time.monotonic()

    def jump(self) -> float:
        """Returns by how many seconds the clock was set; positive when it was set ahead."""
        return time.time() - time.monotonic() - self._difference


def crash(error: BaseException, step: int, clock_jump: float = 0.0) -> Problem:
    """Says what an unforeseen exception means for the run; the traceback is in its log. ``clock_jump``: by how many
    seconds the clock was set while a run of several processes trained."""
    name = type(error).__name__
    if name in _UNREACHABLE and abs(clock_jump) > _JUMP_S:
        way = "ahead" if clock_jump > 0 else "back"
        text = (
            f"The clock of {operating_system.host_name()} was set {way} by {in_words(abs(clock_jump))} while the run"
            f" trained, so at step {step:,} TensorFlow took its other processes for dead ({name})."
        )
        return Problem("run.clock", text, "Continue the run from its last checkpoint.", operating_system.host_name())
    text = f"{name} at step {step}: {str(error).strip()[:500] or 'no message'}"
    if name in _OUT_OF_MEMORY:
        return Problem("run.memory", text, "Choose a smaller batch size or model, or ask for more memory.", "log.txt")
    return Problem("run.error", text, "The whole traceback is in log.txt.", "log.txt")
