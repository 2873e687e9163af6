"""Memory: what a network still knows of the first steps of a sequence. After IT4Innovations' and CINECA's courses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson

GATED = ("gru", "lstm")
SYMBOLS, COPIED = 8, 4
"""Kinds of symbols, and how many of them a sequence asks for."""
BLANK, ASK = SYMBOLS, SYMBOLS + 1
"""What else a step of a sequence to copy may be: nothing, or the question for the next symbol."""
PERIODS = 8, 40
"""The shortest and the longest period of a wave, in steps."""
CLOSE = {"adding": 0.04, "sine": 0.1}
"""How far an answer may be off and be right. For sums that is half of what Hochreiter and Schmidhuber (1997) allow:
their 0.04 is of a target that is half the sum."""
SIZES = {"train": 20_000, "validation": 1000, "test": 1000}
LOOKED_AT = 500
"""Test sequences whose gradient the picture shows."""
ROWS = 16
"""Answers whose attention the picture shows: fewer than the shortest sequence has steps."""
SUMS = lesson.needs(task="adding", length=lesson.at_least(100), cell=GATED)
COPY = lesson.needs(task="copying", length=lesson.at_least(50), cell=GATED)
COPY_FAR = lesson.needs(task="copying", length=lesson.at_least(200))
WAVE = lesson.needs(task="sine", noise=lesson.at_least(0.3), length=lesson.at_most(100))


class MemorySettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """What is to be remembered, for how long, and by which network."""

    task: Annotated[
        str,
        lesson.Knob(
            "Task",
            "Adding: the sum of two marked numbers. Copying: the first four symbols once more, at the end. Sine: the"
            " next value of a noisy wave.",
            "Task",
            choices=lesson.choices(adding="Adding", copying="Copying", sine="Sine with noise"),
        ),
    ] = "adding"
    length: Annotated[int, lesson.size("Length", "How long each sequence is.", 20, 200, "Task", unit="steps")] = 100
    noise: Annotated[
        float,
        lesson.number(
            "Noise",
            "Standard deviation of what is added to each value of the wave, whose height is 1.",
            0,
            2,
            "Task",
            shown_when=lesson.Condition("task", ("sine",)),
        ),
    ] = 0.3
    cell: Annotated[
        str,
        lesson.Knob(
            "Cell",
            "What carries the first steps to the answer: a state that each step changes, or attention, which looks at"
            " all steps at once.",
            "Network",
            choices=lesson.choices(simple="Simple RNN", gru="GRU", lstm="LSTM", attention="Attention"),
        ),
    ] = "simple"
    keep: Annotated[
        float,
        lesson.number(
            "Keep",
            "How far open the gate that keeps the state is at the start of training: at 0 it keeps half of the state"
            " in each step, at 1 73 %, at 4 98 %.",
            -5,
            10,
            "Network",
            shown_when=lesson.Condition("cell", GATED),
        ),
    ] = 1.0
    units: Annotated[int, lesson.size("Units", "Numbers in the state.", 2, 256, "Network")] = 32
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 3e-3
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 2000


class Memory(lesson.Exercise[MemorySettings]):
    """A sequence goes in step by step, and at its end the network is asked for what it saw."""

    id = "memory"
    title = "Memory"
    subtitle = "what is left of the first step"
    chapter = "Networks"
    course = "IT4Innovations and CINECA, recurrent networks"
    minutes = 30
    summary = "Let a simple cell, GRU, LSTM and attention remember what they saw up to 200 steps ago."
    revision = 1
    jit = True

    def build(self, setup: lesson.Setup[MemorySettings]) -> lesson.Model:
        """A network between the steps of a sequence and the answers at its end."""
        options = setup.settings
        task = make_task(options, setup.seed)
        network = make_attention(setup, task) if options.cell == "attention" else make_recurrent(setup, task)

        def judged(x: tf.Tensor, y: tf.Tensor, nudge: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
            return task.judge(network.answers(x, nudge), y)

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            value, right = judged(batch.x, batch.y)
            return lesson.Loss(batch.mean(value), {"accuracy": batch.mean(right)})

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            value, right = judged(batch.x, batch.y)
            return {"loss": value, "accuracy": right, "guess": task.guess(batch.y)}

        test = task.sets["test"]
        x, y = tf.constant(test.x[:LOOKED_AT]), tf.constant(test.y[:LOOKED_AT])

        def gradients() -> tf.Tensor:
            """How much a sequence's loss depends on what the network has at each step: the length of its gradient."""
            nudge = tf.zeros([options.length, len(x), network.width])
            with tf.GradientTape() as tape:
                tape.watch(nudge)
                value = tf.reduce_sum(judged(x, y, nudge)[0])
            return tf.reduce_mean(tf.norm(tape.gradient(value, nudge), axis=2), 1)

        pictures: dict[str, Callable[[], tf.Tensor]] = {"gradients": gradients}
        if network.attention is not None:
            look, shown = network.attention, tf.constant(test.x[task.shown])
            pictures["attention"] = lambda: tf.reshape(look(shown), [-1, options.length])[:ROWS]
        part = lesson.Part("memory", network.variables, loss, setup.optimizer())
        held_out = {name: task.sets[name] for name in ("validation", "test")}
        return lesson.Model(
            parts=[part], train=task.sets["train"], evaluate=evaluate, evaluation_sets=held_out, pictures=pictures
        )

    metrics = (
        lesson.LOSS,
        lesson.each_step("accuracy", "Right in training", "higher", format="percent"),
        lesson.each_step("start_gradient", "Gradient at the first step"),
        lesson.VALIDATION_LOSS,
        lesson.at_evaluation("validation_accuracy", "Right in validation", "higher", format="percent"),
        lesson.TEST_LOSS,
        lesson.at_evaluation("test_accuracy", "Right in the test", "higher", format="percent"),
        lesson.at_evaluation("test_guess", "Loss without memory"),
    )
    plots = (
        lesson.plot("loss", "Loss", "loss", "test_loss", "test_guess", log=True),
        lesson.plot("accuracy", "Right answers", "accuracy", "test_accuracy", format="percent"),
        lesson.plot("start", "Gradient at the first step", "start_gradient", log=True),
    )
    pictures = (
        lesson.Bars("gradients", "Gradient norm at each step", log=True),
        lesson.ConfusionMatrix("attention", "Where the answer looks"),
    )
    baseline = "simple"
    presets = (
        lesson.preset("simple", "Simple RNN", "The state goes through one tanh in each step."),
        lesson.preset("gru", "GRU", "A gate says how much of the state stays.", cell="gru"),
        lesson.preset("lstm", "LSTM", "A memory that is added to, with three gates.", cell="lstm"),
        lesson.preset("attention", "Attention", "No state: it looks at every step.", cell="attention"),
        lesson.preset("tiny", "Tiny", "Short sequences, a few seconds.", steps=100, length=20, cell="attention"),
    )
    goals = (
        lesson.goal("sums", "Add over 100 steps", "test_accuracy >= 0.95", SUMS, question=2),
        lesson.goal("copy", "Copy over 50 steps", "test_accuracy >= 0.99", COPY),
        lesson.goal("far", "Copy over 200 steps", "test_accuracy >= 0.99", COPY_FAR, question=4),
        lesson.goal("wave", "Predict a wave", "test_accuracy >= 0.85", WAVE),
    )
    goal_details = {
        "sums": "95 % of the sums within 0.04, by a cell with gates.",
        "copy": "99 % of the symbols, by a cell with gates.",
        "far": "99 % of the symbols, by any network.",
        "wave": "85 % of the next values within 0.1.",
    }
    races = (
        lesson.race(
            "memory",
            "Memory race",
            "validation_loss",
            1000,
            "The same sums for all: which network remembers the first number?",
            *(lesson.lane(name, cell=name) for name in (*lesson.GATES, "attention")),
        ),
    )


# --- Tasks ------------------------------------------------------------------------------------------------------------

Made = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""Sequences [n, length, numbers in a step] or, of symbols, [n, length], and the answers [n, answers]."""


@dataclass(frozen=True)
class Task:
    """Sequences, and what is asked at their end: each of the last ``answers`` steps gives ``outputs`` numbers.

    ``see`` turns sequences into [batch, length, inputs]. ``judge`` takes what the network gives [batch, answers,
    outputs] and what is right; it returns the loss of each sequence and the share of its answers that are right.
    ``guess`` is the loss of the best answer without any memory. ``shown`` are the test sequences in a picture.
    """

    sets: dict[str, lesson.Samples]
    inputs: int
    answers: int
    outputs: int
    see: Callable[[tf.Tensor], tf.Tensor]
    judge: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
    guess: Callable[[tf.Tensor], tf.Tensor]
    shown: npt.NDArray[np.int64]


def make_task(options: MemorySettings, seed: int) -> Task:
    """The chosen task, with sequences made for this seed."""
    draw = np.random.default_rng(seed)
    make = {"adding": adding, "copying": copying, "sine": sine}[options.task]
    sets = {name: lesson.Samples(*make(draw, count, options)) for name, count in SIZES.items()}
    shown = np.arange(ROWS)
    if options.task == "copying":
        kinds = ASK + 1
        return Task(
            sets,
            inputs=kinds,
            answers=COPIED,
            outputs=SYMBOLS,
            see=lambda x: tf.one_hot(tf.cast(x, tf.int32), kinds),
            judge=judge_symbols,
            guess=lambda y: tf.fill([tf.shape(y)[0]], math.log(SYMBOLS)),
            shown=shown,
        )
    middle, close = {"adding": 1.0, "sine": 0.0}[options.task], CLOSE[options.task]
    if options.task == "adding":
        shown = np.argsort(sets["test"].x[:ROWS, :, 1].argmax(1), kind="stable")  # by the first mark

    def judge(given: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        error = given[:, 0, 0] - y[:, 0]
        return tf.square(error), tf.cast(tf.abs(error) < close, tf.float32)

    return Task(
        sets,
        inputs=sets["test"].x.shape[2],
        answers=1,
        outputs=1,
        see=tf.identity,
        judge=judge,
        guess=lambda y: tf.square(y[:, 0] - middle),
        shown=shown,
    )


def judge_symbols(given: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The cross-entropy of the symbols of each sequence, and the share of them that are right."""
    labels = tf.cast(y, tf.int32)
    value = lesson.cross_entropy(tf.reshape(given, [-1, SYMBOLS]), tf.reshape(labels, [-1]))
    right = tf.cast(tf.equal(tf.argmax(given, 2, tf.int32), labels), tf.float32)
    return tf.reduce_mean(tf.reshape(value, [-1, COPIED]), 1), tf.reduce_mean(right, 1)


def adding(draw: np.random.Generator, count: int, options: MemorySettings) -> Made:
    """Numbers from 0 to 1, of which one in each half is marked; their sum (Hochreiter and Schmidhuber, 1997)."""
    size, half, rows = (count, options.length), options.length // 2, np.arange(count)
    numbers, marks = draw.random(size, np.float32), np.zeros(size, np.float32)
    marks[rows, draw.integers(0, half, count)] = 1
    marks[rows, draw.integers(half, options.length, count)] = 1
    return np.stack([numbers, marks], 2), (numbers * marks).sum(1, keepdims=True)


def copying(draw: np.random.Generator, count: int, options: MemorySettings) -> Made:
    """Symbols, then nothing for a long time, then as many questions; the symbols in their order."""
    symbols = draw.integers(0, SYMBOLS, (count, COPIED)).astype(np.float32)
    x = np.full((count, options.length), BLANK, np.float32)
    x[:, :COPIED], x[:, -COPIED:] = symbols, ASK
    return x, symbols


def sine(draw: np.random.Generator, count: int, options: MemorySettings) -> Made:
    """Waves of any period and phase with noise; the next value of each, without noise."""
    period = draw.uniform(*PERIODS, (count, 1))
    angle = draw.uniform(0, 2 * math.pi, (count, 1)) + 2 * math.pi * np.arange(options.length + 1) / period
    wave = np.sin(angle).astype(np.float32)
    noise = options.noise * draw.standard_normal((count, options.length), np.float32)
    return (wave[:, :-1] + noise)[:, :, None], wave[:, -1:]


# --- Networks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """``answers`` turns sequences into [batch, answers, outputs].

    Its second argument [length, batch, ``width``], if there is one, is added to what the network has at each step: the
    gradient of that is the gradient at each step. ``attention`` gives the share [batch, answers, length] with which
    each answer looks at each step.
    """

    variables: dict[str, tf.Variable]
    width: int
    answers: Callable[[tf.Tensor, tf.Tensor | None], tf.Tensor]
    attention: Callable[[tf.Tensor], tf.Tensor] | None = None


def make_recurrent(setup: lesson.Setup[MemorySettings], task: Task) -> Network:
    """A cell that reads one step after the other. ``start``, the state before the first, is trained like all others."""
    options = setup.settings
    units, count, sums = options.units, lesson.STATES[options.cell], lesson.GATES[options.cell] * options.units
    width = count * units
    variables = {
        "start": tf.Variable(tf.zeros([width]), name="start"),
        "input": setup.truncated_normal("input", [task.inputs, sums], stddev=(2 / (task.inputs + units)) ** 0.5),
        "state": setup.truncated_normal("state", [units, sums], stddev=units**-0.5),
        "offset": tf.Variable(tf.zeros([sums]), name="offset"),
        "output": setup.truncated_normal("output", [units, task.outputs], stddev=units**-0.5),
        "output_offset": tf.Variable(tf.zeros([task.outputs]), name="output_offset"),
    }
    cell = lesson.recurrent_cell(options.cell, variables["state"], options.keep)
    silent = options.length - task.answers
    """Steps after which no answer is asked for."""

    def answers(x: tf.Tensor, nudge: tf.Tensor | None) -> tf.Tensor:
        seen = tf.transpose(tf.tensordot(task.see(x), variables["input"], 1) + variables["offset"], [1, 0, 2])

        def step(t: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            state = tf.concat(cell(seen[t], tf.split(state, count, 1)), 1)
            return t + 1, state if nudge is None else state + nudge[t]

        # A loop, because a graph with each step in it takes XLA a minute to compile.
        start = tf.tile(variables["start"][None], [tf.shape(x)[0], 1])
        more = (lambda t, _: t < silent, step, (0, start))
        state = tf.while_loop(*more, maximum_iterations=silent, parallel_iterations=1)[1]
        found = []
        for t in range(silent, options.length):
            state = step(t, state)[1]
            found.append(state[:, :units])
        return tf.tensordot(tf.stack(found, 1), variables["output"], 1) + variables["output_offset"]

    return Network(variables, width, answers)


def make_attention(setup: lesson.Setup[MemorySettings], task: Task) -> Network:
    """One head of attention from the last steps to all (Vaswani et al., 2017), and a layer for the answer.

    Each step has a place, a trained vector: without it, attention could not know which step comes first. ``start`` is
    the place of the first step.
    """
    options, units = setup.settings, setup.settings.units
    square = ("query", "key", "value", "hidden")
    variables = {
        "start": setup.truncated_normal("start", [1, units], stddev=0.5),
        "places": setup.truncated_normal("places", [options.length - 1, units], stddev=0.5),
        "input": setup.truncated_normal("input", [task.inputs, units], stddev=task.inputs**-0.5),
        **{name: setup.truncated_normal(name, [units, units], stddev=units**-0.5) for name in square},
        "hidden_offset": tf.Variable(tf.zeros([units]), name="hidden_offset"),
        "output": setup.truncated_normal("output", [units, task.outputs], stddev=units**-0.5),
        "output_offset": tf.Variable(tf.zeros([task.outputs]), name="output_offset"),
    }

    def seen_of(x: tf.Tensor) -> tf.Tensor:
        places = tf.concat([variables["start"], variables["places"]], 0)
        return tf.tanh(tf.tensordot(task.see(x), variables["input"], 1) + places)

    def shares(seen: tf.Tensor) -> tf.Tensor:
        query = tf.tensordot(seen[:, -task.answers :], variables["query"], 1)
        key = tf.tensordot(seen, variables["key"], 1)
        return tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * units**-0.5)

    def answers(x: tf.Tensor, nudge: tf.Tensor | None) -> tf.Tensor:
        seen = seen_of(x)
        if nudge is not None:
            seen += tf.transpose(nudge, [1, 0, 2])
        found = seen[:, -task.answers :] + tf.matmul(shares(seen), tf.tensordot(seen, variables["value"], 1))
        hidden = tf.nn.relu(tf.tensordot(found, variables["hidden"], 1) + variables["hidden_offset"])
        return tf.tensordot(hidden, variables["output"], 1) + variables["output_offset"]

    return Network(variables, units, answers, lambda x: shares(seen_of(x)))


EXERCISE = Memory()
