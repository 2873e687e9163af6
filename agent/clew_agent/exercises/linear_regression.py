"""Linear regression: four points, a line, and the path of gradient descent. BSC guided lab, exercise 1."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import tensorflow as tf

from clew_agent import lesson

# The four points. They lie on the line y = -x + 1, so a perfect answer exists: W = -1, b = 1.
X = np.array([1.0, 2.0, 3.0, 4.0])
Y = np.array([0.0, -1.0, -2.0, -3.0])
START = (0.3, -0.3)
LONG_ENOUGH = lesson.needs(steps=lesson.at_least(100))
"""One step of the right length brings W or b to its place, and the next one away again."""


class LinearRegressionSettings(lesson.TrainingSettings, frozen=True, kw_only=True):
    """The slides' values: plain gradient descent with a rate of 0.01, a thousand times."""

    optimizer: lesson.OptimizerName = "sgd"
    learning_rate: lesson.LearningRate = 0.01
    steps: lesson.Steps = 1000


def slides_curve(steps: int = 1000, points: int = 40) -> tuple[tuple[float, float], ...]:
    """The slides' loss by plain arithmetic, as (step, loss) at about ``points`` steps: what to expect of a first run.

    Every run begins with it. For four points Python's own numbers are four times as fast as NumPy's arrays. Since
    Python 3.12 ``sum`` adds more exactly than NumPy, so it is not used: the catalogue has the curve.
    """
    w, b = START
    samples = list(zip(X.tolist(), Y.tolist(), strict=True))
    curve = []
    for step in range(steps):
        errors = [w * x + b - y for x, y in samples]
        curve.append((float(step), reduce(add, [error * error for error in errors])))
        slope = reduce(add, [2 * error * x for error, (x, _) in zip(errors, samples, strict=True)])
        w, b = w - 0.01 * slope, b - 0.01 * reduce(add, [2 * error for error in errors])
    return tuple(curve[:: steps // points])


def loss_at(W: lesson.Grid, b: lesson.Grid) -> lesson.Grid:
    """The loss for each pair of W and b, by plain NumPy: the ground of the picture *Surface*."""
    total: lesson.Grid = np.sum(np.square(W[..., None] * X + b[..., None] - Y), axis=-1)
    return total


class LinearRegression(lesson.Exercise[LinearRegressionSettings]):
    """y = W x + b in float64: XLA may reorder sums, and in float32 that would show."""

    id = "linear-regression"
    title = "Linear regression"
    subtitle = "four points, one line"
    chapter = "Convergence"
    course = "BSC guided lab, exercise 1"
    minutes = 10
    summary = "Fit a line to four points and race optimizers against plain gradient descent."
    revision = 1
    plays = True
    jit = True

    def surfaces(self) -> tuple[lesson.SurfaceSpec, ...]:
        """The valley in which every optimizer walks."""
        surface = lesson.make_surface(
            loss_at, title="Loss over W and b", metrics=("W", "b"), x=(-1.7, 0.7), y=(-1.3, 1.7), minimum=(-1.0, 1.0)
        )
        return (surface,)

    def build(self, setup: lesson.Setup[LinearRegressionSettings]) -> lesson.Model:
        """Two numbers to learn, one loss, one optimizer."""
        W = tf.Variable(START[0], dtype=tf.float64, name="W")
        b = tf.Variable(START[1], dtype=tf.float64, name="b")

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            line = W * batch.x + b
            squares = tf.square(line - batch.y)
            return lesson.Loss(tf.reduce_sum(squares), {"W": W.read_value(), "b": b.read_value()})

        part = lesson.Part("line", {"W": W, "b": b}, loss, setup.optimizer())
        return lesson.Model(parts=[part], train=lesson.Samples(X, Y))

    metrics = (
        lesson.MetricSpec(name="loss", label="Loss", dtype="float64", better="lower"),
        lesson.MetricSpec(name="W", label="W", dtype="float64"),
        lesson.MetricSpec(name="b", label="b", dtype="float64"),
    )
    plots = (
        lesson.plot("loss", "Loss", "loss", log=True, expected=slides_curve()),
        lesson.plot("weights", "W and b", "W", "b"),
    )
    baseline = "slides"
    presets = (
        lesson.preset("slides", "Slides' values", "Gradient descent, rate 0.01: the baseline of every race."),
        lesson.preset("momentum", "Momentum", optimizer="momentum"),
        lesson.preset("nesterov", "Nesterov momentum", optimizer="nesterov"),
        lesson.preset("adagrad", "Adagrad", optimizer="adagrad", learning_rate=0.1),
        lesson.preset("adadelta", "Adadelta", optimizer="adadelta", learning_rate=1.0),
        lesson.preset("rmsprop", "RMSprop", optimizer="rmsprop"),
        lesson.preset("adam", "Adam", optimizer="adam"),
        lesson.preset("adam-cosine", "Adam, cosine", optimizer="adam", learning_rate=0.1, schedule="cosine"),
        lesson.preset("tiny", "Tiny", "A tenth of the steps, to see that everything works.", steps=100),
    )
    goals = (
        lesson.goal("slope", "W = -1", f"W = {-1.0} ± 0.01", LONG_ENOUGH),
        lesson.goal("offset", "b = 1", "b = 1.0 ± 0.01", LONG_ENOUGH),
        lesson.goal("fast", "Loss below 10⁻¹² at step 200", "loss <= 1e-12 at step 200"),
    )
    goal_details = {
        "slope": "The line's slope, to one hundredth.",
        "offset": "Where it meets x = 0.",
        "fast": "Gradient descent at 0.01 is at 0.013 there, momentum 0.9 at 10⁻⁸.",
    }
    races = (
        lesson.optimizer_race(
            400,
            "Which optimizer needs the fewest steps to bring the loss below 0.001?",
            [("sgd", 0.01), ("momentum", 0.01), ("nesterov", 0.01), ("adagrad", 0.5), ("rmsprop", 0.02), ("adam", 0.2)],
            metric="loss",
            target=0.001,
        ),
    )


EXERCISE = LinearRegression()
