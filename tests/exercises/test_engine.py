"""The engine's promises: one compilation, boundaries, evaluation, live values, early stopping, checkpoints when due."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from clew_agent.catalogue.examine import import_exercises
from clew_agent.catalogue.exercise_files import ExerciseFile, builtin_files
from clew_agent.cli.new import write_template
from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises import cnn, linear_regression, softmax, vae
from clew_agent.training import random, runtime
from clew_agent.training.engine import Engine
from clew_agent.training.evaluation import CHUNK, Evaluator
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.optimizers import FusedAdam
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, Steps
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import build, check, describe
from tests.exercises.training import make_engine, sizes, train

COUNT_COMPILATIONS = """
import numpy as np
from clew_agent.exercises.linear_regression import EXERCISE
from clew_agent.training.engine import Engine
from clew_shared.params import build

rng = np.random.default_rng(3)
sizes = iter(rng.integers(1, 90, 1000).tolist())
engine = Engine(EXERCISE, build(EXERCISE.Settings, {}), 1, block_steps=lambda room: next(sizes))
engine.compile()
counts = [engine.run_block().count for _ in range(12)]
engine.course.set_live("learning_rate", 0.02)
counts += [engine.run_block().count for _ in range(6)]
print(len(set(counts)), engine.traces)
"""


def test_xla_compiles_the_loop_once_for_all_sizes_and_rates(tmp_path: Path) -> None:
    """XLA writes a file for every module that it compiles: counted in a process of its own."""
    environment = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text"}
    done = subprocess.run(
        [sys.executable, "-c", COUNT_COMPILATIONS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    different_sizes, traces = map(int, done.stdout.split())
    assert different_sizes > 10
    assert traces == 1
    assert len(list(tmp_path.glob("*_run*before_optimizations.txt"))) == 1


def test_another_seed_needs_no_other_program(small_digits: DataSet) -> None:
    """XLA, whose cache knows a program by all that is in it, compiles it once for all seeds."""

    def constants(seed: int) -> list[bytes]:
        graph = make_engine(vae.EXERCISE, {"hidden": 8}, small_digits, seed=seed).trace().graph.as_graph_def()
        nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
        return sorted(node.attr["value"].SerializeToString() for node in nodes if node.op == "Const")

    assert constants(1) == constants(2)


def test_single_operations_become_no_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's switch has no public name: where a new version has none, this says so. The bits are the same."""
    real, said = pywrap_tfe.TFE_ContextSetRunEagerOpAsFunction, list[bool]()
    before = random.truncated_normal([50], 7, "weights").numpy()

    def switch(context: object, on: bool) -> None:
        said.append(on)
        real(context, on)

    monkeypatch.setattr(pywrap_tfe, "TFE_ContextSetRunEagerOpAsFunction", switch)
    runtime.run_operations_plainly()
    assert said == [False]
    assert random.truncated_normal([50], 7, "weights").numpy().tobytes() == before.tobytes()


def test_a_step_of_softmax_is_traced_without_what_is_slow_to_translate(small_digits: DataSet) -> None:
    """XLA goes through MLIR for each choice, and the gradient of gathering the labels is a hundred operations."""
    traced = make_engine(softmax.EXERCISE, {}, small_digits).trace().graph.as_graph_def()
    nodes = [*traced.node, *(node for inner in traced.library.function for node in inner.node_def)]
    operations = [node.op for node in nodes]
    assert not {"Select", "SelectV2", "UnsortedSegmentSum"} & set(operations)
    assert operations.count("GatherV2") == 2, "images and labels of the batch"
    assert "PartitionedCall" not in operations, "file order needs no function of its own"


def test_which_exercises_xla_compiles() -> None:
    """As was measured: dense models, and no convolutions. A new exercise is to be measured both ways before it stands
    here."""
    found = {one.id: one.jit for file in builtin_files() for one in import_exercises(file) if one.kind == "training"}
    dense = ("linear-regression", "softmax", "activations", "anomaly", "autoencoder", "gan", "memory", "perceptron")
    others = ("cnn", "imagenet-bench", "rnn", "transfer", "generalisation", "inception-ps", "ps-lab", "ps-regression")
    assert found == dict.fromkeys((*dense, "vae"), True) | dict.fromkeys(others, False)


@pytest.mark.parametrize(
    ("exercise", "compiled", "rule"),
    [(softmax.EXERCISE, True, keras.optimizers.Adam), (cnn.EXERCISE, False, FusedAdam)],
    ids=["compiled", "not compiled"],
)
def test_adam_is_one_operation_where_xla_does_not_compile(
    exercise: Exercise[Any], compiled: bool, rule: type, small_digits: DataSet
) -> None:
    engine = make_engine(exercise, {"optimizer": "adam"}, small_digits)
    block = engine.trace()
    functions = (block.function_def, *block.graph.as_graph_def().library.function)
    operations = {node.op for function in functions for node in function.node_def}
    assert block.function_def.attr["_XlaMustCompile"].b == compiled
    assert ("ResourceApplyAdam" in operations) != compiled
    assert type(engine.model.parts[0].optimizer.rule) is rule


def test_metrics_go_into_an_array_as_long_as_the_block_but_for_xla(small_digits: DataSet) -> None:
    """A call goes through the whole array; XLA's has the size it was compiled with."""
    found = {}
    for exercise in (cnn.EXERCISE, softmax.EXERCISE):
        graph = make_engine(exercise, {"steps": 5000}, small_digits).trace().graph
        (array,) = (one for one in graph.get_operations() if one.type == "TensorListReserve")
        found[exercise.id] = tf.get_static_value(array.inputs[1])
    assert found == {"cnn": None, "softmax": 5000}


def test_blocks_end_where_something_is_due(small_digits: DataSet) -> None:
    values: dict[str, Any] = {"steps": 23, "evaluate_every": 5, "checkpoint_every": 8}
    engine = make_engine(softmax.EXERCISE, values, small_digits, block_steps=lambda room: room)
    ends, evaluated, saved = [], [], []
    while not engine.done:
        engine.run_block()
        ends.append(engine.step)
        if engine.course.evaluation_due():
            engine.evaluate()
            evaluated.append(engine.step)
        if engine.course.checkpoint_due():
            saved.append(engine.step)
    assert ends == [5, 8, 10, 15, 16, 20, 23]
    assert evaluated == [5, 10, 15, 20, 23]
    assert saved == [8, 16]
    assert not engine.course.evaluation_due()
    with pytest.raises(RuntimeError, match="all 23 steps are done"):
        engine.run_block()


@pytest.mark.parametrize("epochs", [5, 40])
def test_evaluation_comes_twenty_times_or_after_each_epoch_and_at_the_end_by_default(
    epochs: int, small_digits: DataSet
) -> None:
    epoch = -(-len(small_digits.train) // 100)
    steps = epochs * epoch + 3
    every = min(epoch, -(-steps // 20))
    engine = make_engine(softmax.EXERCISE, {"steps": steps}, small_digits, block_steps=lambda room: room)
    ends = []
    while not engine.done:
        engine.run_block()
        ends.append(engine.step)
        assert engine.course.evaluation_due()
        assert set(engine.evaluate()) == {spec.name for spec in softmax.EXERCISE.metrics if not spec.per_step}
    assert ends == sorted({*range(every, steps, every), steps})
    assert every < epoch if epochs == 5 else every == epoch


def test_compiling_leaves_everything_as_it_was(small_digits: DataSet) -> None:
    for exercise, data in ((softmax.EXERCISE, small_digits), (linear_regression.EXERCISE, None)):
        engine = Engine(exercise, build(exercise.Settings, {"optimizer": "adam"}), 1, data)
        before = engine.variables
        assert engine.compile() > 0
        assert engine.step == 0
        assert all(np.array_equal(before[name], value) for name, value in engine.variables.items())


def test_a_changed_rate_acts_from_the_next_block_on() -> None:
    engine = make_engine(linear_regression.EXERCISE, {"steps": 3}, block_steps=sizes([1, 1, 1]))
    first = engine.run_block()
    engine.course.set_live("learning_rate", "0.02")
    w = [block.values[1][0] for block in (first, engine.run_block(), engine.run_block())]
    slow = train(make_engine(linear_regression.EXERCISE, {"steps": 3}))["W"]
    assert w[:2] == slow[:2].tolist()
    fast = make_engine(linear_regression.EXERCISE, {"steps": 3, "learning_rate": 0.02}, block_steps=sizes([1, 1, 1]))
    assert w[2] != slow[2]
    assert fast.course.live == engine.course.live == {"learning_rate": 0.02}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("learning_rate", 0, "must be greater than 0"),
        ("learning_rate", "fast", "expected a number"),
        ("momentum", 0.5, "cannot be changed while the run trains"),
        ("rate", 0.5, "'rate' cannot be changed .* Live values: learning_rate"),
    ],
)
def test_a_live_value_is_checked(name: str, value: object, words: str) -> None:
    engine = Engine(linear_regression.EXERCISE, build(linear_regression.EXERCISE.Settings, {}), 1)
    with pytest.raises(ProblemError, match=words):
        engine.course.set_live(name, value)
    assert engine.course.live == {"learning_rate": 0.01}


def test_a_run_stops_early_when_validation_accuracy_no_longer_rises(small_digits: DataSet, tmp_path: Path) -> None:
    values: dict[str, Any] = {"steps": 5000, "evaluate_every": 10, "patience": 3}
    engine = make_engine(softmax.EXERCISE, values, small_digits)
    accuracies: list[float] = []
    while not engine.done:
        engine.run_block()
        if engine.course.evaluation_due():
            accuracies.append(engine.evaluate()["validation_accuracy"])
    assert engine.course.stopped_early
    assert engine.step < 5000
    assert max(accuracies[-3:]) <= max(accuracies[:-3]) == accuracies[-4]
    engine.save(tmp_path)
    resumed = make_engine(softmax.EXERCISE, values, small_digits)
    resumed.restore(tmp_path)
    assert resumed.done


def test_evaluation_counts_every_sample_once_whatever_the_chunks() -> None:
    x = np.arange(2 * CHUNK + 7, dtype=np.float32)
    evaluator = Evaluator(
        "test", Samples(x, x), lambda batch: {"mean": batch.x, "ones": batch.x * 0 + 1}, ["test_mean", "test_ones"]
    )
    assert evaluator.evaluate() == {"test_mean": x.astype(np.float64).mean(), "test_ones": 1.0}


def test_a_set_of_which_no_metric_is_promised_is_not_measured(
    small_digits: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = tuple(spec for spec in softmax.Softmax.metrics if not spec.name.startswith("validation_"))
    monkeypatch.setattr(softmax.Softmax, "metrics", fewer)
    engine = make_engine(softmax.EXERCISE, {"steps": 2, "batch_size": 10}, small_digits)
    while not engine.done:
        engine.run_block()
    assert set(engine.evaluate()) == {"test_loss", "test_accuracy"}


def test_a_batch_mean_leaves_out_samples_without_weight() -> None:
    import tensorflow as tf

    x = tf.constant([1.0, 2.0, 300.0])
    assert float(Batch(x, x, tf.range(3), tf.constant([1.0, 1.0, 0.0])).mean(x)) == 1.5
    assert float(Batch(x, x, tf.range(3)).mean(x)) == 101.0


def test_a_batch_larger_than_the_set_becomes_the_set(small_digits: DataSet) -> None:
    engine = make_engine(softmax.EXERCISE, {"batch_size": 60_000, "steps": 2}, small_digits)
    assert engine.course.samples_per_step == engine.course.samples_per_epoch == len(small_digits.train)


def test_without_data_an_exercise_that_needs_some_is_refused() -> None:
    with pytest.raises(ProblemError, match="needs a data set"):
        Engine(softmax.EXERCISE, build(softmax.EXERCISE.Settings, {}), 1)


@pytest.mark.parametrize(
    "exercise", [linear_regression.EXERCISE, softmax.EXERCISE, cnn.EXERCISE], ids=lambda one: one.id
)
def test_cards_hold_together(exercise: Any) -> None:
    """Presets are valid, plots and goals name metrics that exist, hints have the form that unfolds."""
    card: ExerciseCard = exercise.card(source="text")
    metrics = {spec.name for spec in card.metrics}
    assert {name for plot in card.plots for name in plot.metrics} <= metrics
    assert {goal.metric for goal in card.goals} <= metrics
    names = [preset.name for preset in card.presets]
    assert {"slides", "tiny", card.baseline} <= set(names)
    assert all(check(describe(exercise.Settings), preset.values)[1] == () for preset in card.presets)
    assert card.presets[names.index("slides")].values == {}
    assert card.guide.startswith("## ")
    assert card.guide.count("\n> **Hint: ") >= 2
    assert "\n1. " in card.guide


def test_a_new_exercise_works_as_it_is_written(tmp_path: Path, small_digits: DataSet) -> None:
    path = write_template("round-shapes", tmp_path)
    assert path.name == "round_shapes.py"
    (exercise,) = import_exercises(ExerciseFile(path))
    assert (exercise.id, exercise.title, type(exercise).__name__) == ("round-shapes", "Round shapes", "RoundShapes")
    engine = make_engine(exercise, exercise.presets[0].values, small_digits)
    train(engine)
    assert engine.evaluate()["test_accuracy"] > 0.5


class RepeatsSettings(BatchSettings, frozen=True, kw_only=True):
    """Plain gradient descent, so that a weight is minus the sum of all gradients."""

    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 1.0
    batch_size: BatchSize = 2
    steps: Steps = 2


class Repeats(Exercise[RepeatsSettings]):
    """A part that is updated three times in a step, beside one that is updated once."""

    id = "repeats"
    title = "Repeats"
    Settings = RepeatsSettings
    metrics = (MetricSpec(name="often_loss", label=""), MetricSpec(name="once_loss", label=""))
    fresh = True

    def build(self, setup: Setup[RepeatsSettings]) -> Model:
        """The gradient of each weight is the mean of the batch."""
        often, once = tf.Variable(0.0), tf.Variable(0.0)

        def loss_of(weight: tf.Variable) -> Callable[[Batch, StepContext], Loss]:
            return lambda batch, _: Loss(weight * batch.mean(batch.x))

        parts = [
            Part("often", {"often": often}, loss_of(often), setup.optimizer(), 3, fresh_batches=self.fresh),
            Part("once", {"once": once}, loss_of(once), setup.optimizer()),
        ]
        x = np.arange(12, dtype=np.float32)
        return Model(parts=parts, train=Samples(x, x.astype(np.int32)))


class SameRepeats(Repeats):
    """All three updates by the same batch."""

    fresh = False


@pytest.mark.parametrize(
    ("kind", "often", "once"),
    [(Repeats, [0, 1, 2, 3, 4, 5], [0, 3]), (SameRepeats, [0, 0, 0, 1, 1, 1], [0, 1])],
)
def test_each_repetition_of_a_part_may_have_a_batch_of_its_own(
    kind: type[Repeats], often: list[int], once: list[int]
) -> None:
    """Goodfellow et al. (2014), algorithm 1: a new minibatch for each of the discriminator's k steps."""
    engine = make_engine(kind(), {})
    train(engine)
    means = np.arange(12).reshape(6, 2).mean(1)
    assert float(engine.variables["weights/often/often"]) == -means[often].sum()
    assert float(engine.variables["weights/once/once"]) == -means[once].sum()
