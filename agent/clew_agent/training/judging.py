"""Judging answers: the metrics of classification, and precision, recall, F-score and coverage of one set.

Each comes as a pair: values per sample for ``Model.evaluate``, and a function for ``Model.summarize``. What cannot be
computed because nothing was flagged or asked for is 0, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_shared.cards import MetricSpec, PlotSpec

Means = Mapping[str, npt.NDArray[np.float64]]

LOSS = MetricSpec(name="loss", label="Training loss", better="lower")
ACCURACY = MetricSpec(name="accuracy", label="Training accuracy", better="higher", format="percent")
VALIDATION_LOSS = MetricSpec(name="validation_loss", label="Validation loss", per_step=False, better="lower")
VALIDATION_ACCURACY = MetricSpec(
    name="validation_accuracy", label="Validation accuracy", per_step=False, better="higher", format="percent"
)
TEST_LOSS = MetricSpec(name="test_loss", label="Test loss", per_step=False, better="lower")
TEST_ACCURACY = MetricSpec(
    name="test_accuracy", label="Test accuracy", per_step=False, better="higher", format="percent"
)
HELD_OUT_METRICS = (VALIDATION_LOSS, VALIDATION_ACCURACY, TEST_LOSS, TEST_ACCURACY)
CLASSIFICATION_METRICS = (LOSS, ACCURACY, *HELD_OUT_METRICS)
"""The metrics that classification exercises record; the names are those that their evaluation sets give."""
ACCURACY_PLOT = PlotSpec(id="accuracy", title="Accuracy", metrics=("accuracy", "test_accuracy"), format="percent")
CLASSIFICATION_PLOTS = (PlotSpec(id="loss", title="Loss", metrics=("loss", "test_loss"), log=True), ACCURACY_PLOT)


def flags(flagged: tf.Tensor, positive: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns per sample: whether it was ``flagged``, whether it is ``positive``, and whether both (bool [batch])."""
    both = tf.logical_and(flagged, positive)
    return {
        name: tf.cast(one, tf.float32) for name, one in (("flagged", flagged), ("positive", positive), ("hit", both))
    }


def summarize_flags(means: Means) -> dict[str, float]:
    """Precision (how many of the flagged are positive), recall (how many of the positive were flagged), F-score."""
    precision, recall = _ratio(means["hit"], means["flagged"]), _ratio(means["hit"], means["positive"])
    f_score = _ratio(2 * means["hit"], means["flagged"] + means["positive"])
    return {"precision": float(precision), "recall": float(recall), "f_score": float(f_score)}


def answers(logits: tf.Tensor, labels: tf.Tensor, confidence: float) -> dict[str, tf.Tensor]:
    """Returns per sample: a confusion matrix of its own (row: label, column: answer), whether the answer is given, and
    right.

    An answer is given where the softmax of ``logits`` [batch, classes] has at least the ``confidence`` for it.
    """
    classes = logits.shape[1]
    answer = tf.argmax(logits, 1, tf.int32)
    given = tf.reduce_max(tf.nn.softmax(logits), 1) >= confidence
    right = tf.logical_and(given, tf.equal(answer, labels))
    confusion = tf.one_hot(labels, classes)[:, :, None] * tf.one_hot(answer, classes)[:, None, :]
    return {"confusion": confusion, "given": tf.cast(given, tf.float32), "given_right": tf.cast(right, tf.float32)}


def summarize_answers(means: Means) -> dict[str, float]:
    """Accuracy; precision, recall and F-score as means over the classes; the coverage (how many samples were given an
    answer), and the accuracy of the given answers."""
    confusion = means["confusion"]
    hits, asked, answered = np.diag(confusion), confusion.sum(1), confusion.sum(0)
    seen = asked + answered > 0  # a class that neither occurs nor was answered has no value
    return {
        "accuracy": float(hits.sum()),
        "precision": float(_ratio(hits, answered)[seen].mean()),
        "recall": float(_ratio(hits, asked)[seen].mean()),
        "f_score": float(_ratio(2 * hits, asked + answered)[seen].mean()),
        "coverage": float(means["given"]),
        "given_accuracy": float(_ratio(means["given_right"], means["given"])),
    }


def _ratio(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)
