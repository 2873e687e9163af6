"""Layers on several devices: one after the other, as a pipeline of micro-batches, and Krizhevsky's hybrid. After
IT4Innovations' course.

The pipeline is GPipe's (Huang et al., "GPipe: Efficient training of giant neural networks using pipeline parallelism",
NeurIPS 2019): all micro-batches forward, then all backward, then one update by the mean gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson
from clew_agent.strategies import single
from clew_agent.strategies.mirrored import compute_devices, several_devices
from clew_agent.training import hybrid

STAGES, HYBRID = "stages", "hybrid"
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
MOST_STAGES = 16
COMPARED_STEPS = 10
TOLERANCE = 1e-5
"""How far losses may be apart, as a share: float32 sums in another order differ by about 1e-7 in the first step."""

WIDE = lesson.needs(cut=STAGES, batch_size=lesson.at_least(512), width=lesson.at_least(1024), steps=lesson.at_least(5))
BUBBLE = lesson.needs(WIDE, stages=lesson.at_least(4), devices=(1, 4, 8, 16))
GAIN = lesson.needs(WIDE, stages=lesson.at_most(4), devices=(1, 2, 4))
"""With several devices there is a stage on each, whatever ``stages`` says; so a goal asks for both numbers."""

Array = npt.NDArray[np.float64]
Events = Iterator[lesson.Event | None]
Result = TypeVar("Result")
Samples = tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]
"""Inputs [samples, ...] and labels of one step."""
Steps = Generator[None, None, Result]
"""Yields after each step; between them a measurement may be stopped."""


class ModelParallelSettings(lesson.Params, frozen=True, kw_only=True):
    """The network, how it is cut, and how it is trained."""

    cut: Annotated[
        str,
        lesson.Knob(
            "Cut",
            "stages: each device has some of the layers; hybrid: each device has all convolutions for its share of the"
            " batch, and some columns of each dense layer for the whole batch.",
            choices=(lesson.Choice(STAGES, "Stages"), lesson.Choice(HYBRID, "Hybrid")),
        ),
    ] = STAGES
    stages: Annotated[
        int,
        lesson.number(
            "Stages",
            "Parts of the network on one device. With several devices each has one stage, or one part of the hybrid.",
            2,
            16,
        ),
    ] = 4
    micro_batches: Annotated[
        int,
        lesson.size(
            "Micro-batches",
            f"How many, at most. Tried are {', '.join(map(str, MICRO_BATCHES))}, if they divide the batch.",
            1,
            32,
            shown_when=lesson.Condition("cut", (STAGES,)),
        ),
    ] = 8
    batch_size: Annotated[int, lesson.size("Batch size", "Number of images in one step.", 1, 10_000)] = 512
    layers: Annotated[
        int, lesson.number("Layers", "Dense layers in each stage, or hidden dense layers of the hybrid.", 1, 20)
    ] = 1
    width: Annotated[int, lesson.size("Width", "Inputs and outputs of each layer.", 16, 10_000)] = 1024
    learning_rate: lesson.LearningRate = 0.05
    steps: Annotated[int, lesson.size("Steps", "Training steps for each number of micro-batches.", 1, 1000)] = 20


ModelParallelSetup = lesson.Setup[ModelParallelSettings]


class ModelParallel(lesson.Measurement[ModelParallelSettings]):
    """The bubble and the time of a step, against the number of micro-batches."""

    id = "model-parallel"
    title = "Pipeline of layers"
    subtitle = "stages, micro-batches, bubbles"
    chapter = "Many devices"
    course = "IT4Innovations, deep-learning training on GPUs"
    minutes = 15
    revision = 1
    summary = "Cut a network into stages on several devices and fill the time in which they wait."
    datasets = ("mnist", "digits")

    def measure(self, setup: ModelParallelSetup) -> Events:
        """All parts of the network on one device, then each on its own."""
        chosen = setup.settings
        counts = micro_batch_counts(chosen.micro_batches, chosen.batch_size) if chosen.cut == STAGES else []
        yield lesson.Schema(id=0, metrics=self.metrics, steps=len(counts) or 2)
        devices = [device.name for device in compute_devices()]
        places = devices if len(devices) > 1 else devices * chosen.stages
        yield lesson.Log(text=placement_in_words(devices, len(places), "stage" if counts else "part"))
        yield from self._stages(setup, devices, places, counts) if counts else self._hybrid(setup, devices, places)

    def _stages(self, setup: ModelParallelSetup, devices: list[str], places: list[str], counts: list[int]) -> Events:
        """Without a pipeline, then with more and more micro-batches."""
        weights, batches, rate = initial_weights(len(places), setup), make_batches(setup), setup.settings.learning_rate
        classes = setup.require_data().classes
        whole = yield from train_stages(make_stages(devices[:1] * len(places), weights, classes), batches, 1, rate)
        for step, count in enumerate(counts, 1):
            run = yield from train_stages(make_stages(places, weights, classes), batches, count, rate)
            compare(whole.losses, run.losses, count)
            if count == 1:
                in_turn = run
            tasks, expected = schedule(run.durations), bubble_formula(len(places), count)
            yield lesson.points("Formula", count, expected, "Micro-batches", "Bubble")
            said = f"{counted(count, 'micro-batch')}: bubble {{:.1f}} %, by the formula {100 * expected:.1f} %"
            if len(devices) > 1:
                yield lesson.points("In turn", count, in_turn.seconds, "Micro-batches", "Time per step", y_unit="s")
            yield from results(step, "Pipeline", count, "Micro-batches", tasks, run.updates, whole.alone_seconds, said)
        yield from timeline(tasks)

    def _hybrid(self, setup: ModelParallelSetup, devices: list[str], places: list[str]) -> Events:
        """With the dense layers for the whole batch, then share by share."""
        chosen, data = setup.settings, setup.require_data()
        if chosen.batch_size < len(places):
            text = f"A batch of {chosen.batch_size} cannot be shared out among {len(places)} devices."
            raise lesson.problem("hybrid.batch", text, f"Take at least {len(places)} images.", "batch_size")
        weights = hybrid.initial_weights(data.image_shape, chosen.width, chosen.layers, data.classes, setup.seed)
        batches, rate = make_batches(setup), chosen.learning_rate
        losses, whole = yield from train_hybrid(hybrid.HybridNetwork(devices[:1], weights), batches, True, rate)
        for step, together in enumerate((True, False), 1):
            network = hybrid.HybridNetwork(places, weights)
            found, run = yield from train_hybrid(network, batches, together, rate)
            pieces = 1 if together else len(places)
            compare(losses, found, pieces, "piece")
            tasks = schedule_hybrid(run.convolutions, run.dense)
            how = "the whole batch at once" if together else "the share of one device after another"
            said = f"Dense layers take {how}: bubble {{:.1f}} %"
            yield from results(step, "Hybrid", pieces, "Pieces", tasks, run.updates, whole.seconds, said)
        cut, parallel = network.sent_bytes(chosen.batch_size)
        text = f"In a step each device sends {cut / 1e6:.2f} MB. If it were all data-parallel, it would send"
        yield lesson.Log(text=f"{text} {parallel / 1e6:.2f} MB.")
        yield from timeline(tasks)

    metrics = (
        lesson.at_evaluation("bubble", "Bubble", "lower", format="percent"),
        lesson.at_evaluation("gain", "Faster than one device", "higher", unit="×"),
    )
    measured = (
        lesson.lines("bubble", "Bubble", "Measured", "Formula", log_x=True, format="percent"),
        lesson.lines("time", "Time per step", "One device", "In turn", "Pipeline", "Hybrid", log_x=True),
        lesson.lines("timeline", "One step", *(f"Device {k}" for k in range(1, MOST_STAGES + 1)), form="timeline"),
    )
    strategies = (single.CARD, several_devices("Each device holds one stage of the network."))
    presets = (
        lesson.preset("four", "Four stages", "Up to 8 micro-batches."),
        lesson.preset(
            "deep", "Eight stages", "Twice as many layers, and up to 32 micro-batches.", stages=8, micro_batches=32
        ),
        lesson.preset(
            "hybrid",
            "Hybrid",
            "Convolutions by shares of the batch, dense layers by columns.",
            cut=HYBRID,
            layers=2,
            batch_size=128,
        ),
        lesson.preset(
            "tiny",
            "Tiny",
            "The built-in small digits, up to 4 micro-batches.",
            data="digits",
            batch_size=128,
            width=256,
            micro_batches=4,
            steps=10,
        ),
    )
    goals = (
        lesson.goal("bubble", "Bubble below 20 %", "bubble <= 0.2", BUBBLE, question=1, quiet=True),
        lesson.goal("gain", "Twice as fast as one device", "gain >= 2", GAIN, quiet=True),
    )
    goal_details = {
        "bubble": "With the largest number of micro-batches.",
        "gain": "With the largest number of micro-batches, computed from the measured times of all tasks.",
    }


# The network


def dense_layers(variables: Sequence[tf.Variable], x: tf.Tensor, ends_in_scores: bool) -> tf.Tensor:
    """What the layers of a stage make of ``x`` [samples, width]."""
    pairs = list(zip(variables[::2], variables[1::2], strict=True))
    for number, (W, b) in enumerate(pairs, 1):
        x = tf.matmul(x, W) + b
        if not ends_in_scores or number < len(pairs):
            x = tf.tanh(x)  # smooth: at the corner of a ReLU rounding alone would change the gradient
    return x


def initial_weights(stages: int, setup: ModelParallelSetup) -> list[hybrid.Weights]:
    """For each stage the matrix and offset of each layer (LeCun et al., "Efficient BackProp", 1998)."""
    generator, width = np.random.default_rng(setup.seed), setup.settings.width
    layers = range(setup.settings.layers)
    return [[one for _ in layers for one in hybrid.initial_layer(generator, width, width)] for _ in range(stages)]


def make_stages(devices: Sequence[str], weights: Sequence[hybrid.Weights], classes: int) -> list[hybrid.Part]:
    """A stage on each of ``devices``, which may be the same one. The first outputs of the last stage are the scores of
    the classes, the others are not used."""

    def loss(output: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(lesson.cross_entropy(output[:, :classes], labels))

    *before, (device, own) = zip(devices, weights, strict=True)
    stages = [hybrid.Part(*one, partial(dense_layers, ends_in_scores=False)) for one in before]
    return [*stages, hybrid.Part(device, own, partial(dense_layers, ends_in_scores=True), loss)]


def make_batches(setup: ModelParallelSetup) -> list[Samples]:
    """Inputs and labels of each step: images [samples, height, width, channels] for the hybrid. For stages a fixed
    random matrix brings them to the width of the layers, so all stages are equal."""
    data, chosen, generator = setup.require_data(), setup.settings, np.random.default_rng([setup.seed, 1])
    features = data.train.x.shape[1]
    size = [features, chosen.width]
    to_width = generator.normal(0, features**-0.5, size).astype(np.float32) if chosen.cut == STAGES else None
    found = []
    for _ in range(chosen.steps):
        index = generator.integers(len(data.train), size=chosen.batch_size)
        x = np.asarray(data.train.x[index], np.float32)
        x = x.reshape(-1, *data.image_shape) if to_width is None else x @ to_width
        found.append((x, np.asarray(data.train.y[index], np.int32)))
    return found


# Training


class TimedRun(NamedTuple):
    """A training: the loss of each step, and the usual seconds of each task [stage, micro-batch, forward and backward]
    and of each stage's update [stage]."""

    losses: Array
    durations: Array
    updates: Array

    @property
    def seconds(self) -> float:
        """Of a step in which no two devices work at the same time."""
        return float(self.durations.sum() + self.updates.sum())

    @property
    def alone_seconds(self) -> float:
        """Of a step of one device that has all layers. It keeps what it computed on the way forward, while each task
        backward computes that again: so those tasks alone are its work."""
        return float(self.durations[..., 1].sum() + self.updates.sum())


def train(step: Callable[[Samples, float], Any], batches: Sequence[Samples], rate: float) -> Steps[list[Array]]:
    """Does a ``step`` for each of ``batches``, and yields after each; returns an array of each thing they returned.

    The first one is done twice, at first with a rate of 0: in it functions are traced, and it does not count.
    """
    step(batches[0], 0.0)
    found = []
    for batch in batches:
        found.append(step(batch, rate))
        yield
    return [np.array(part) for part in zip(*found, strict=True)]


def train_stages(stages: Sequence[hybrid.Part], batches: Sequence[Samples], m: int, rate: float) -> Steps[TimedRun]:
    """Trains all ``stages`` with ``m`` micro-batches in a step."""
    losses, durations, updates = yield from train(partial(pipeline_step, stages, m), batches, rate)
    # All micro-batches of a stage are the same work, so the median is over them as well.
    usual = np.broadcast_to(np.median(durations, (0, 2))[:, None], durations.shape[1:])
    return TimedRun(losses, usual, np.median(updates, 0))


def train_hybrid(
    network: hybrid.HybridNetwork, batches: Sequence[Samples], together: bool, rate: float
) -> Steps[tuple[Array, hybrid.HybridStep]]:
    """Trains ``network``; returns the loss of each step, and a step with the usual seconds."""
    losses, *seconds = yield from train(lambda batch, by: network.step(*batch, together, by), batches, rate)
    return losses, hybrid.HybridStep(float(losses[-1]), *(np.median(one, 0) for one in seconds))


def pipeline_step(stages: Sequence[hybrid.Part], m: int, batch: Samples, rate: float) -> tuple[float, Array, Array]:
    """One step of GPipe with ``m`` micro-batches, one task after the other; returns its loss, and the seconds of all
    tasks and updates.

    ``inputs[k][j]`` is what stage k gets of micro-batch j. A task is timed with the transfer of what it gets.
    Stages take turns, so what else disturbs the processor disturbs all of them alike.
    """
    p = len(stages)
    durations = np.zeros([p, m, 2])
    inputs = [[tf.constant(part) for part in np.split(batch[0], m)], *([] for _ in stages)]
    targets = [tf.constant(part) for part in np.split(batch[1], m)]
    for j in range(m):
        for k in range(p):
            output, durations[k, j, 0] = hybrid.timed(partial(stages[k].forward, inputs[k][j]))
            inputs[k + 1].append(output)
    losses: list[tf.Tensor] = []
    for j in range(m):
        for k in reversed(range(p)):
            (targets[j], loss), durations[k, j, 1] = hybrid.timed(partial(stages[k].backward, inputs[k][j], targets[j]))
            losses += [loss] if k == p - 1 else []
    updates = [hybrid.timed(partial(stage.update, rate / m, stage.sums))[1] for stage in stages]
    return float(np.mean([loss.numpy() for loss in losses])), durations, np.array(updates)


def compare(expected: Array, losses: Array, micro_batches: int, piece: str = "micro-batch") -> None:
    """Raise ``ProblemError`` unless the first ``COMPARED_STEPS`` losses are the same but for rounding."""
    one, other = expected[:COMPARED_STEPS], losses[:COMPARED_STEPS]
    same = np.isclose(other, one, rtol=TOLERANCE, atol=0, equal_nan=True)
    if not same.all():
        step, count = int(np.argmin(same)), counted(micro_batches, piece)
        text = f"With {count} the loss of step {step + 1} is {other[step]:.7g}, on one device {one[step]:.7g}."
        hint = f"Rounding explains a share of {TOLERANCE:g}. Take a smaller learning rate, which enlarges it less."
        raise lesson.problem("pipeline.differs", text, hint, "learning_rate")


# The timeline


class Task(NamedTuple):
    """One micro-batch in one stage, forward or backward, from ``start`` to ``end`` in seconds; counted from 0."""

    stage: int
    micro_batch: int
    backward: bool
    start: float
    end: float


def schedule(durations: Array) -> list[Task]:
    """When each task runs if each stage has a device of its own.

    ``durations`` are the seconds of each task [stage, micro-batch, forward and backward]. A device takes its
    micro-batches in their order, all forward and then all backward, each as soon as the stage before it (backward: the
    stage after it) has done the same micro-batch.
    """
    stages, micro_batches, _ = durations.shape
    free = [0.0] * stages
    tasks = []
    for backward in (False, True):
        for j in range(micro_batches):
            ready = 0.0
            for k in reversed(range(stages)) if backward else range(stages):
                start = max(free[k], ready)
                free[k] = ready = start + float(durations[k, j, int(backward)])
                tasks.append(Task(k, j, backward, start, ready))
    return tasks


def schedule_hybrid(convolutions: Array, dense: Array) -> list[Task]:
    """When each task of the hybrid runs if each part has a device of its own.

    ``convolutions`` are the seconds [device, forward and backward], ``dense`` those of the dense layers [piece, task,
    device]. A task of a dense layer needs the results of the one before it from all devices.
    """
    pieces, tasks_each, _ = dense.shape
    made = free = convolutions[:, 0]
    tasks = [Task(k, k, False, 0.0, end) for k, end in enumerate(made.tolist())]
    for j in range(pieces):
        ready = made.max() if pieces == 1 else made[j]
        for number in range(tasks_each):
            start = np.maximum(free, ready)
            free = start + dense[j, number]
            ends, backward = zip(start.tolist(), free.tolist(), strict=True), number >= tasks_each // 2
            tasks += [Task(k, j, backward, *own) for k, own in enumerate(ends)]
            ready = free.max()
    ends = zip(free.tolist(), (free + convolutions[:, 1]).tolist(), strict=True)
    return [*tasks, *(Task(k, k, True, *own) for k, own in enumerate(ends))]


def bubble(tasks: Sequence[Task], stages: int) -> float:
    """The share of the time in which devices wait."""
    return 1 - sum(task.end - task.start for task in tasks) / (stages * max(task.end for task in tasks))


def bubble_formula(stages: int, micro_batches: int) -> float:
    """The same for equal tasks (Huang et al., 2019, section 2.3)."""
    return (stages - 1) / (micro_batches + stages - 1)


def step_seconds(tasks: Sequence[Task], updates: Array) -> float:
    """Until the last stage is updated: each is as soon as its own last task has ended."""
    return max(task.end + float(updates[task.stage]) for task in tasks)


# Words and points


def micro_batch_counts(most: int, batch: int) -> list[int]:
    """Those of ``MICRO_BATCHES`` that are wanted and that divide the batch."""
    return [count for count in MICRO_BATCHES if count <= most and batch % count == 0]


def counted(number: int, piece: str) -> str:
    """A number with its noun in singular or plural."""
    return f"{number} {piece}" if number == 1 else f"{number} {piece}{'es' if piece.endswith('ch') else 's'}"


def results(
    step: int, line: str, x: int, x_label: str, tasks: Sequence[Task], updates: Array, alone: float, said: str
) -> Iterator[lesson.Event]:
    """The bubble and the seconds of a step, beside those ``alone`` on one device. ``said`` is the sentence for the log,
    with a ``{}`` for the bubble in percent."""
    share, seconds = bubble(tasks, len(updates)), step_seconds(tasks, updates)
    yield lesson.points("Measured", x, share, x_label, "Bubble")
    for name, value in (("One device", alone), (line, seconds)):
        yield lesson.points(name, x, value, x_label, "Time per step", y_unit="s")
    yield lesson.Evaluation(step=step, values={"bubble": share, "gain": alone / seconds})
    yield lesson.Log(text=f"{said.format(100 * share)}; losses are those of one device.")


def placement_in_words(devices: Sequence[str], count: int, part: str = "stage") -> str:
    """Where the parts are, and what the timeline can say therefore."""
    names, computed = lesson.devices_in_words(devices), "the timeline is computed from the time of each task alone"
    if len(devices) == 1:
        return f"All {count} {part}s are on {names}: {computed}, as if each {part} had a device of its own."
    return f"One {part} on each of {names}: {computed}."


def timeline(tasks: Sequence[Task]) -> Iterator[lesson.Series]:
    """A row for each device: from each x on it works on micro-batch y, on -y backward, on none for 0."""
    for stage in sorted({task.stage for task in tasks}):
        own = (task for task in tasks if task.stage == stage)
        bars = [(task.start, task.end, (task.micro_batch + 1) * (-1 if task.backward else 1)) for task in own]
        yield lesson.row_of_bars(f"Device {stage + 1}", bars, "Micro-batch")


EXERCISE = ModelParallel()
