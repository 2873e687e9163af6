"""A loss surface from a function, for the exercise's card; and its numbers again, for anyone who draws it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from clew_shared.cards import SurfaceSpec

Grid = NDArray[np.float64]
POINTS = 81
"""Points on each axis unless asked otherwise: 26 kB, and smooth when drawn."""


def make_surface(
    loss: Callable[[Grid, Grid], Grid],
    *,
    metrics: tuple[str, str],
    x: tuple[float, float],
    y: tuple[float, float],
    title: str,
    id: str = "loss",  # noqa: A002  # the card's own word
    metric: str = "loss",
    minimum: tuple[float, float] | None = None,
    points: int = POINTS,
) -> SurfaceSpec:
    """The surface of ``loss``, which is called once with two arrays [rows, columns] and returns the loss at each place.

    ``metrics`` name the two per-step metrics whose values are x and y; ``minimum`` is marked when it is given.
    """
    across, up = np.meshgrid(np.linspace(*x, points), np.linspace(*y, points))
    heights = np.broadcast_to(np.asarray(loss(across, up)), across.shape).astype("<f4")
    return SurfaceSpec(
        id=id,
        title=title,
        metrics=metrics,
        x=x,
        y=y,
        columns=points,
        rows=points,
        loss=heights.tobytes(),
        metric=metric,
        minimum=minimum,
    )


def heights_of(surface: SurfaceSpec) -> Grid:
    """The loss [rows, columns], the row of the lowest y first. Raises ValueError when the numbers are not as many."""
    return np.frombuffer(surface.loss, "<f4").reshape(surface.rows, surface.columns).astype(np.float64)
