"""Images: changes that keep what they show, so that a network learns the digit and not its place, and rows of a data
set as images for a picture.
"""

from __future__ import annotations

import math

import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.training.random import StepContext


def around_grey(images: tf.Tensor) -> tf.Tensor:
    """Weights [n, height, width] as images: grey is 0, white the largest of all, black as far below 0."""
    return 0.5 + 0.5 * images / tf.maximum(tf.reduce_max(tf.abs(images)), 1e-12)


def mistakes(
    images: tf.Tensor, labels: tf.Tensor, answers: tf.Tensor, count: int = 30
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The first ``count`` of ``images`` [n, ...] whose answer is not the label, with both: for a ``Gallery``."""
    wrong = tf.where(tf.not_equal(labels, answers))[:count, 0]
    return tf.gather(images, wrong), tf.gather(labels, wrong), tf.gather(answers, wrong)


def augment(
    images: tf.Tensor, context: StepContext, *, shift: float = 2, degrees: float = 10, zoom: float = 0.1
) -> tf.Tensor:
    """Move, turn and scale each of ``images`` (float32 [batch, height, width, channels]) a little, about its centre.

    Up to ``shift`` pixels, ``degrees`` and a share ``zoom``, evenly drawn for each image of each step. What comes in
    from outside is 0; between pixels the values are interpolated.
    """
    height, width = images.shape[1], images.shape[2]
    drawn = 2 * context.sample_uniform([4], "augment") - 1
    right, down, turn, size = tf.unstack(drawn, axis=1)
    angle, scale = turn * math.radians(degrees), 1 + size * zoom
    cos, sin = tf.cos(angle) / scale, tf.sin(angle) / scale
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    left = middle_x - cos * (middle_x + right * shift) + sin * (middle_y + down * shift)
    top = middle_y - sin * (middle_x + right * shift) - cos * (middle_y + down * shift)
    nothing = tf.zeros_like(angle)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.stack([cos, -sin, left, sin, cos, top, nothing, nothing], axis=1),
        output_shape=tf.constant([height, width]),
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )


def as_images(rows: tf.Tensor, data: DataSet) -> tf.Tensor:
    """``rows`` [n, features] as a picture shows them: [n, height, width], or [n, height, width, 3] in colour."""
    height, width, channels = data.image_shape
    return tf.reshape(rows, [-1, height, width] if channels == 1 else [-1, height, width, channels])


def in_rows(columns: int, *sets: tf.Tensor) -> tf.Tensor:
    """Sets [n, ...] of images that belong together, for a grid: a row of ``columns`` of the first set, below it the
    same of the second, and so on. ``columns`` divides n."""
    together = tf.stack([tf.reshape(one, [-1, columns, *one.shape[1:]]) for one in sets], 1)
    return tf.reshape(together, [-1, *sets[0].shape[1:]])
