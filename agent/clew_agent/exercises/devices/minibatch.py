"""The batch size: time per sample, memory and accuracy, and where the sweet spot is. After IT4Innovations' course."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import psutil
import tensorflow as tf

from clew_agent import lesson
from clew_agent.training.engine import Engine

BATCH_SIZES = (1, 8, 32, 128, 512, 2048)
RATE_AT = 32
"""The batch size for which the learning rate is meant when the rate is scaled."""
WARM_UP_STEPS = 20
SAMPLES = 50_000
Samples = Annotated[int, lesson.size("Samples", "Training samples for each batch size.", 1000, 10_000_000)]
FASTER = lesson.needs(largest=lesson.at_least(512), samples=lesson.at_least(SAMPLES), hidden=lesson.at_least(256))
ACCURATE = lesson.needs(largest=lesson.at_least(2048), samples=SAMPLES)
DIGITS = lesson.needs(largest=lesson.at_least(512), samples=SAMPLES)


class MinibatchSettings(lesson.Params, frozen=True, kw_only=True):
    """The network, how it is trained, and how far the batch size goes."""

    optimizer: lesson.OptimizerName = "sgd"
    learning_rate: lesson.LearningRate = 0.1
    scale_rate: Annotated[
        bool, lesson.Knob("Scale the rate", f"Multiply the learning rate by the batch size divided by {RATE_AT}.")
    ] = False
    samples: Samples = SAMPLES
    hidden: Annotated[int, lesson.size("Hidden units", "Size of the layer in the middle.", 1, 10_000)] = 256
    largest: Annotated[
        int, lesson.number("Largest batch", f"Batch sizes are {', '.join(map(str, BATCH_SIZES))}, up to this.", 1, 2048)
    ] = 2048


class NetworkSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """One training with one batch size."""

    hidden: Annotated[int, lesson.Knob("Hidden units")] = 256


class Network(lesson.Exercise[NetworkSettings]):
    """Two layers: what is trained with each batch size."""

    id = "minibatch-network"
    title = "Two layers"
    jit = True

    def build(self, setup: lesson.Setup[NetworkSettings]) -> lesson.Model:
        """A hidden layer of rectified linear units."""
        data, hidden = setup.require_data(), setup.settings.hidden
        features = data.train.x.shape[1]
        W1 = setup.truncated_normal("W1", [features, hidden], stddev=(2 / features) ** 0.5)
        b1 = tf.Variable(tf.zeros([hidden]), name="b1")
        W2 = setup.truncated_normal("W2", [hidden, data.classes], stddev=(1 / hidden) ** 0.5)
        b2 = tf.Variable(tf.zeros([data.classes]), name="b2")

        def scores(x: tf.Tensor) -> tf.Tensor:
            return tf.matmul(tf.nn.relu(tf.matmul(x, W1) + b1), W2) + b2

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            return lesson.Loss(batch.mean(lesson.cross_entropy(scores(batch.x), batch.y)))

        part = lesson.Part("network", {"W1": W1, "b1": b1, "W2": W2, "b2": b2}, loss, setup.optimizer())
        return lesson.Model(
            parts=[part],
            evaluate=lambda batch: {"accuracy": lesson.correct(scores(batch.x), batch.y)},
            evaluation_sets=setup.held_out(),
        )

    metrics = (lesson.each_step("loss", "Loss"), lesson.at_evaluation("test_accuracy", ""))


class Minibatch(lesson.Measurement[MinibatchSettings]):
    """Time per sample, memory and test accuracy against the batch size."""

    id = "minibatch"
    title = "Batch-size sweep"
    subtitle = "time, memory, accuracy"
    chapter = "Many devices"
    course = "IT4Innovations, deep-learning training on GPUs"
    minutes = 15
    summary = "Train one network with batches of 1 to 2,048 samples and find the sweet spot."
    datasets = ("mnist", "digits")
    revision = 1

    def measure(self, setup: lesson.Setup[MinibatchSettings]) -> Iterator[lesson.Event | None]:
        """One training after the other, the smallest batches first."""
        chosen, data = setup.settings, setup.require_data()
        sizes = batch_sizes(chosen.largest, len(data.train))
        yield lesson.Schema(id=0, metrics=self.metrics, steps=len(sizes))
        first = 0.0
        train(Engine(Network(), network_settings(chosen, RATE_AT), setup.seed, data), WARM_UP_STEPS)
        for step, size in enumerate(sizes, 1):
            held = restart_peak()
            engine = Engine(Network(), network_settings(chosen, size), setup.seed, data)
            engine.compile()
            seconds = 0.0
            while not engine.done:
                seconds += engine.run_block().seconds
                yield None
            measured = max(peak_bytes() - held, 0)
            each = seconds / (engine.steps * size)
            accuracy = engine.evaluate()["test_accuracy"]
            first = first or each
            yield lesson.points("Time per sample", size, each, "Batch size", "Time per sample", y_unit="s")
            yield lesson.points("Test accuracy", size, accuracy, "Batch size", "Test accuracy")
            yield lesson.points("Measured", size, measured, "Batch size", "Memory", y_unit="B")
            counted = counted_bytes(data.train.x.shape[1], chosen.hidden, data.classes, size)
            yield lesson.points("Counted", size, counted, "Batch size", "Memory", y_unit="B")
            yield lesson.Evaluation(step=step, values={"gain": first / each, "test_accuracy": accuracy})
            yield lesson.Log(
                text=f"Batch size {size:,}: {engine.steps:,} updates, {100 * accuracy:.2f} % of the test images."
            )

    metrics = (
        lesson.at_evaluation("gain", "Faster per sample", "higher", unit="×"),
        lesson.at_evaluation("test_accuracy", "Test accuracy", "higher", format="percent"),
    )
    measured = (
        lesson.lines("time", "Time per sample", "Time per sample", log_x=True, log_y=True),
        lesson.lines("accuracy", "Test accuracy", "Test accuracy", log_x=True, format="percent"),
        lesson.lines("memory", "Memory", "Measured", "Counted", log_x=True, log_y=True),
    )
    presets = (
        lesson.preset("course", "Same rate", "Learning rate 0.1 for every batch size."),
        lesson.preset("scaled", "Rate grows with the batch", "The linear scaling rule.", scale_rate=True),
        lesson.tiny(samples=3000, hidden=32, largest=512),
    )
    goals = (
        lesson.goal("faster", "4 times faster per sample", "best gain >= 4", FASTER, question=1, quiet=True),
        lesson.goal("accurate", "90 % with the largest batch", "test_accuracy >= 0.9 on mnist", ACCURATE),
        lesson.goal("digits", "88 % with the largest batch", "test_accuracy >= 0.88 on digits", DIGITS, question=1),
    )
    goal_details = {
        "faster": "The best batch size against the smallest.",
        "accurate": "From the same number of samples: change the rate, the optimizer or the network.",
        "digits": "On the small digits, whose largest batch is 512. The course's values reach 85.7 to 87.7 %.",
    }


def batch_sizes(largest: int, samples: int) -> list[int]:
    """Those of ``BATCH_SIZES`` that are wanted and that the data set can fill."""
    return [size for size in BATCH_SIZES if size <= min(largest, samples)]


def network_settings(chosen: MinibatchSettings, batch: int) -> NetworkSettings:
    """The same number of samples with another batch size: at least one step, and evaluated at the end only."""
    steps = max(round(chosen.samples / batch), 1)
    return NetworkSettings(
        optimizer=chosen.optimizer,
        learning_rate=chosen.learning_rate * (batch / RATE_AT if chosen.scale_rate else 1),
        batch_size=batch,
        steps=steps,
        evaluate_every=steps,
        order="shuffle",
        hidden=chosen.hidden,
    )


def restart_peak() -> int:
    """Bytes held now, of a GPU where there is one, else by this process. The peak is counted from here on, where the
    system can: TensorFlow for a GPU, Linux for a process."""
    gc.collect()  # the engine before is a ring of objects
    if tf.config.list_logical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")
        return int(tf.config.experimental.get_memory_info("GPU:0")["current"])
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return int(psutil.Process().memory_info().rss)


def peak_bytes() -> int:
    """The most bytes held since then; those held now where nobody counts the peak."""
    if tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return int(psutil.Process().memory_info().rss)


def train(engine: Engine, steps: int) -> None:
    """The first training of a process, which takes memory and time that no later one does. Its result is not used."""
    engine.compile()
    engine.run_block(min(steps, engine.steps))
    engine.evaluate()


def counted_bytes(features: int, hidden: int, classes: int, batch: int) -> int:
    """What one step needs at least, in float32: the weights and their gradients, the samples of the batch, and the
    values of both layers with their gradients."""
    weights = (features + 1) * hidden + (hidden + 1) * classes
    return 4 * (2 * weights + batch * (features + 2 * hidden + 2 * classes))


EXERCISE = Minibatch()
