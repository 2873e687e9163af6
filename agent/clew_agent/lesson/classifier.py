"""A model that sorts samples into classes, made of the function that gives each class a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from clew_agent.training.exercise import Batch, Loss, Model, Part, Setup
from clew_agent.training.images import as_images, mistakes
from clew_agent.training.layers import BatchNorm, averages, correct, cross_entropy, trained
from clew_agent.training.random import StepContext
from clew_shared.cards import ConfusionMatrix, Gallery

Scores = Callable[[tf.Tensor], tf.Tensor]
"""Gives rows of the data set [n, features] a score for each class, [n, classes]."""
ANSWER_PICTURES = (Gallery("mistakes", "Wrong answers"), ConfusionMatrix("confusion", "Confusion of test images"))
"""The pictures that ``answer_pictures`` has functions for."""


def answer_pictures(setup: Setup[Any], scores: Scores, count: int) -> dict[str, Callable[[], Any]]:
    """The functions of ``ANSWER_PICTURES``, from the first ``count`` test samples."""
    data = setup.require_data()
    x, y = tf.constant(data.test.x[:count]), tf.constant(data.test.y[:count])

    def answers() -> tf.Tensor:
        return tf.argmax(scores(x), 1, tf.int32)

    return {
        "mistakes": lambda: mistakes(as_images(x, data), y, answers()),
        "confusion": lambda: tf.math.confusion_matrix(y, answers(), data.classes),
    }


def classifier(
    setup: Setup[Any],
    scores: Scores,
    variables: Mapping[str, tf.Variable],
    *,
    name: str = "network",
    train_scores: Callable[[Batch, StepContext], tf.Tensor] | None = None,
    pictures: Mapping[str, Callable[[], Any]] | None = None,
    norms: Mapping[str, BatchNorm] | None = None,
) -> Model:
    """The model whose ``variables`` are trained to give each label the highest of the ``scores`` (cross-entropy).

    ``name`` is its part's, which checkpoints name. ``train_scores`` are those of a training batch, where they are
    others than in use: with dropout, or with images that were shifted. Scales and offsets of ``norms`` are trained as
    ``variables`` are, and their averages are part of the model's state.
    """

    def loss(batch: Batch, context: StepContext) -> Loss:
        logits = scores(batch.x) if train_scores is None else train_scores(batch, context)
        value = batch.mean(cross_entropy(logits, batch.y))
        return Loss(value, {"accuracy": batch.mean(correct(logits, batch.y))})

    def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
        logits = scores(batch.x)
        return {"loss": cross_entropy(logits, batch.y), "accuracy": correct(logits, batch.y)}

    return Model(
        parts=[Part(name, {**variables, **trained(norms or {})}, loss, setup.optimizer())],
        evaluate=evaluate,
        evaluation_sets=setup.held_out(),
        state=averages(norms or {}),
        pictures=pictures or {},
        scores=scores,
    )
