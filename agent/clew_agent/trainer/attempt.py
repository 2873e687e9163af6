"""One attempt of a run, between its first frame and its last state, in four stages: describe what it is, prepare what
it needs, build its engine, train. Each stage takes what the one before it found.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from clew_agent.catalogue.examine import find_exercise
from clew_agent.catalogue.lookup import find_script, quick_card
from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search, find_search
from clew_agent.engine.base import TrainingEngine
from clew_agent.node.allocation import read_allocation
from clew_agent.node.devices import find_devices, unseen
from clew_agent.node.exit_codes import BAD_INPUT, FAILED
from clew_agent.node.host import processor
from clew_agent.node.lean_import import lean_import
from clew_agent.peers.chief import Peers
from clew_agent.peers.hosts import read_hosts
from clew_agent.peers.messages import CHIEF, Cluster
from clew_agent.peers.peer import tf_config
from clew_agent.peers.processes import StartPeer, prepare_for_several, spawn
from clew_agent.strategies import registry
from clew_agent.trainer import compile_cache
from clew_agent.trainer.control import Command, Control, ControlRequests, StopAsked
from clew_agent.trainer.endings import endings
from clew_agent.trainer.failures import ClockWatch, crash, failed, stopped_early, unreachable
from clew_agent.trainer.first_frame import describe_attempt
from clew_agent.trainer.loop import SCHEMA, Loop, measure
from clew_agent.trainer.recorder import Recorder
from clew_agent.trainer.resuming import AttemptStart
from clew_agent.trainer.spec_check import check_against_card, combine, data_name, recorded_revision
from clew_agent.trainer.time_limit import Timekeeper
from clew_agent.trainer.tracing import StepProfiler, StepTracing
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, no_tensorflow, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.events import Log, Predicted, Schema, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Params, live_value
from clew_shared.params import build as build_params
from clew_shared.params import check as check_params
from clew_shared.spec import RunSpec, check_trace, read_spec, untraceable
from clew_shared.wire.messages import DisturbCluster, Pause, SetLive, Stop, TraceSteps

if TYPE_CHECKING:
    from clew_agent.catalogue.examine import AnyExercise
    from clew_agent.trainer.cluster import ClusterRun

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
_NO_CLUSTER = Problem("cluster.none", "This run has no parameter-server cluster that trains.", "", "run")


@dataclass(frozen=True)
class CheckedRun:
    """What an attempt is to do, when all is there that it needs. ``exercise`` is an ``Exercise``, a ``Measurement``, or
    None for a training script."""

    spec: RunSpec
    start: AttemptStart
    card: ExerciseCard
    exercise: Any = None
    data: DataSet | None = None

    @property
    def settings(self) -> Params:
        """The exercise's settings, as the spec has them."""
        settings: Params = build_params(self.exercise.Settings, self.spec.params)
        return settings


@dataclass
class Attempt:
    """One attempt, and how far it has come. ``load_data`` reads its data set, ``start_peer`` starts its peers on this
    node; ``exercises`` is a folder with exercises of one's own."""

    folder: RunFolder
    number: int
    recorder: Recorder
    commands: ControlRequests
    timekeeper: Timekeeper
    exercises: Path | None = None
    load_data: LoadData = load
    start_peer: StartPeer = spawn
    card: ExerciseCard | None = None
    peers: Peers | None = None
    cluster: ClusterRun | None = None
    """The workers and servers that can be disturbed, if there are any."""
    engine: TrainingEngine | None = None
    script_step: int = 0
    trained: bool = False
    clock: ClockWatch = field(default_factory=ClockWatch)

    @property
    def step(self) -> int:
        """Number of updates that are done."""
        return self.engine.course.step if self.engine is not None else self.script_step

    def asked(self) -> Stop | None:
        """The request to stop, if there is one."""
        self.timekeeper.look()
        return self.commands.stop

    def go_on(self) -> None:
        """Raises ``StopAsked`` when the run is to stop."""
        if self.asked() is not None:
            raise StopAsked

    def staged(self, stage: str, work: Callable[[], T], sentence: Callable[[T], str] = lambda _: "") -> T:
        """Do ``work`` and record what it took; ``sentence`` makes one from its result."""
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        text = sentence(result) or f"{_STAGES[stage]} in {seconds:.2f} s."
        self.recorder.put(Log(text=text, stage=stage, seconds=seconds))
        self.go_on()
        return result


def run(attempt: Attempt) -> State:
    """Everything up to the last state, which is returned. This is the process's border: nothing is raised."""
    try:
        spec, start = describe(attempt)
        with _controlled(attempt, spec):
            checked = prepare(attempt, spec, start)
            if checked.exercise is None:
                return _run_script(attempt, checked)
            if checked.exercise.kind == "measurement":
                return _measure(attempt, checked)
            attempt.engine = build(attempt, checked)
            return train(attempt, checked, attempt.engine)
    except StopAsked:
        return stopped_early(attempt.commands.stop, attempt.step)
    except ProblemError as error:
        refused = not attempt.trained and attempt.peers is None
        return failed(combine(error.problems), attempt.step, BAD_INPUT if refused else FAILED)
    except BaseException as error:  # noqa: BLE001  # whatever an exercise or TensorFlow raises ends as a state
        traceback.print_exc()
        peers = attempt.peers
        lost = peers.reason(unreachable(error)) if peers is not None else None
        found = lost or crash(error, attempt.step, attempt.clock.jump() if peers is not None else 0.0)
        return failed(found, attempt.step)
    finally:
        if attempt.peers is not None:
            attempt.peers.close()


# 1. Describe: the first frames, before anything is checked or loaded.


def describe(attempt: Attempt) -> tuple[RunSpec, AttemptStart]:
    """Records what the attempt is and where it begins. Raises ``ProblemError`` for a spec that cannot be read."""
    complaint = None
    try:
        spec = read_spec(attempt.folder.spec_of(attempt.number))
    except ProblemError as error:
        spec, complaint = RunSpec(exercise=""), error
    first, start = describe_attempt(attempt.folder, attempt.number, spec, attempt.exercises)
    attempt.recorder.put(first)
    if spec.prediction is not None and not start.resumes:
        drawn = spec.prediction
        attempt.recorder.put(Predicted(metric=drawn.metric, steps=drawn.steps, values=drawn.values))
    attempt.recorder.put(State(state=RunState.STARTING, step=start.step))
    if complaint is not None:
        raise complaint
    for folder in start.damaged:
        text = f"The checkpoint {folder} has changed since it was recorded and is not used."
        attempt.recorder.put(Log(text=text, level="warning"))
    if start.checkpoint:
        attempt.recorder.put(Log(text=f"Continues from the checkpoint of step {start.step}.", step=start.step))
    elif start.resumes:
        text = "No checkpoint to continue from: starts again at step 0."
        attempt.recorder.put(Log(text=text, level="warning"))
    return spec, start


# 2. Prepare: check, load and import in the order in which a refusal costs least.


def prepare(attempt: Attempt, spec: RunSpec, start: AttemptStart) -> CheckedRun:
    """Checks the run and gets what it needs. Raises ``ProblemError`` for what is wrong with it."""
    search = find_search(find_places())
    revision = recorded_revision(attempt.folder, start.resumes)
    attempt.card = card = quick_card(spec.exercise, attempt.exercises)
    if card is not None:
        raise_all(check_against_card(spec, card, search, revision=revision))
    attempt.go_on()
    attempt.recorder.put(State(state=RunState.PREPARING, step=start.step))
    if card is not None and card.kind == "script":
        return CheckedRun(spec, start, card)
    _start_peers(attempt, spec)
    data = _data(attempt, data_name(spec, card)) if card is not None else None
    exercise, attempt.card = attempt.staged("import", lambda: _import(attempt, spec))
    raise_all(check_against_card(spec, attempt.card, search, revision=revision))
    if data is None:
        data = _data(attempt, data_name(spec, attempt.card))
    return CheckedRun(spec, start, attempt.card, exercise, data)


def _start_peers(attempt: Attempt, spec: RunSpec) -> None:
    """Starts the run's other processes, if it has any: they import TensorFlow while this one does."""
    roles = registry.entry(spec.strategy).roles(spec)
    if not roles and spec.nodes == 1:
        return
    if not roles:
        raise_all(_too_many_devices(spec))
    prepare_for_several()
    attempt.peers = Peers(
        attempt.folder,
        attempt.number,
        1 + len(roles) if roles else spec.nodes,
        read_hosts(),
        find_places(),
        attempt.recorder.put,
        partial(_end_stuck, attempt),
        exercises=attempt.exercises,
        start_here=attempt.start_peer,
        roles=roles,
    )
    attempt.peers.start()


def _end_stuck(attempt: Attempt, found: Problem) -> None:
    """Ends this process when a peer is lost and TensorFlow does not come back from a step with it: the guard does what
    is left."""
    try:
        attempt.recorder.put_last(failed(found, attempt.step))
    finally:
        operating_system.exit_at_once(FAILED)


def _data(attempt: Attempt, name: str) -> DataSet | None:
    if not name:
        return None
    data = attempt.staged("data", lambda: attempt.load_data(name, find_search(find_places())), _data_text)
    for note in data.notes:
        attempt.recorder.put(Log(text=note, stage="data"))
    return data


def _import(attempt: Attempt, spec: RunSpec) -> tuple[AnyExercise, ExerciseCard]:
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
        attempt.recorder.put(Log(text=missing, level="warning"))
    return find_exercise(spec.exercise, attempt.exercises, attempt.card)


# 3. Build: the engine that the strategy needs, compiled and where its checkpoint was.


def build(attempt: Attempt, checked: CheckedRun) -> TrainingEngine:
    """Builds the engine in the way of the run's strategy, and makes it ready to train."""
    spec, start = checked.spec, checked.start
    engine: TrainingEngine = resolve_name(registry.entry(spec.strategy).build)(attempt, checked)
    sharing = _sharing(attempt, spec, engine)
    if sharing > 1:  # that must be known before anyone compares times
        text = (
            f"There are no GPUs for {sharing} devices. They are parts of one processor and share {processor()}:"
            " no speed-up is to be expected."
        )
        attempt.recorder.put(Log(text=text))
    attempt.staged("compile", engine.compile)
    if spec.timed:
        engine.measure_parts()
    cache = compile_cache.in_use(find_places())
    if cache is not None:
        compile_cache.vouch(cache)
    if start.checkpoint:
        attempt.staged("restore", lambda: engine.restore(attempt.folder.path / start.checkpoint))
    return engine


def build_in_step(attempt: Attempt, checked: CheckedRun) -> TrainingEngine:
    """Builds the engine whose devices, in all processes, do the same blocks."""
    from clew_agent.training.engine import make_engine

    peers = attempt.peers
    if peers is None:
        return attempt.staged("build", lambda: make_engine(checked.exercise, checked.spec, checked.data))
    workers = attempt.staged("peers", lambda: peers.gather(attempt.go_on), workers_text)
    os.environ["TF_CONFIG"] = tf_config(workers, CHIEF)
    peers.send(Cluster(workers=workers, restore=checked.start.checkpoint))
    made = partial(make_engine, checked.exercise, checked.spec, checked.data, peers.release_port, peers.lead)
    return attempt.staged("build", made)


def _sharing(attempt: Attempt, spec: RunSpec, engine: TrainingEngine) -> int:
    """Returns how many replicas are parts of this node's processor, as far as there are several."""
    together = attempt.peers.members.together if attempt.peers is not None else 1
    return spec.devices * together if engine.logical_devices else 0


# 4. Train.


def train(attempt: Attempt, checked: CheckedRun, engine: TrainingEngine) -> State:
    """Trains to the end, or until it is asked to stop; returns the last state."""
    spec, card, course = checked.spec, checked.card, engine.course
    schema = Schema(
        id=SCHEMA,
        metrics=course.per_step + tuple(metric for metric in card.metrics if not metric.per_step),
        batch_size=course.samples_per_step,
        samples_per_epoch=course.samples_per_epoch,
        steps=course.steps,
        replicas=engine.replicas,
        reduced_bytes=engine.reduced_bytes,
        shared_cores=operating_system.usable_cores() if _sharing(attempt, spec, engine) > 1 else 0,
        input_seconds=engine.parts.input_seconds,
        reduce_seconds=engine.parts.reduce_seconds,
    )
    attempt.recorder.put(schema)
    attempt.trained = True
    traces = StepTracing(_profiler, attempt.recorder.put, 0 if checked.start.resumes else spec.trace)
    loop = Loop(
        engine,
        attempt.recorder,
        attempt.commands,
        attempt.folder,
        attempt=attempt.number,
        start=checked.start,
        timekeeper=attempt.timekeeper,
        peers=attempt.peers.members if attempt.peers is not None else None,
        disturb=attempt.cluster.disturb if attempt.cluster is not None else None,
        endings=endings(attempt.folder, spec, card.metrics, course),
        tracing=traces if untraceable(spec, card) is None else None,
    )
    return loop.run()


def _measure(attempt: Attempt, checked: CheckedRun) -> State:
    from clew_agent.training.exercise import Measurement, Setup

    exercise = checked.exercise
    if not isinstance(exercise, Measurement):
        text = f"{checked.card.id} says that it measures, but is not a Measurement."
        raise ProblemError(Problem("exercise.kind", text, "Derive it from Measurement."))
    setup = Setup(checked.settings, checked.spec.seed, checked.data)
    attempt.trained = True
    return measure(exercise.measure(setup), attempt.recorder, attempt.asked)


def _run_script(attempt: Attempt, checked: CheckedRun) -> State:
    from clew_agent.trainer.script_run import run_script  # late: it needs NumPy, as no other run does so early

    spec = checked.spec
    if checked.start.resumes:
        raise ProblemError(_NO_CHECKPOINT)
    script = find_script(spec.exercise, attempt.exercises) if attempt.exercises is not None else None
    if script is None:
        text = f"The script of {spec.exercise!r} has changed since the run was started."
        raise ProblemError(Problem("script.changed", text, "Start the run again.", spec.exercise))
    values, problems = check_params(script.card.params, spec.params)
    raise_all(problems)
    attempt.trained = True

    def asked(step: int) -> Stop | None:
        attempt.script_step = step
        return attempt.asked()

    return run_script(script, values, spec.seed, attempt.folder, attempt.number, attempt.recorder, asked)


# In all stages.


@contextmanager
def _controlled(attempt: Attempt, spec: RunSpec) -> Iterator[None]:
    """Opens the control channel meanwhile. A machine where it cannot be opened can train all the same."""
    run = spec.run or attempt.folder.path.name
    control = Control(find_places(), run, attempt.number, attempt.commands, partial(_refuses, attempt, spec))
    try:
        control.start()
    except (ProblemError, OSError) as error:
        attempt.recorder.put(Log(text=f"This run cannot be controlled while it trains: {error}", level="warning"))
    with closing(control):
        yield


def _refuses(attempt: Attempt, spec: RunSpec, command: Command) -> Problem | None:
    """Says why a command cannot be carried out; called in the control thread."""
    card = attempt.card
    if isinstance(command, DisturbCluster):
        return attempt.cluster.refuses(command) if attempt.cluster is not None else _NO_CLUSTER
    if isinstance(command, TraceSteps):
        wrong = check_trace(command.steps)
        return wrong[0] if wrong else untraceable(spec, card) if card is not None else None
    if isinstance(command, Pause) and card is not None and card.kind == "script":
        return _NO_PAUSE
    if not isinstance(command, SetLive):
        return None
    return live_value(card.params if card is not None else (), command.name, command.value)[1]


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


def workers_text(workers: Sequence[str]) -> str:
    shown = ", ".join(workers[:_NAMED]) + (", …" if len(workers) > _NAMED else "")
    return f"All {len(workers)} processes joined: {shown}."


def _data_text(data: DataSet | None) -> str:
    if data is None:
        return ""
    counts = f"{len(data.train):,} training, {len(data.validation):,} validation and {len(data.test):,} test samples"
    return f"Data set {data.name} from {data.source} (SHA-256 {data.sha256}): {counts}."
