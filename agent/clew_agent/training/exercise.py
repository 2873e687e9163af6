"""The base of all exercises: a card for people and a ``build`` that declares parts, whose gradients Clew takes and
applies.

A training exercise says which variables there are, what the loss of a batch is and which optimizer moves the variables.
It has no loop: batches, randomness, gradients, strategies, metrics, evaluation and checkpoints are Clew's.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.registry import accepted
from clew_agent.engine.pictures import FREE_S
from clew_agent.strategies import registry, single
from clew_agent.training import random
from clew_agent.training.optimizers import Optimizer, Rate, make_optimizer, make_schedule
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, TrainingSettings
from clew_shared.base.foreign import read_file
from clew_shared.base.problem import problem
from clew_shared.cards import (
    ByHand,
    ExerciseCard,
    Goal,
    MetricSpec,
    PictureSpec,
    PlotSpec,
    Preset,
    RaceSpec,
    Requirement,
    SeriesPlot,
    StrategyCard,
    SurfaceSpec,
)
from clew_shared.goal_settings import questions
from clew_shared.journal.events import Event
from clew_shared.params import Params, Value, describe

_LONGEST_GUIDE = 1 << 20
SettingsT = TypeVar("SettingsT", bound=Params)
SettingsU = TypeVar("SettingsU", bound=BatchSettings)


@dataclass(frozen=True)
class Samples:
    """Samples in memory: ``x`` [samples, ...] and ``y`` [samples, ...], gathered by index inside the compiled block."""

    x: npt.NDArray[np.generic]
    y: npt.NDArray[np.generic]


@dataclass(frozen=True)
class Batch:
    """The samples of one step (or of one chunk of an evaluation).

    ``index`` are their places in the set (int64 [batch]); ``weight`` (float32 [batch]) is 0 for samples that only
    fill the batch up, and None where all count. Where a batch is spread over replicas, these are the samples of one:
    ``share`` is then the weight of the whole batch divided by the ``replicas``, and ``total`` sums over all of them.
    """

    x: tf.Tensor
    y: tf.Tensor
    index: tf.Tensor
    weight: tf.Tensor | None = None
    share: tf.Tensor | None = None
    replicas: int = 1
    total: Callable[[tf.Tensor], tf.Tensor] = tf.identity

    def mean(self, values: tf.Tensor) -> tf.Tensor:
        """The mean of one value per sample, over the samples that count.

        On one of several replicas: a number whose mean over the replicas is the mean over the whole batch.
        """
        if self.weight is None:
            return tf.reduce_mean(values)
        weight = tf.cast(self.weight, values.dtype)
        share = tf.reduce_sum(weight) if self.share is None else tf.cast(self.share, values.dtype)
        return tf.reduce_sum(values * weight) / share


@dataclass(frozen=True)
class Loss:
    """The result of a part for a batch: the ``value`` to make smaller, and more ``metrics`` of this step (scalars)."""

    value: tf.Tensor
    metrics: Mapping[str, tf.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Variables that are trained together to make one loss smaller. A GAN has two.

    ``loss`` is called with the batch and the step's context. ``repeats`` updates are made in each step, with fresh
    random numbers and the same batch or, with ``fresh_batches``, each with the order's next batch; the recorded values
    are those of the first, before any update. Parts are updated in the order in which they are listed, each seeing
    what the earlier ones changed.

    ``variables`` are best listed from the input on: an update waits for the gradient of what is listed before it, and
    by then nothing reads the variable any more (``strategies.single``).
    """

    name: str
    variables: Mapping[str, tf.Variable]
    loss: Callable[[Batch, StepContext], Loss]
    optimizer: Optimizer
    repeats: int = 1
    fresh_batches: bool = False


@dataclass(frozen=True)
class Coder:
    """The two halves of a network that draws images from codes of ``size`` numbers: ``decode`` makes rows of the data
    set [n, features] of codes [n, size], ``encode`` codes of rows; without it codes are standard normal noise.
    ``threshold`` gives the error above which a row is an anomaly."""

    size: int
    decode: Callable[[tf.Tensor], tf.Tensor]
    encode: Callable[[tf.Tensor], tf.Tensor] | None = None
    threshold: Callable[[], tf.Tensor] | None = None


Summary = Callable[[Mapping[str, npt.NDArray[np.float64]]], Mapping[str, float]]
"""Turns the means of ``Model.evaluate``'s values over one set into values of the whole set, such as a precision."""


@dataclass(frozen=True)
class Model:
    """The model that ``build`` returns.

    ``evaluate`` gives values per sample ({"accuracy": [batch], ...}); their means over ``evaluation_sets`` become
    "test_accuracy" and so on. What is no mean over samples ``summarize`` computes from such means, which then may have
    any shape ({"confusion": [batch, classes, classes]}; ``training.judging``). ``state`` are variables that change
    without being trained (moving averages). ``train`` replaces the data set's training samples. ``watch`` is the
    evaluated metric for early stopping, better when higher.

    ``pictures`` are functions without arguments, by the id of the picture that the exercise declares. They are traced
    once and called between steps, outside of the training clock; what each returns is said where it is declared
    (``clew_shared.cards.ImageGrid`` and so on). They may not change variables. One that is declared and not given is
    not taken in this run.

    ``scores`` gives each class of the data set a score, [n, classes], whose softmax is its probability, for rows of the
    data set [n, features]: it answers what an exercise with ``tries = "classes"`` is asked (``training.probes``).
    ``coder`` answers it for ``tries = "code"``.
    """

    parts: Sequence[Part]
    evaluate: Callable[[Batch], Mapping[str, tf.Tensor]] | None = None
    summarize: Summary | None = None
    evaluation_sets: Mapping[str, Samples] = field(default_factory=dict)
    state: Mapping[str, tf.Variable] = field(default_factory=dict)
    train: Samples | None = None
    watch: str = "validation_accuracy"
    pictures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    scores: Callable[[tf.Tensor], tf.Tensor] | None = None
    coder: Coder | None = None


@dataclass(frozen=True)
class Setup(Generic[SettingsT]):
    """The arguments of ``build`` and ``measure``: the hyperparameters, the seed and the data."""

    settings: SettingsT
    seed: int
    data: DataSet | None = None
    fused: bool = False

    def require_data(self) -> DataSet:
        """The data set. Raises ``ProblemError`` when the run has none."""
        if self.data is None:
            raise problem(
                "exercise.data", "This exercise needs a data set and got none.", "Choose mnist or digits.", "data"
            )
        return self.data

    def taken_by(self, kind: type[SettingsU], **own: Value) -> Setup[SettingsU]:
        """The setup of another exercise, whose settings are of ``kind``: optimizer, batch, steps and the rest of
        ``BatchSettings`` have the values that they have here, and ``own`` gives values to others."""
        values: dict[str, Any] = {name: getattr(self.settings, name) for name in BatchSettings.__struct_fields__}
        return Setup(kind(**values | own), self.seed, self.data, self.fused)

    def held_out(self) -> dict[str, Samples]:
        """The data set's validation and test samples, for ``Model.evaluation_sets``."""
        data = self.require_data()
        return {"validation": Samples(data.validation.x, data.validation.y), "test": Samples(data.test.x, data.test.y)}

    def truncated_normal(self, name: str, shape: Sequence[int], stddev: float) -> tf.Variable:
        """A new variable with values drawn for this seed and ``name``: normal, none beyond two standard deviations."""
        return tf.Variable(random.truncated_normal(shape, self.seed, f"initial/{name}") * stddev, name=name)

    def optimizer(self) -> Optimizer:
        """A new optimizer, as ``TrainingSettings`` describe it."""
        chosen = self.settings
        if not isinstance(chosen, TrainingSettings):
            raise TypeError(
                "Setup.optimizer() reads TrainingSettings; use make_optimizer() with settings of another kind"
            )
        rate = Rate("learning_rate", make_schedule(chosen))
        return make_optimizer(
            chosen.optimizer, rate, momentum=chosen.momentum, weight_decay=chosen.weight_decay, fused=self.fused
        )


class Exercise(Generic[SettingsT]):
    """An exercise: class attributes make the card, ``build`` makes the model. One subclass in one file.

    ``jit`` compiles the block with XLA: a gain for small dense models, a heavy loss for convolutions on a CPU.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    subtitle: ClassVar[str] = ""
    chapter: ClassVar[str] = ""
    kind: ClassVar[Literal["training", "measurement", "script"]] = "training"
    course: ClassVar[str] = ""
    minutes: ClassVar[int] = 0
    summary: ClassVar[str] = ""
    guide: ClassVar[str] = ""
    """Markdown. By default that of the file's name with the ending ``.md`` beside it, if there is one."""
    Settings: ClassVar[type[Params]]
    """By default those that the base is written with: ``Exercise[MySettings]``."""
    presets: ClassVar[tuple[Preset, ...]] = ()
    baseline: ClassVar[str] = ""
    metrics: ClassVar[tuple[MetricSpec, ...]] = ()
    plots: ClassVar[tuple[PlotSpec, ...]] = ()
    measured: ClassVar[tuple[SeriesPlot, ...]] = ()
    pictures: ClassVar[tuple[PictureSpec, ...]] = ()
    picture_seconds: ClassVar[float] = FREE_S
    """Seconds that the pictures of a run may take even if that is more than their share of the training time."""
    goals: ClassVar[tuple[Goal, ...]] = ()
    goal_details: ClassVar[Mapping[str, str]] = {}
    """What else there is to say about a goal, by its id."""
    by_hand: ClassVar[ByHand | None] = None
    races: ClassVar[tuple[RaceSpec, ...]] = ()
    strategies: ClassVar[tuple[StrategyCard, ...]] = ()
    """Empty: all of them where the settings have a batch to spread, else one device only."""
    datasets: ClassVar[tuple[str, ...]] = ()
    order: ClassVar[int] = 100
    """Exercises of one's own, and their chapters, are listed by this number; where it is equal, by name."""
    revision: ClassVar[int] = 0
    """A change of the file that makes it train in another way raises this number; with any other change, runs of the
    file as it was go on. 0: every change ends them."""
    seedless: ClassVar[tuple[Requirement, ...]] = ()
    """Requirements on the settings: when all are met, the seed changes nothing, as nothing is drawn."""
    jit: ClassVar[bool] = False
    tries: ClassVar[Literal["", "classes", "code"]] = ""
    """What one can try with a trained run: "classes", which class an image belongs to, by the model's ``scores``;
    "code", what its ``coder`` makes of an image, and draws from a code that is moved."""
    plays: ClassVar[bool] = False
    """Whether it is so small that a viewer may train it again after each change of a setting."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            origin, (settings, *_) = get_origin(base), (*get_args(base), None)
            known = isinstance(origin, type) and issubclass(origin, Exercise) and isinstance(settings, type)
            if known and "Settings" not in vars(cls):
                cls.Settings = settings

    def build(self, setup: Setup[SettingsT]) -> Model:
        """Make the variables and say what is trained. Called once per run, before the block is compiled."""
        raise NotImplementedError

    def surfaces(self) -> tuple[SurfaceSpec, ...]:
        """The loss over two recorded metrics, for the card; see ``clew_shared.surface.make_surface``."""
        return ()

    def card(self, source: str = "", file: str = "") -> ExerciseCard:
        """The exercise as data. ``source`` is the text of its file, ``file`` the path to show."""
        guide = self.guide or _guide_beside(type(self))
        return ExerciseCard(
            id=self.id,
            title=self.title,
            subtitle=self.subtitle,
            chapter=self.chapter,
            kind=self.kind,
            course=self.course,
            minutes=self.minutes,
            summary=self.summary,
            guide=guide,
            params=describe(self.Settings),
            presets=self.presets,
            baseline=self.baseline,
            metrics=self.metrics,
            plots=self.plots,
            goals=tuple(self._whole(one, guide) for one in self.goals),
            surfaces=self.surfaces(),
            measured=self.measured,
            pictures=self.pictures,
            by_hand=self.by_hand,
            races=self.races,
            strategies=self.strategies or self._possible(),
            datasets=accepted(self.datasets),
            order=self.order,
            source=source,
            source_hash=hashlib.sha256(source.encode()).hexdigest(),
            revision=self.revision,
            seedless=self.seedless,
            file=file,
            tries=self.tries,
            plays=self.plays,
        )

    def _whole(self, goal: Goal, guide: str) -> Goal:
        """The goal with its detail, and with the words of the question whose number in the guide it has. Without a
        guide nothing is asked: a file that was copied alone has none."""
        asked, question = questions(guide), goal.question
        if question.isdecimal() and int(question) <= len(asked):
            question = asked[int(question) - 1]
        elif question.isdecimal() and not guide:
            question = ""
        detail = self.goal_details.get(goal.id, goal.detail)
        return msgspec.structs.replace(goal, detail=detail, question=question)

    def _possible(self) -> tuple[StrategyCard, ...]:
        return registry.cards() if issubclass(self.Settings, BatchSettings) else (single.CARD,)


def _guide_beside(kind: type) -> str:
    """The guide in the Markdown file beside the exercise's own, or beside that of the one it is derived from. Raises
    ``ProblemError`` for one that cannot be read."""
    files = (getattr(sys.modules.get(one.__module__), "__file__", None) for one in kind.__mro__)
    found = next((path for file in files if file and (path := Path(file).with_suffix(".md")).is_file()), None)
    try:
        return read_file(found, _LONGEST_GUIDE).decode("utf-8-sig") if found is not None else ""
    except ValueError as error:
        text = f"The guide {found} cannot be read: {error}."
        raise problem("exercise.guide", text, "Save it as UTF-8, in less than a megabyte.", str(found)) from None


class Measurement(Exercise[SettingsT]):
    """An exercise that measures instead of training one model: it yields events (``Series``, ``Log``) as they come.

    It may begin with a ``Schema`` that says how many ``steps`` it takes, and yield an ``Evaluation`` after each: what
    goals are about.
    """

    kind = "measurement"

    def measure(self, setup: Setup[SettingsT]) -> Iterator[Event | None]:
        """Do the measuring. The caller may stop it wherever it yields; None says only that it may."""
        raise NotImplementedError
