"""Softmax or the CNN on parameter servers: asynchronous, in step, bounded, lock-free. NCSA, IT4Innovations, CINECA."""

from __future__ import annotations

from typing import Annotated

from clew_agent.exercises import cnn, softmax
from clew_agent.strategies import local_sgd, mirrored, parameter_server, single
from clew_agent.training.exercise import Exercise, Model, Setup
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, Steps
from clew_shared.cards import Goal, Preset, Requirement
from clew_shared.params import Choice, Knob

ASKED = "What becomes of an old gradient in each of the four modes, and who waits for whom?"
GUIDE = f"""\
## What does an old gradient cost?

Workers read the weights, compute a gradient and send it to a server. Meanwhile others have changed the weights: the
gradient belongs to weights that no longer exist. How much that matters depends on how old it is (its *staleness*), and
on the learning rate. The modes differ in what they do about it.

- **Asynchronous**: nothing. Nobody waits, and a slow worker's gradients are old.
- **Synchronous**: each worker computes a part of every batch, and all wait for the last. No gradient is old.
- **Bounded staleness**: no gradient may be older than the bound; workers wait, or the server drops what is too old.
  The bound is on the age of a gradient, in updates by others. Ho et al. (2013), where the idea comes from, bound the
  lead of a worker instead: how many steps the fastest may be ahead of the slowest.
- **Lock-free**: no server. Threads of one process change the same weights at the same time.

## What to do

1. Run the slides' values in all four modes, and lay the runs over each other: against updates, seconds and images.
2. Run asynchronously with four workers and slow one of them five times. Look at the staleness in the *Cluster* tab.
3. Raise the learning rate (preset *Large rate*) until the asynchronous run goes wrong where the synchronous one does
   not. Then save it: with a smaller rate, or with a bound.
4. Slow a worker in the synchronous mode. What do the others do meanwhile?
5. Choose *drop* with a bound of 0. How many gradients are dropped, and how many images were computed in vain?

## What to watch

The staleness histogram, and images per second of each worker. What is fast per second need not be fast per update.

## Questions

- {ASKED}

> **Hint: numbers for the modes**
> The slides' values on MNIST with two workers ended at 90.79 % of the test images in step, and with a bound of 0. With
> a bound of 2 three runs ended at 89.8 to 90.5 %, asynchronous ones at 89.9 to 90.8 % and those that drop old gradients
> at 90.8 to 91.2 %: at a rate of 0.5 the last steps still move the result by a point. With a rate that falls along a
> cosine, runs with a bound of 2 ended at 91.2 %. Except in step, no two runs are alike, whatever the seed.

> **Hint: the fourth scheme**
> The strategy *Local SGD* has no server at all: devices train alone and average their weights now and then.
"""


SAME_WORK = (
    Requirement("strategy", (parameter_server.CARD.id,)),
    Requirement("workers", least=2),
    Requirement("network", ("softmax",)),
    Requirement("optimizer", ("sgd",)),
    Requirement("batch_size", most=100),
    Requirement("steps", most=500),
)
"""As many images as one device sees, by the same rule. Mode, bound and rate are the student's."""


class PsLabSettings(BatchSettings, frozen=True, kw_only=True):
    """The slides' values of softmax."""

    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 0.5
    batch_size: BatchSize = 100
    steps: Steps = 500
    network: Annotated[
        str,
        Knob("Network", "What is trained.", "Network", choices=(Choice("softmax", "Softmax"), Choice("cnn", "CNN"))),
    ] = "softmax"


class PsLab(Exercise[PsLabSettings]):
    """The networks of two other exercises, on servers."""

    id = "ps-lab"
    title = "Parameter servers"
    subtitle = "async, sync, bounded, lock-free"
    chapter = "Many devices"
    course = "NCSA part two; IT4Innovations; CINECA day 3"
    minutes = 45
    summary = "Compare what workers do about old gradients, slow one down, and end one, while the network trains."
    guide = GUIDE
    Settings = PsLabSettings
    datasets = softmax.Softmax.datasets
    metrics = softmax.Softmax.metrics
    plots = softmax.Softmax.plots
    presets = (
        Preset(name="slides", title="Slides' values", help="Softmax, gradient descent, rate 0.5, 500 updates."),
        Preset(
            name="large-rate", title="Large rate", values={"learning_rate": 2.0}, help="What do old gradients do now?"
        ),
        Preset(
            name="cnn",
            title="CNN",
            values={"network": "cnn", "optimizer": "adam", "learning_rate": 1e-4, "batch_size": 50, "steps": 1000},
            help="13 MB of weights to the worker and as much back, for each update.",
        ),
        Preset(name="tiny", title="Tiny", values={"steps": 60}, data="digits", help="The built-in small digits."),
    )
    revision = 1
    tries = "classes"
    goals = (
        Goal(
            id="single",
            text="Within 0.5 points of one device",
            metric="test_accuracy",
            op=">=",
            value=0.9029,
            detail="One device reaches 90.79 % with the slides' values. With old gradients runs end a point around it:"
            " what brings them back?",
            data="mnist",
            requires=SAME_WORK,
            question=ASKED,
        ),
        Goal(
            id="digits",
            text="Within 0.5 points of one device",
            metric="test_accuracy",
            op=">=",
            value=0.8783,
            detail="On the small digits one device reaches 88.33 % with the slides' values.",
            data="digits",
            requires=SAME_WORK,
            question=ASKED,
        ),
    )
    strategies = (parameter_server.CARD, single.CARD, mirrored.CARD, local_sgd.CARD)

    def build(self, setup: Setup[PsLabSettings]) -> Model:
        """The very network of the exercise *softmax* or *cnn*."""
        chosen = setup.settings
        common = {name: getattr(chosen, name) for name in BatchSettings.__struct_fields__}
        if chosen.network == "cnn":
            return cnn.EXERCISE.build(Setup(cnn.CnnSettings(**common), setup.seed, setup.data, setup.fused))
        settings = softmax.SoftmaxSettings(**common)
        return softmax.EXERCISE.build(Setup(settings, setup.seed, setup.data, setup.fused))


EXERCISE = PsLab()
