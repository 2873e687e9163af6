"""Softmax or the CNN on parameter servers: asynchronous, in step, bounded, lock-free. NCSA, IT4Innovations, CINECA."""

from __future__ import annotations

from typing import Annotated

from clew_agent import lesson
from clew_agent.exercises import cnn, softmax
from clew_agent.strategies import local_sgd, mirrored, parameter_server, single

SAME_WORK = lesson.needs(
    strategy=parameter_server.CARD.id,
    workers=lesson.at_least(2),
    network="softmax",
    optimizer="sgd",
    batch_size=lesson.at_most(100),
    steps=lesson.at_most(500),
)
"""As many images as one device sees, by the same rule. Mode, bound and rate are the student's."""


class PsLabSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """The slides' values of softmax."""

    optimizer: lesson.OptimizerName = "sgd"
    learning_rate: lesson.LearningRate = 0.5
    batch_size: lesson.BatchSize = 100
    steps: lesson.Steps = 500
    network: Annotated[
        str, lesson.Knob("Network", "What is trained.", "Network", choices=lesson.choices(softmax="Softmax", cnn="CNN"))
    ] = "softmax"


class PsLab(lesson.Exercise[PsLabSettings]):
    """The networks of two other exercises, on servers."""

    id = "ps-lab"
    title = "Parameter servers"
    subtitle = "async, sync, bounded, lock-free"
    chapter = "Many devices"
    course = "NCSA part two; IT4Innovations; CINECA day 3"
    minutes = 45
    summary = "Compare what workers do about old gradients, slow one down, and end one, while the network trains."
    datasets = softmax.Softmax.datasets
    revision = 1
    tries = "classes"

    def build(self, setup: lesson.Setup[PsLabSettings]) -> lesson.Model:
        """The very network of the exercise *softmax* or *cnn*."""
        if setup.settings.network == "cnn":
            return cnn.EXERCISE.build(setup.taken_by(cnn.CnnSettings))
        return softmax.EXERCISE.build(setup.taken_by(softmax.SoftmaxSettings))

    metrics = softmax.Softmax.metrics
    plots = softmax.Softmax.plots
    presets = (
        lesson.preset("slides", "Slides' values", "Softmax, gradient descent, rate 0.5, 500 updates."),
        lesson.preset("large-rate", "Large rate", "What do old gradients do now?", learning_rate=2.0),
        lesson.preset(
            "cnn",
            "CNN",
            "13 MB of weights to the worker and as much back, for each update.",
            network="cnn",
            optimizer="adam",
            learning_rate=1e-4,
            batch_size=50,
            steps=1000,
        ),
        lesson.tiny(steps=60),
    )
    goals = (
        lesson.goal(
            "single", "Within 0.5 points of one device", "test_accuracy >= 0.9029 on mnist", SAME_WORK, question=1
        ),
        lesson.goal(
            "digits", "Within 0.5 points of one device", "test_accuracy >= 0.8783 on digits", SAME_WORK, question=1
        ),
    )
    goal_details = {
        "single": "One device reaches 90.79 % with the slides' values. With old gradients runs end a point around it:"
        " what brings them back?",
        "digits": "On the small digits one device reaches 88.33 % with the slides' values.",
    }
    strategies = (parameter_server.CARD, single.CARD, mirrored.CARD, local_sgd.CARD)


EXERCISE = PsLab()
