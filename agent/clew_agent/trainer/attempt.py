"""One attempt of a run, between its first frame and its last state, in four stages: describe what it is, prepare what
it needs, build its engine, train. Each stage takes what the one before it found.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clew_agent.catalogue.examine import find_exercise
from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, find_search
from clew_agent.engine.base import TrainingEngine
from clew_agent.node.allocation import read_allocation
from clew_agent.node.devices import find_devices, unseen
from clew_agent.node.exit_codes import BAD_INPUT, FAILED
from clew_agent.node.host import processor
from clew_agent.node.lean_import import lean_import
from clew_agent.peers.hosts import read_hosts
from clew_agent.peers.messages import CHIEF, Cluster
from clew_agent.peers.peer import tf_config
from clew_agent.peers.processes import StartPeer, prepare_for_several, spawn
from clew_agent.peers.roll_call import Peers
from clew_agent.strategies import registry
from clew_agent.strategies.cluster_settings import ParameterServerSettings
from clew_agent.trainer import compile_cache
from clew_agent.trainer.cluster import ClusterRun, InStep, unreachable
from clew_agent.trainer.control import Command, Control, ControlRequests, StopAsked
from clew_agent.trainer.endings import endings
from clew_agent.trainer.failures import ClockWatch, crash, failed, stopped_early
from clew_agent.trainer.first_frame import describe_attempt, find_script, quick_card
from clew_agent.trainer.loop import SCHEMA, Loop, Processes, measure
from clew_agent.trainer.recorder import Recorder
from clew_agent.trainer.resuming import AttemptStart
from clew_agent.trainer.spec_check import combine, data_name, misfits, recorded_revision
from clew_agent.trainer.time_limit import Timekeeper
from clew_agent.trainer.tracing import StepProfiler, StepTracing
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, no_tensorflow, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.events import Log, Predicted, Schema, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import build, convert
from clew_shared.params import check as check_params
from clew_shared.spec import RunSpec, check_trace, read_spec, untraceable
from clew_shared.wire.messages import DisturbCluster, Pause, SetLive, Stop, TraceSteps

if TYPE_CHECKING:
    from clew_agent.catalogue.examine import AnyExercise

LoadData = Callable[[str, Search], DataSet]
"""Loads the set with a data set's name or path, and where to look."""

T = TypeVar("T")
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


@dataclass(frozen=True)
class Task:
    """What an attempt is to do, when all is there that it needs. ``exercise`` is None for a training script."""

    spec: RunSpec
    start: AttemptStart
    card: ExerciseCard
    exercise: AnyExercise | None = None
    data: DataSet | None = None


class RunAttempt:
    """One attempt. ``load_data`` reads its data set, ``start_peer`` starts its peers on this node; ``exercises`` is a
    folder with exercises of one's own."""

    def __init__(
        self,
        folder: RunFolder,
        attempt: int,
        recorder: Recorder,
        commands: ControlRequests,
        timekeeper: Timekeeper,
        exercises: Path | None = None,
        load_data: LoadData = load,
        start_peer: StartPeer = spawn,
    ) -> None:
        self._folder, self._attempt = folder, attempt
        self._recorder = recorder
        self._commands = commands
        self._time = timekeeper
        self._exercises = exercises
        self._load_data, self._start_peer = load_data, start_peer
        self._card: ExerciseCard | None = None
        self._engine: TrainingEngine | None = None
        self._script_step = 0
        self._trained = False
        self._clock = ClockWatch()
        self._peers: Peers | None = None
        self._processes: Processes = InStep()

    def run(self) -> State:
        """Everything up to the last state, which is returned. This is the process's border: nothing is raised."""
        try:
            return self._run()
        except StopAsked:
            return stopped_early(self._commands.stop, self._step)
        except ProblemError as error:
            refused = not self._trained and self._peers is None
            return failed(combine(error.problems), self._step, BAD_INPUT if refused else FAILED)
        except BaseException as error:  # noqa: BLE001  # whatever an exercise or TensorFlow raises ends as a state
            traceback.print_exc()
            lost = self._peers.reason(unreachable(error)) if self._peers is not None else None
            found = lost or crash(error, self._step, self._clock.jump() if self._peers is not None else 0.0)
            return failed(found, self._step)
        finally:
            if self._peers is not None:
                self._peers.close()

    def _run(self) -> State:
        spec, start = self._describe()
        with self._controlled(spec):
            task = self._prepare(spec, start)
            if task.exercise is None:
                return self._run_script(task)
            if task.exercise.kind == "measurement":
                return self._measure(task, task.exercise)
            self._engine = self._build(task, task.exercise)
            return self._train(task, self._engine)

    # 1. Describe: the first frames, before anything is checked or loaded.

    def _describe(self) -> tuple[RunSpec, AttemptStart]:
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
        return spec, start

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

    # 2. Prepare: check, load and import in the order in which a refusal costs least.

    def _prepare(self, spec: RunSpec, start: AttemptStart) -> Task:
        search = find_search(find_places())
        revision = recorded_revision(self._folder, start.resumes)
        self._card = card = quick_card(spec.exercise, self._exercises)
        if card is not None:
            raise_all(misfits(spec, card, search, revision=revision))
        self._go_on()
        self._recorder.put(State(state=RunState.PREPARING, step=start.step))
        if card is not None and card.kind == "script":
            return Task(spec, start, card)
        self._start_peers(spec)
        data = self._data(data_name(spec, card)) if card is not None else None
        exercise, self._card = self._staged("import", lambda: self._import(spec))
        raise_all(misfits(spec, self._card, search, revision=revision))
        if data is None:
            data = self._data(data_name(spec, self._card))
        return Task(spec, start, self._card, exercise, data)

    def _start_peers(self, spec: RunSpec) -> None:
        """Starts the run's other processes, if it has any: they import TensorFlow while this one does."""
        roles = registry.entry(spec.strategy).roles(spec)
        if not roles and spec.nodes == 1:
            return
        if not roles:
            raise_all(_too_many_devices(spec))
        prepare_for_several()
        self._peers = Peers(
            self._folder,
            self._attempt,
            1 + len(roles) if roles else spec.nodes,
            read_hosts(),
            find_places(),
            self._recorder.put,
            self._end_stuck,
            exercises=self._exercises,
            start_here=self._start_peer,
            roles=roles,
        )
        self._peers.start()

    def _end_stuck(self, found: Problem) -> None:
        """Ends this process when a peer is lost and TensorFlow does not come back from a step with it: the guard does
        what is left."""
        try:
            self._recorder.put_last(failed(found, self._step))
        finally:
            operating_system.exit_at_once(FAILED)

    def _data(self, name: str) -> DataSet | None:
        if not name:
            return None
        data = self._staged("data", lambda: self._load_data(name, find_search(find_places())), _data_text)
        for note in data.notes:
            self._recorder.put(Log(text=note, stage="data"))
        return data

    def _import(self, spec: RunSpec) -> tuple[AnyExercise, ExerciseCard]:
        try:
            with lean_import():
                from clew_agent.training.runtime import configure, seen_gpus, share_gpus
        except ImportError as error:
            traceback.print_exc()
            raise ProblemError(
                no_tensorflow(operating_system.host_name(), str(error), bool(read_allocation().job))
            ) from None

        compile_cache.prepare(find_places())
        if registry.entry(spec.strategy).roles(spec):
            share_gpus(None)  # workers may be on this node, and need the memory of its GPUs
        configure(devices=spec.devices, precision=spec.precision)
        missing = unseen(find_devices(1), seen_gpus())
        if missing:
            self._recorder.put(Log(text=missing, level="warning"))
        return find_exercise(spec.exercise, self._exercises, self._card)

    # 3. Build: the engine that the strategy needs, compiled and where its checkpoint was.

    def _build(self, task: Task, exercise: AnyExercise) -> TrainingEngine:
        servers = registry.entry(task.spec.strategy).on_servers
        engine = (self._build_on_servers if servers else self._build_in_step)(task, exercise)
        self._record_devices(task.spec, engine)
        self._staged("compile", engine.compile)
        if task.spec.timed:
            engine.measure_parts()
        cache = compile_cache.in_use(find_places())
        if cache is not None:
            compile_cache.vouch(cache)
        if task.start.checkpoint:
            self._staged("restore", lambda: engine.restore(self._folder.path / task.start.checkpoint))
        return engine

    def _build_in_step(self, task: Task, exercise: AnyExercise) -> TrainingEngine:
        from clew_agent.strategies.multi_worker import CLUSTER
        from clew_agent.training.engine import Engine
        from clew_agent.training.runtime import run_operations_plainly

        spec, peers = task.spec, self._peers
        settings = build(exercise.Settings, spec.params)
        if peers is not None:
            workers = self._staged("peers", lambda: peers.gather(self._go_on), _workers_text)
            os.environ[CLUSTER] = tf_config(workers, CHIEF)
            peers.send(Cluster(workers=workers, restore=task.start.checkpoint))
        strategy = registry.make_strategy(spec.strategy, spec.devices, spec.options, spec.nodes)
        if peers is not None:
            peers.release_port()
        run_operations_plainly()
        self._processes = InStep(peers)
        lead = peers.lead if peers is not None else None
        make = partial(Engine, exercise, settings, spec.seed, task.data, strategy=strategy, precision=spec.precision)
        return self._staged("build", partial(make, lead=lead))

    def _build_on_servers(self, task: Task, exercise: AnyExercise) -> TrainingEngine:
        from clew_agent.training.servers.engine import ServerEngine

        spec, peers = task.spec, self._peers
        settings = build(exercise.Settings, spec.params)
        if peers is not None:
            self._staged("peers", lambda: peers.gather(self._go_on), _workers_text)
        run = ClusterRun(build(ParameterServerSettings, spec.options), peers, self._recorder.put, self._go_on)
        cluster = self._staged("cluster", run.form)
        make = partial(ServerEngine, exercise, settings, spec.seed, task.data, precision=spec.precision)
        engine = self._staged("build", partial(make, cluster=cluster, clusters=run))
        self._processes = run
        return engine

    def _record_devices(self, spec: RunSpec, engine: TrainingEngine) -> None:
        """Records that several devices of one processor share its cores: that must be known before anyone compares
        times."""
        sharing = self._sharing(spec, engine)
        if sharing > 1:
            text = (
                f"There are no GPUs for {sharing} devices. They are parts of one processor and share {processor()}:"
                " no speed-up is to be expected."
            )
            self._recorder.put(Log(text=text))

    def _sharing(self, spec: RunSpec, engine: TrainingEngine) -> int:
        """Returns how many replicas are parts of this node's processor, as far as there are several."""
        together = self._peers.together if self._peers is not None else 1
        return spec.devices * together if engine.logical_devices else 0

    # 4. Train.

    def _train(self, task: Task, engine: TrainingEngine) -> State:
        course = engine.course
        schema = Schema(
            id=SCHEMA,
            metrics=course.per_step + tuple(metric for metric in task.card.metrics if not metric.per_step),
            batch_size=course.samples_per_step,
            samples_per_epoch=course.samples_per_epoch,
            steps=course.steps,
            replicas=engine.replicas,
            reduced_bytes=engine.reduced_bytes,
            shared_cores=operating_system.usable_cores() if self._sharing(task.spec, engine) > 1 else 0,
            input_seconds=engine.parts.input_seconds,
            reduce_seconds=engine.parts.reduce_seconds,
            image_bytes=engine.parts.image_bytes,
        )
        self._recorder.put(schema)
        self._trained = True
        loop = Loop(
            engine,
            self._recorder,
            self._commands,
            self._folder,
            attempt=self._attempt,
            start=task.start,
            timekeeper=self._time,
            processes=self._processes,
            endings=endings(self._folder, task.spec, task.card.metrics, course),
            tracing=self._tracing(task),
        )
        return loop.run()

    def _tracing(self, task: Task) -> StepTracing | None:
        if untraceable(task.spec, task.card) is not None:
            return None
        return StepTracing(_profiler, self._recorder.put, 0 if task.start.resumes else task.spec.trace)

    def _measure(self, task: Task, exercise: AnyExercise) -> State:
        from clew_agent.training.exercise import Measurement, Setup

        if not isinstance(exercise, Measurement):
            text = f"{exercise.id} says that it measures, but is not a Measurement."
            raise ProblemError(Problem("exercise.kind", text, "Derive it from Measurement."))
        setup = Setup(build(exercise.Settings, task.spec.params), task.spec.seed, task.data)
        self._trained = True
        return measure(exercise.measure(setup), self._recorder, self._asked)

    def _run_script(self, task: Task) -> State:
        from clew_agent.trainer.script_run import run_script  # late: it needs NumPy, as no other run does so early

        spec = task.spec
        if task.start.resumes:
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

    # In all stages.

    @property
    def _step(self) -> int:
        return self._engine.course.step if self._engine is not None else self._script_step

    def _asked(self) -> Stop | None:
        self._time.look()
        return self._commands.stop

    def _go_on(self) -> None:
        if self._asked() is not None:
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

    @contextmanager
    def _controlled(self, spec: RunSpec) -> Iterator[None]:
        """Opens the control channel meanwhile. A machine where it cannot be opened can train all the same."""
        run = spec.run or self._folder.path.name
        control = Control(find_places(), run, self._attempt, self._commands, partial(self._refuses, spec))
        try:
            control.start()
        except (ProblemError, OSError) as error:
            self._recorder.put(Log(text=f"This run cannot be controlled while it trains: {error}", level="warning"))
        try:
            yield
        finally:
            control.close()

    def _refuses(self, spec: RunSpec, command: Command) -> Problem | None:
        """Says why a command cannot be carried out; called in the control thread."""
        if isinstance(command, DisturbCluster):
            return self._processes.refuses(command)
        if isinstance(command, TraceSteps):
            wrong = check_trace(command.steps)
            return wrong[0] if wrong else untraceable(spec, self._card) if self._card is not None else None
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


def _too_many_devices(spec: RunSpec) -> list[Problem]:
    """Says that a process without GPUs is one device, because TensorFlow has one replica on a processor; empty when
    that fits."""
    if spec.devices <= max(1, len(find_devices(1).gpus)):
        return []
    text = f"Without {spec.devices} GPUs a node takes part with one device, not with {spec.devices}."
    hint = "Choose 1 device, or the strategy mirrored on one node."
    return [Problem("spec.devices", text, hint, "devices")]


def _profiler() -> StepProfiler:
    from clew_agent.training.tracing import Profiler  # late: few runs are traced

    return Profiler()


def _workers_text(workers: Sequence[str]) -> str:
    shown = ", ".join(workers[:_NAMED]) + (", …" if len(workers) > _NAMED else "")
    return f"All {len(workers)} processes joined: {shown}."


def _data_text(data: DataSet | None) -> str:
    if data is None:
        return ""
    counts = f"{len(data.train):,} training, {len(data.validation):,} validation and {len(data.test):,} test images"
    return f"Data set {data.name} from {data.source} (SHA-256 {data.sha256}): {counts}."
