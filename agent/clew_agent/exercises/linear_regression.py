"""Linear regression: four points, a line, and the path of gradient descent. BSC guided lab, exercise 1."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import tensorflow as tf

from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.random import StepContext
from clew_agent.training.settings import LearningRate, OptimizerName, Steps, TrainingSettings
from clew_shared.cards import Goal, Lane, MetricSpec, PlotSpec, Preset, RaceSpec, Requirement, SurfaceSpec
from clew_shared.surface import Grid, make_surface

# The four points. They lie on the line y = -x + 1, so a perfect answer exists: W = -1, b = 1.
X = np.array([1.0, 2.0, 3.0, 4.0])
Y = np.array([0.0, -1.0, -2.0, -3.0])
START = (0.3, -0.3)
LONG_ENOUGH = Requirement("steps", least=100)
"""One step of the right length brings W or b to its place, and the next one away again."""

GUIDE = """\
## Find the line, then find it faster

Four points lie on a line y = W x + b. Your program does not know W and b; it starts with 0.3 and -0.3, looks at how
wrong the line is, and moves both numbers a little in the direction that makes the error smaller. After 1000 such
steps it knows the line.

## What to do

1. Press **Run** with the slides' values: gradient descent, rate 0.01, 1000 steps. W should end at -1 and b at 1.
2. Double the learning rate, then double it again. Find the rate at which the loss grows instead of shrinking.
3. Press **Race…** and let the optimizers run against each other from the same start. Then look at *Surface*: it shows
   the loss for every W and b, and the way that each run took. The run with 0.01 stays in the plot as the baseline.
4. Find an optimizer and numbers for it that bring the loss below 10⁻¹² within 200 steps.

## What to watch

The loss is on a logarithmic scale, where gradient descent ends as a straight line: every step removes the same share
of the error. Watch W and b as well. Which of them arrives first, and which optimizers overshoot?

## Questions

- Each step goes in the direction in which the loss falls fastest. Why can the loss still grow?
- Which of W and b arrives first, and how does the shape of the surface explain it?

> **Hint: the largest rate**
> The error shrinks only while the rate is below 2 divided by the largest curvature of the loss. Here that curvature
> is about 67, so the limit is near 0.0299. At 0.03 each step overshoots a little more than the last one.

> **Hint: why the line is straight**
> The loss is a valley: steep across, shallow along. After a few steps only the shallow direction is left, and there
> each step multiplies the error by the same number. Momentum adds up many small steps in that direction.

> **Hint: why Adam does not win**
> Adam divides each gradient by its recent size, so its steps are about as long as the rate, far from the answer and
> close to it. With 0.01 it needs 100 steps for a distance of 1. Give it a larger rate, or a schedule that lowers the
> rate at the end.
"""


class LinearRegressionSettings(TrainingSettings, frozen=True, kw_only=True):
    """The slides' values: plain gradient descent with a rate of 0.01, a thousand times."""

    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 0.01
    steps: Steps = 1000


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


def loss_at(W: Grid, b: Grid) -> Grid:
    """The loss for each pair of W and b, by plain NumPy: the ground of the picture *Surface*."""
    total: Grid = np.sum(np.square(W[..., None] * X + b[..., None] - Y), axis=-1)
    return total


class LinearRegression(Exercise[LinearRegressionSettings]):
    """y = W x + b in float64: XLA may reorder sums, and in float32 that would show."""

    id = "linear-regression"
    title = "Linear regression"
    subtitle = "four points, one line"
    chapter = "Convergence"
    course = "BSC guided lab, exercise 1"
    minutes = 10
    summary = "Fit a line to four points and race optimizers against plain gradient descent."
    guide = GUIDE
    Settings = LinearRegressionSettings
    revision = 1
    jit = True
    metrics = (
        MetricSpec(name="loss", label="Loss", dtype="float64", better="lower"),
        MetricSpec(name="W", label="W", dtype="float64"),
        MetricSpec(name="b", label="b", dtype="float64"),
    )
    plots = (
        PlotSpec(id="loss", title="Loss", metrics=("loss",), log=True, expected=slides_curve()),
        PlotSpec(id="weights", title="W and b", metrics=("W", "b")),
    )
    baseline = "slides"
    presets = (
        Preset(name="slides", title="Slides' values", help="Gradient descent, rate 0.01: the baseline of every race."),
        Preset(name="momentum", title="Momentum", values={"optimizer": "momentum"}),
        Preset(name="nesterov", title="Nesterov momentum", values={"optimizer": "nesterov"}),
        Preset(name="adagrad", title="Adagrad", values={"optimizer": "adagrad", "learning_rate": 0.1}),
        Preset(name="adadelta", title="Adadelta", values={"optimizer": "adadelta", "learning_rate": 1.0}),
        Preset(name="rmsprop", title="RMSprop", values={"optimizer": "rmsprop"}),
        Preset(name="adam", title="Adam", values={"optimizer": "adam"}),
        Preset(
            name="adam-cosine",
            title="Adam, cosine",
            values={"optimizer": "adam", "learning_rate": 0.1, "schedule": "cosine"},
        ),
        Preset(
            name="tiny", title="Tiny", values={"steps": 100}, help="A tenth of the steps, to see that everything works."
        ),
    )
    goals = (
        Goal(
            id="slope",
            text="W = -1",
            metric="W",
            op="near",
            value=-1.0,
            tolerance=0.01,
            detail="The line's slope, to one hundredth.",
            requires=(LONG_ENOUGH,),
        ),
        Goal(
            id="offset",
            text="b = 1",
            metric="b",
            op="near",
            value=1.0,
            tolerance=0.01,
            detail="Where it meets x = 0.",
            requires=(LONG_ENOUGH,),
        ),
        Goal(
            id="fast",
            text="Loss below 10⁻¹² at step 200",
            metric="loss",
            op="<=",
            value=1e-12,
            which="at",
            step=200,
            detail="Gradient descent at 0.01 is at 0.013 there, momentum 0.9 at 10⁻⁸.",
        ),
    )
    races = (
        RaceSpec(
            id="optimizers",
            title="Optimizer race",
            steps=400,
            target=0.001,
            help="Which optimizer needs the fewest steps to bring the loss below 0.001?",
            lanes=(
                Lane(name="SGD", values={"optimizer": "sgd", "learning_rate": 0.01}),
                Lane(name="Momentum", values={"optimizer": "momentum", "learning_rate": 0.01}),
                Lane(name="Nesterov", values={"optimizer": "nesterov", "learning_rate": 0.01}),
                Lane(name="Adagrad", values={"optimizer": "adagrad", "learning_rate": 0.5}),
                Lane(name="RMSprop", values={"optimizer": "rmsprop", "learning_rate": 0.02}),
                Lane(name="Adam", values={"optimizer": "adam", "learning_rate": 0.2}),
            ),
        ),
    )

    def surfaces(self) -> tuple[SurfaceSpec, ...]:
        """The valley in which every optimizer walks."""
        surface = make_surface(
            loss_at, title="Loss over W and b", metrics=("W", "b"), x=(-1.7, 0.7), y=(-1.3, 1.7), minimum=(-1.0, 1.0)
        )
        return (surface,)

    def build(self, setup: Setup[LinearRegressionSettings]) -> Model:
        """Two numbers to learn, one loss, one optimizer."""
        W = tf.Variable(START[0], dtype=tf.float64, name="W")
        b = tf.Variable(START[1], dtype=tf.float64, name="b")

        def loss(batch: Batch, _: StepContext) -> Loss:
            line = W * batch.x + b
            squares = tf.square(line - batch.y)
            return Loss(tf.reduce_sum(squares), {"W": W.read_value(), "b": b.read_value()})

        part = Part("line", {"W": W, "b": b}, loss, setup.optimizer())
        return Model(parts=[part], train=Samples(X, Y))


EXERCISE = LinearRegression()
