"""A catalogue and a session for fast widget tests: the session has the real one's calls, its runs real histories."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from clew_gui.jobs.job import JobOrder, JobStage, JobStatus, Place
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.session.intake import Changes
from clew_gui.session.job_links import JobModel
from clew_gui.session.links.inbox import LinkState, LinkStatus
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.session.summaries import RunSummary
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue, ExerciseCard, Goal, MetricSpec, PlotSpec, Preset
from clew_shared.journal.events import Attempt, Checkpoint, Evaluation, Event, Live, Log, Points, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunFold, RunState
from clew_shared.params import Choice, Condition, Knob, Params, describe
from clew_shared.run_settings import NO_NOTE, RunNote
from clew_shared.spec import RunSpec, to_toml
from clew_shared.wire.messages import DisturbCluster, RunStatus, TryRun

OPTIMIZERS = tuple(Choice(name.lower(), name) for name in ("SGD", "Momentum", "Nesterov", "RMSprop", "Adam", "Nadam"))
SCHEDULES = (Choice("constant", "Constant"), Choice("step", "Step"), Choice("cosine", "Cosine"))
ORDERS = (Choice("file", "File order"), Choice("shuffle", "Shuffled"))


class Training(Params, frozen=True):
    """What every exercise's form begins with."""

    optimizer: Annotated[str, Knob("Optimizer", "The update rule.", choices=OPTIMIZERS)] = "sgd"
    learning_rate: Annotated[
        float, Knob("Learning rate", "Length of a step. Too large diverges.", gt=0, le=1000, live=True, log=True)
    ] = 0.5
    momentum: Annotated[
        float,
        Knob("Momentum", "Share kept.", ge=0, lt=1, shown_when=Condition("optimizer", ("momentum", "nesterov"))),
    ] = 0.9
    schedule: Annotated[str, Knob("Schedule", "How the rate changes.", choices=SCHEDULES)] = "constant"
    batch_size: Annotated[int, Knob("Batch size", "Images of one step.", ge=1, le=50_000, group="Batches")] = 100
    order: Annotated[str, Knob("Order", "Which images come when.", choices=ORDERS, group="Batches")] = "file"
    steps: Annotated[int, Knob("Steps", "Updates in all.", ge=1, le=10_000_000, group="Length")] = 500
    evaluate_every: Annotated[
        int | None, Knob("Evaluate every", "Empty: each epoch and the end.", ge=1, unit="steps", group="Length")
    ] = None


class Line(Params, frozen=True):
    """Linear regression."""

    optimizer: Annotated[str, Knob("Optimizer", choices=OPTIMIZERS)] = "sgd"
    learning_rate: Annotated[float, Knob("Learning rate", gt=0, le=10, live=True, log=True)] = 0.01
    steps: Annotated[int, Knob("Steps", ge=1, le=10_000_000)] = 1000
    w_start: Annotated[float, Knob("W at start", group="Start")] = 0.3
    b_start: Annotated[float, Knob("b at start", group="Start")] = -0.3


GUIDE = """# Train a single layer and beat 90.79 %

Every image of a digit is 784 numbers. One matrix turns them into ten scores, and the highest score is the answer.
You train that matrix, first with the values on the slides, then with your own.

## What to do

1. Press **Run** with the slides' values: gradient descent, rate 0.5, batches of 100, 500 steps.
2. Change the optimizer to Adam, keep the rate, and run again. Why does it get worse?
3. Find a rate for Adam that passes the dashed goal line within 25,000 steps.

## What to watch

Does the accuracy still rise when the loss is flat? How much does the raw curve jump from batch to batch?

> **Hint: choose a rate** Adam divides every step by the size of recent gradients, so 0.5 is far too long for it.
> Start at 0.001 and move by factors of three.

> **Hint: why the curve is noisy** Each point is one batch of 100 images.

## The step that runs

```python
logits = tf.matmul(x, W) + b
loss   = tf.reduce_mean(cross_entropy(y, logits))
```
"""
SOURCE = """import tensorflow as tf


def loss(x, y):  # one layer
    return tf.matmul(x, 0.5)
"""

LOSS = MetricSpec(name="loss", label="Training loss", better="lower")
ACCURACY = MetricSpec(name="accuracy", label="Batch accuracy", better="higher", format="percent")
TEST = MetricSpec(name="test_accuracy", label="Test accuracy", better="higher", format="percent", per_step=False)
GOAL = Goal(
    id="slides", text="90.79 %", metric="test_accuracy", op=">=", value=0.9079, which="best", detail="As on the slides."
)
EXPECTED = tuple((float(s), float(1.35 * np.exp(-s / 12) * 10 + 10 ** (-s * 0.0059))) for s in range(0, 1001, 20))


def card(**changes: object) -> ExerciseCard:
    """The softmax card, or one like it."""
    values: dict[str, object] = {
        "id": "softmax",
        "title": "Softmax on MNIST",
        "subtitle": "one layer, 784 to 10",
        "chapter": "Convergence",
        "course": "BSC guided lab, exercise 2",
        "minutes": 20,
        "summary": "A single layer learns to read digits. A few seconds on this computer: no account, no cluster.",
        "guide": GUIDE,
        "params": describe(Training),
        "presets": (
            Preset(name="slides", title="Slides' values"),
            Preset(name="tiny", title="Tiny, some seconds", values={"steps": 60, "batch_size": 32}, data="digits"),
            Preset(name="adam", title="Adam, well set", values={"optimizer": "adam", "learning_rate": 0.001}),
        ),
        "baseline": "slides",
        "metrics": (LOSS, ACCURACY, TEST),
        "plots": (
            PlotSpec(id="loss", title="Training loss", metrics=("loss",), log=True),
            PlotSpec(id="accuracy", title="Accuracy", metrics=("accuracy", "test_accuracy"), format="percent"),
        ),
        "goals": (
            GOAL,
            Goal(id="more", text="Better than 92 %", metric="test_accuracy", op=">=", value=0.92, which="best"),
        ),
        "datasets": ("mnist", "digits"),
        "source": SOURCE,
        "source_hash": "ab" * 32,
        "file": "softmax.py",
    }
    return ExerciseCard(**(values | changes))  # type: ignore[arg-type]


def catalogue() -> Catalogue:
    """Three exercises that look like the real ones."""
    line = card(
        id="linear-regression",
        title="Linear regression",
        subtitle="four points, one line",
        params=describe(Line),
        presets=(Preset(name="slides", title="Slides' values"),),
        metrics=(MetricSpec(name="loss", label="Loss", dtype="float64", better="lower"),),
        plots=(PlotSpec(id="loss", title="Loss", metrics=("loss",), log=True, expected=EXPECTED),),
        goals=(Goal(id="end", text="W = -1, b = 1", metric="loss", op="<=", value=1e-5),),
        datasets=(),
        minutes=10,
        summary="A line is fitted to four points while you watch. Two seconds on this computer: no account, no data.",
    )
    cnn = card(id="cnn", title="CNN on MNIST", subtitle="two convolutions", minutes=45)
    broken = card(
        id="mine",
        title="My own exercise",
        chapter="Own files",
        params=(),
        presets=(),
        plots=(),
        goals=(),
        metrics=(),
        problem=Problem("exercise.import", "mine.py cannot be loaded: line 3, name 'tf' is not defined.", "Mend it."),
    )
    return Catalogue(chapters=("Convergence",), exercises=(line, card(), cnn, broken), version="test")


@dataclass
class FakeRun(RunModel):
    """A run whose journal and evidence a test writes."""

    id: str
    number: int
    index: int
    spec: RunSpec
    folder: Path = Path("nowhere")
    where: str = "This computer"
    site: str = ""
    link_stale: bool = False
    logged_out: bool = False
    catching_up: float | None = None
    reading: float | None = None
    waiting: RunState = RunState.QUEUED
    told: str = ""
    """Why, while there is no journal."""
    queue: int = 0
    devices: tuple[str, ...] = ()
    status: RunStatus | None = None
    copied: int = 0
    summary: RunSummary | None = None
    version: int = 0
    job: JobStatus | None = None
    note: RunNote = NO_NOTE
    history: History = field(default_factory=History)

    @property
    def fold(self) -> RunFold:
        """Of all that was written."""
        return self.history.fold

    @property
    def state(self) -> RunState:
        """Where it stands."""
        return self.history.fold.state if self.history.fold.attempt else self.waiting

    @property
    def reason(self) -> str:
        """Why."""
        return self.history.fold.reason or self.told

    def feed(self, *events: Event) -> None:
        """Write into the journal of the latest attempt."""
        for event in events:
            self.history.feed(max(1, self.history.fold.attempt), event)

    def begin(self, steps: int = 500, when: float = 0.0) -> FakeRun:
        """As a trainer begins."""
        when = when or time.time()
        self.feed(
            Attempt(
                format=1,
                run=self.id,
                attempt=1,
                exercise=self.spec.exercise,
                spec_sha256="",
                steps=steps,
                time=when,
                spec=to_toml(self.spec),
            ),
            State(state=RunState.PREPARING, time=when),
            Log(text="compiled the training step", stage="compile", seconds=1.2, time=when),
            Schema(id=1, metrics=(LOSS, ACCURACY, TEST), batch_size=100, samples_per_epoch=50_000, time=when),
            State(state=RunState.RUNNING, time=when),
        )
        return self

    def train(self, count: int, seconds: float = 0.1, when: float = 0.0) -> FakeRun:
        """Record so many steps of a curve that falls, with noise."""
        first = self.history.fold.step
        steps = np.arange(first, first + count)
        noise = np.random.default_rng(first + self.index).normal(0, 1, count)
        rate = float(self.spec.params.get("learning_rate") or 0.5)
        fall = np.exp(-steps / (40 + 30 / rate))
        loss = (0.27 + 0.02 * self.index + 2.0 * fall) * (1 + 0.12 * noise)
        accuracy = np.clip(0.92 - 0.008 * self.index - 0.8 * fall + 0.02 * noise, 0, 1)
        clock = self.history.column("loss").clock
        end = (float(clock[-1]) if len(clock) else 0.0) + seconds
        values = (loss.astype("<f4").tobytes(), accuracy.astype("<f4").tobytes())
        self.feed(
            Points(
                schema=1, first=first, count=count, seconds=seconds, clock=end, values=values, time=when or time.time()
            )
        )
        return self

    def evaluate(self, value: float, when: float = 0.0) -> FakeRun:
        """Record a test accuracy."""
        self.feed(Evaluation(step=self.history.fold.step, values={"test_accuracy": value}, time=when or time.time()))
        return self

    def end(self, state: RunState = RunState.FINISHED, reason: str = "", when: float = 0.0) -> FakeRun:
        """As a trainer ends."""
        trouble = Problem("run.nan", reason, "Take a smaller rate.") if state is RunState.FAILED else None
        self.feed(
            State(state=state, reason=reason, step=self.history.fold.step, time=when or time.time(), problem=trouble)
        )
        return self


class FakeSession(Session):
    """Answers at once, without agents and folders; ``tell`` decides what the next tick says."""

    runs: dict[str, FakeRun]
    jobs: dict[str, JobModel]
    link = LinkStatus(LinkState.LIVE, 0.0, "ready")

    def __init__(self) -> None:
        self.runs = {}
        self.jobs = {}
        self._added = 0
        self.asked: list[tuple[object, ...]] = []
        self.refusal: Exception | None = None
        self.closed = False
        self._next = Changes()
        self.wake_up: Callable[[], None] = lambda: None

    def add(self, exercise: str = "softmax", preset: str = "", **params: object) -> FakeRun:
        """A run that is known from the start."""
        number, self._added = len(self.runs) + 1, self._added + 1
        spec = RunSpec(exercise=exercise, run=str(uuid.UUID(int=self._added)), preset=preset, params=params)  # type: ignore[arg-type]
        run = self.runs[spec.run] = FakeRun(spec.run, number, number - 1, spec)
        return run

    def prefer(self, *exercises: str) -> None:
        """All is read already."""

    def runs_of(self, exercise: str) -> list[RunModel]:
        """In the order of their numbers."""
        found = [run for run in self.runs.values() if run.spec.exercise == exercise]
        return sorted(found, key=lambda run: run.number)

    def tell(self, **changes: object) -> None:
        """What the next tick brings."""
        self._next = Changes(**changes)  # type: ignore[arg-type]

    def set_link(self, state: str, text: str = "ready", datasets: tuple[str, ...] = ()) -> None:
        """The link to this computer's agent is so from now on."""
        self.link = LinkStatus(LinkState(state), 0.0, text, datasets)

    def tick(self, budget: float = 0.008) -> Changes:
        """What was told."""
        told, self._next = self._next, Changes()
        return told

    def reload_exercises(self) -> None:
        """Noted."""
        self._ask("reload")

    def renew_agent(self) -> None:
        """Noted."""
        self._ask("renew")

    def on_news(self, wake_up: Callable[[], None]) -> None:
        """Rung by tests."""
        self.wake_up = wake_up

    def _ask(self, *what: object) -> None:
        self.asked.append(what)
        if self.refusal is not None:
            raise self.refusal

    def add_job(self, run: FakeRun | None = None, stage: JobStage = JobStage.QUEUED, **news: object) -> JobModel:
        """A job on a site, and the run that waits for it."""
        number = len(self.jobs) + 1
        held = run is None
        asked = AllocationRequest(gpus=2, time="01:00:00")
        order = JobOrder(job=str(uuid.UUID(int=1000 + number)), site="cave", allocation=asked, hold=held)
        told = JobStatus(job=order.job, stage=stage, **news)  # type: ignore[arg-type]
        model = self.jobs[order.job] = JobModel(number, order, "The Cave", told)
        if run is not None:
            run.job, run.where = told, "The Cave"
        return model

    def try_here(self, run: str) -> str:
        """Another run, here."""
        self._ask("try", run)
        return self.start_run(self.runs[run].spec)

    def hold(self, place: Place) -> str:
        """Noted."""
        self._ask("hold", place)
        return self.add_job().id

    def cancel(self, job: str) -> None:
        """Noted."""
        self._ask("cancel", job)

    def start_run(self, spec: RunSpec, place: Place | None = None) -> str:
        """A new run, queued."""
        self._ask("start", spec, *((place,) if place is not None else ()))
        return self._started(spec)

    def _started(self, spec: RunSpec) -> str:
        run = self.add(spec.exercise, spec.preset, **spec.params)
        run.spec = msgspec.structs.replace(spec, run=run.id)
        self.tell(new=frozenset((run.id,)))
        return run.id

    def start_runs(self, specs: Sequence[RunSpec], place: Place | None = None, kept: bool = True) -> tuple[str, ...]:
        """New runs, queued; those of one job are noted together."""
        if not kept:
            self._ask("play", *specs)
            return (self._started(specs[0]),)
        if place is None or len(specs) == 1:
            return tuple(self.start_run(spec, place) for spec in specs)
        self._ask("start_runs", tuple(specs), place)
        return tuple(self.start_run(spec) for spec in specs)

    def continue_study(
        self, runs: Sequence[str], missing: Sequence[RunSpec], place: Place | None = None
    ) -> tuple[str, ...]:
        """Only noted; the missing ones are new runs."""
        self._ask("continue_study", tuple(runs), tuple(missing), place)
        return (*runs, *(self.start_run(spec) for spec in missing))

    def pause(self, run: str) -> None:
        """Paused at once."""
        self._ask("pause", run)
        self.runs[run].feed(State(state=RunState.PAUSED))
        self.tell(states=frozenset((run,)))

    def unpause(self, run: str) -> None:
        """Running at once."""
        self._ask("unpause", run)
        self.runs[run].feed(State(state=RunState.RUNNING))
        self.tell(states=frozenset((run,)))

    def stop(self, run: str, now: bool = False) -> None:
        """Stopped at once, with a checkpoint unless ``now``."""
        self._ask("stop", run, now)
        if not now:
            self.runs[run].feed(Checkpoint(step=self.runs[run].history.fold.step, folder="checkpoints/1", files=()))
        self.runs[run].end(RunState.STOPPED, "stopped by hand")
        self.tell(states=frozenset((run,)))

    def trace(self, run: str, steps: int) -> None:
        """Noted."""
        self._ask("trace", run, steps)

    def disturb(self, request: DisturbCluster) -> None:
        """Noted."""
        self._ask("disturb", request)

    def try_run(self, request: TryRun) -> None:
        """Noted."""
        self._ask("try_run", request)

    def set_live(self, run: str, name: str, value: float) -> None:
        """Acts from the next step."""
        self._ask("live", run, name, value)
        self.runs[run].feed(Live(name=name, value=value, step=self.runs[run].history.fold.step))
        self.tell(points=frozenset((run,)))

    def continue_run(
        self, run: str, allocation: AllocationRequest | None = None, changes: Mapping[str, str | int] | None = None
    ) -> None:
        """Only noted."""
        self._ask("continue", run, *((dict(changes),) if changes else ()))

    def move_run(self, run: str, place: int) -> None:
        """Moved at once, and the others make room."""
        self._ask("move", run, place)
        line = sorted((one for one in self.runs.values() if one.queue), key=lambda one: one.queue)
        line = [one for one in line if one.id != run]
        line.insert(place - 1, self.runs[run])
        for number, one in enumerate(line, 1):
            one.queue = number
        self.tell(states=frozenset(one.id for one in line))

    def annotate(self, run: str, note: RunNote) -> None:
        """Kept at once."""
        self._ask("annotate", run, note)
        self.runs[run].note = note

    def keep(self, run: str) -> None:
        """Noted."""
        self._ask("keep", run)

    def discard(self, run: str) -> None:
        """Gone, whatever it does."""
        self._ask("discard", run)
        del self.runs[run]

    def forget(self, run: str, lasting: bool = True) -> None:
        """Gone."""
        self._ask("forget", run)
        assert self.runs[run].state in TERMINAL
        del self.runs[run]

    def close(self) -> None:
        """No more ticks."""
        self.closed = True


def example_session(now: float = 0.0) -> FakeSession:
    """Seven runs as a student has them after half an hour, one of them at work."""
    now = now or time.time()
    session = FakeSession()
    session.add("linear-regression").begin(1000, now - 3000)
    line = session.runs[str(uuid.UUID(int=1))]
    line.end(RunState.FAILED, "loss is NaN at step 0", now - 2990)
    for number, (optimizer, rate, best) in enumerate(
        (("sgd", 0.5, 0.9079), ("momentum", 0.05, 0.9158), ("nadam", 3.0, 0.62))
    ):
        run = session.add("softmax", optimizer=optimizer, learning_rate=rate)
        run.begin(500, now - 900 + 100 * number)
        for part in range(10):
            run.train(50, 0.14, now - 890 + 100 * number + part)
        run.evaluate(best, now - 880 + 100 * number)
        if number == 2:
            run.end(RunState.FAILED, "loss is NaN at step 212", now - 870 + 100 * number)
        else:
            run.end(when=now - 870 + 100 * number)
    stopped = session.add("softmax", optimizer="rmsprop", learning_rate=0.001)
    stopped.begin(500, now - 300)
    stopped.train(140, 0.5, now - 290)
    stopped.feed(Checkpoint(step=140, folder="checkpoints/00000140", files=(), time=now - 289))
    stopped.end(RunState.STOPPED, "stopped by hand", now - 289)
    live = session.add("softmax", optimizer="adam", learning_rate=0.01, steps=25_000)
    live.begin(25_000, now - 100)
    for part in range(40):
        live.train(460, 2.5, now - 100 + part * 2.5)
        if part % 2:
            live.evaluate(0.88 + 0.035 * (1 - np.exp(-part / 9)), now - 100 + part * 2.5)
        if part == 30:
            live.feed(Live(name="learning_rate", value=0.005, step=live.history.fold.step))
    session.add("softmax", optimizer="nadam", learning_rate=0.001).queue = 1
    return session


def end_note(bar: QWidget) -> None:
    """Let the time of the message bar's note be over."""
    timer = bar.findChild(QTimer, "message lapse")
    assert isinstance(timer, QTimer)
    timer.timeout.emit()
