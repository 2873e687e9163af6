"""Transfer learning: what a network has learnt from many images helps where there are few. After CINECA's course."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import tensorflow as tf

from clew_agent import lesson
from clew_agent.exercises import cnn
from clew_agent.training.weights import fit, read_weights, without_norms

LAYERS = ("conv1", "conv2", "dense", "output")
SOURCE = "cnn"
"""The part of the earlier run whose weights are taken."""
FEW = lesson.needs(weights=lesson.other_than(""), images=lesson.at_most(500), batch_size=lesson.at_most(50))


class TransferSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Where the weights come from, which layers are trained, and with how many images."""

    weights: Annotated[
        str,
        lesson.Knob(
            "Weights",
            "Folder of an earlier run of the exercise cnn, or an .npz file. Empty: begin from scratch.",
            "Transfer",
            runs_of="cnn",
        ),
    ] = ""
    retrained: Annotated[
        str,
        lesson.Knob(
            "Retrained",
            "The layers that are trained. The others keep the weights that they come with.",
            "Transfer",
            choices=lesson.choices(output="The last layer", dense="The last two layers", all="All layers"),
        ),
    ] = "all"
    images: Annotated[
        int, lesson.size("Images", "Number of training images, from the beginning of the file.", 10, 60_000, "Transfer")
    ] = 500
    confidence: Annotated[
        float, lesson.number("Confidence", "Below this probability the network gives no answer.", 0, 1, "Transfer")
    ] = 0.9
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 1e-3
    batch_size: lesson.BatchSize = 50
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 50


class Transfer(lesson.Exercise[TransferSettings]):
    """The network of the exercise ``cnn``, with weights of an earlier run or with new ones."""

    id = "transfer"
    title = "Transfer learning"
    subtitle = "the last layers of a trained network"
    chapter = "Networks"
    course = "CINECA, best practices"
    minutes = 25
    summary = "Take the layers of a network that has read many images, and train the last ones with few."
    datasets = ("digits", "mnist", "fashion-mnist", "cifar10")
    revision = 1
    tries = "classes"
    # Not compiled by XLA (jit): that is up to twenty times slower for convolutions on a CPU.

    def build(self, setup: lesson.Setup[TransferSettings]) -> lesson.Model:
        """The network of ``cnn.py``, of which some layers keep their weights."""
        options, data = setup.settings, setup.require_data()
        model = cnn.EXERCISE.build(setup.taken_by(cnn.CnnSettings, dropout=0.0))
        network = model.parts[0]
        variables = network.variables
        scores: Any = model.scores
        if options.weights:
            kept = {name: one for name, one in variables.items() if not name.startswith("output")}
            found = without_norms(read_weights(options.weights, SOURCE), LAYERS, options.weights)
            fit(kept, found, options.weights)

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            logits = scores(batch.x)
            judged = lesson.answers(logits, batch.y, options.confidence)
            return {"loss": lesson.cross_entropy(logits, batch.y), **judged}

        trained = {"output": LAYERS[3:], "dense": LAYERS[2:], "all": LAYERS}[options.retrained]
        moved = {name: one for name, one in variables.items() if name.removesuffix("_offset") in trained}
        frozen = {name: one for name, one in variables.items() if name not in moved}
        few = lesson.Samples(data.train.x[: options.images], data.train.y[: options.images])
        return replace(
            model,
            parts=[replace(network, variables=moved)],
            evaluate=evaluate,
            summarize=lesson.summarize_answers,
            state=frozen,
            train=few,
            pictures={"confusion": lesson.answer_pictures(setup, scores, 1000)["confusion"]},
        )

    metrics = (
        *lesson.CLASSIFICATION_METRICS,
        lesson.at_evaluation("test_precision", "Test precision", "higher", format="percent"),
        lesson.at_evaluation("test_recall", "Test recall", "higher", format="percent"),
        lesson.at_evaluation("test_f_score", "Test F-score", "higher", format="percent"),
        lesson.at_evaluation("test_coverage", "Coverage", "higher", format="percent"),
        lesson.at_evaluation("test_given_accuracy", "Accuracy of given answers", "higher", format="percent"),
    )
    plots = (
        *lesson.CLASSIFICATION_PLOTS,
        lesson.plot("given", "Coverage", "test_coverage", "test_given_accuracy", format="percent"),
    )
    pictures = (lesson.ConfusionMatrix("confusion", "Confusion of test images"),)
    baseline = "scratch"
    presets = (
        lesson.preset("scratch", "From scratch", "New weights in all layers.", data="digits"),
        lesson.tiny(steps=20),
    )
    goals = (lesson.goal("few", "92 % with 50 steps", "test_accuracy >= 0.92 at step 50 on digits", FEW, question=1),)
    goal_details = {"few": "On the small digits, with the layers of an earlier run."}


EXERCISE = Transfer()
