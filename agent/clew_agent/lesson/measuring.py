"""What several measurements do: points of a line, a step of gradient descent, devices in words, enough images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_shared.base.problem import problem
from clew_shared.journal.events import Series


def points(
    name: str,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_label: str,
    y_label: str = "",
    *,
    x_unit: str = "",
    y_unit: str = "",
) -> Series:
    """One point (two numbers) or several (two arrays of the same length) of the line called ``name``."""
    at, values = (np.atleast_1d(np.asarray(one, "<f8")).tobytes() for one in (x, y))
    return Series(name=name, x=at, y=values, x_label=x_label, y_label=y_label, x_unit=x_unit, y_unit=y_unit)


def row_of_bars(name: str, bars: Iterable[tuple[float, float, float]], y_label: str = "") -> Series:
    """The row called ``name`` of a timeline: from when to when it works on which piece (``SeriesPlot``), in seconds."""
    at: dict[float, float] = {}
    for start, end, piece in bars:
        at |= {start: piece, end: 0.0}  # no time between two bars: the one that begins there replaces the end
    return points(name, [*at], [*at.values()], "Time", y_label, x_unit="s")


def descend(loss: Callable[[], tf.Tensor], weights: Sequence[tf.Variable], rate: float) -> tf.Tensor:
    """One step of plain gradient descent; returns the loss before it."""
    with tf.GradientTape() as tape:
        value = loss()
    for one, gradient in zip(weights, tape.gradient(value, weights), strict=True):
        one.assign_sub(rate * gradient)
    return value


def devices_in_words(names: Sequence[str]) -> str:
    """The devices with these names, and whether they are parts of one processor."""
    words = ", ".join(name.removeprefix("/device:") for name in names)
    return f"{words}, parts of one processor" if len(names) > 1 and "CPU" in names[0] else words


def check_images(data: DataSet, count: int) -> None:
    """Raises ``ProblemError`` where the data set has fewer than ``count`` training images."""
    if count > len(data.train):
        text = f"There are {len(data.train):,} training images in {data.name}, fewer than the {count:,} asked for."
        raise problem("exercise.images", text, f"Ask for {len(data.train):,} images or fewer.", "images")
