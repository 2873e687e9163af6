"""Writes curves into histories in one line, as a trainer records them."""

from __future__ import annotations

import zlib
from typing import Literal

import numpy as np
import numpy.typing as npt

from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Evaluation, Points, Schema
from clew_shared.journal.history import History


def record(
    history: History,
    metric: str | tuple[str, ...],
    first: int,
    values: npt.ArrayLike,
    *,
    dtype: Literal["float32", "float64"] = "float32",
    attempt: int = 1,
    batch: tuple[int, int] = (0, 0),
    clock: tuple[float, float] = (0.0, 0.0),
    wall: float = 0.0,
) -> None:
    """Record ``values`` of steps from ``first`` on, of a metric or of several in one schema. ``batch``: images of a
    step and of an epoch; ``clock``: the training clock at the end, and the seconds that these steps took."""
    names, numbers = (metric,) if isinstance(metric, str) else metric, np.atleast_1d(np.asarray(values))
    number = zlib.crc32("".join(names).encode())
    specs = tuple(MetricSpec(name=name, label=name, dtype=dtype) for name in names)
    history.feed(attempt, Schema(id=number, metrics=specs, batch_size=batch[0], samples_per_epoch=batch[1]))
    values_of_each = (numbers.astype(np.dtype(dtype).newbyteorder("<")).tobytes(),) * len(names)
    end, seconds = clock
    history.feed(
        attempt,
        Points(
            schema=number, first=first, count=len(numbers), seconds=seconds, clock=end, values=values_of_each, time=wall
        ),
    )


def evaluate(history: History, metric: str, steps: npt.ArrayLike, values: npt.ArrayLike, attempt: int = 1) -> None:
    """Record ``values`` that were measured after so many steps."""
    for step, value in zip(np.atleast_1d(steps).tolist(), np.atleast_1d(values).tolist(), strict=True):
        history.feed(attempt, Evaluation(step=int(step), values={metric: float(value)}))
