"""Compares the curves of several runs: mean and band over seeds, steps and time to a target, deltas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.journal.history import Column, History

Floats = NDArray[np.float64]
Better = Literal["lower", "higher", "none"]
_MOST = 400
"""Points of a band: more than a plot has columns of interest, few enough for a thousand runs."""


class Reached(NamedTuple):
    """The moment when a curve first met a target: the step, and the training clock in seconds."""

    step: int
    seconds: float


def time_to(history: History, metric: str, target: float, better: Better) -> Reached | None:
    """The first point of ``metric`` that is at ``target`` or better; None while there is none. A metric without a
    better side counts as one where less is better."""
    column = history.column(metric)
    with np.errstate(invalid="ignore"):
        met = column.values >= target if better == "higher" else column.values <= target
    if not met.any():
        return None
    first = int(np.argmax(met))
    return Reached(int(column.steps[first]), float(column.clock[first]))


class Band(NamedTuple):
    """Mean and standard deviation of several curves over the ``x`` that all of them have; ``number`` of them.

    ``deviation`` is that of a sample (n - 1); zero for a single curve.
    """

    x: Floats
    mean: Floats
    deviation: Floats
    number: int


def band_of(columns: Sequence[Column], most: int = _MOST) -> Band | None:
    """Mean and band of curves of one metric; None where there is no point that all have.

    A curve's value between its points lies on the straight line between them; values that are not finite are left out
    of their curve. The grid is that of the longest curve, thinned to ``most`` points.
    """
    curves = [finite for column in columns if (finite := _finite(column))[0].size]
    if not curves or len(curves) < len(columns):
        return None
    low, high = max(float(x[0]) for x, _ in curves), min(float(x[-1]) for x, _ in curves)
    longest = max((x for x, _ in curves), key=len)
    grid = thinned(longest[(longest >= low) & (longest <= high)], most)
    if not grid.size:
        return None
    heights = np.stack([np.interp(grid, x, y) for x, y in curves])
    spread = heights.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(grid.size)
    return Band(grid, heights.mean(axis=0), spread, len(curves))


def _finite(column: Column) -> tuple[Floats, Floats]:
    good = np.isfinite(column.values)
    return column.steps[good].astype(np.float64), column.values[good].astype(np.float64)


def thinned(x: Floats, most: int) -> Floats:
    """Returns at most ``most`` of the values, evenly by place, the first and the last among them."""
    if x.size <= most:
        return x
    return x[np.unique(np.linspace(0, x.size - 1, most).round().astype(np.int64))]


def curve_of(column: Column, most: int = _MOST) -> tuple[Floats, Floats]:
    """The finite points of a curve, thinned to means of about ``most`` stretches so that noise is not picked by
    chance; the last point stays as it is."""
    x, y = _finite(column)
    if x.size <= most:
        return x, y
    starts = np.unique(np.linspace(0, x.size, most + 1).astype(np.int64))[:-1]
    sizes = np.diff([*starts, x.size])
    middles, means = np.add.reduceat(x, starts) / sizes, np.add.reduceat(y, starts) / sizes
    return np.append(middles, x[-1]), np.append(means, y[-1])


class Outcome(NamedTuple):
    """The result of a group of runs that differ in the seed alone: the mean of their ``best`` values, the standard
    deviation (None for one run), the means of steps and seconds to the target over the ``reached`` runs that met it."""

    runs: tuple[str, ...]
    best: float | None
    deviation: float | None
    steps: float | None
    seconds: float | None
    reached: int


def outcome_of(
    runs: Sequence[tuple[str, History]],
    metric: str,
    better: Better,
    target: float | None = None,
    best: Callable[[str], float | None] | None = None,
) -> Outcome:
    """Returns the result of a group of runs in ``metric``; ``best`` knows the best value of a run that was computed
    before."""
    find = best or _best_in(dict(runs), metric, better)
    values = [value for run, _ in runs if (value := find(run)) is not None]
    met = [found for _, one in runs if target is not None and (found := time_to(one, metric, target, better))]
    return Outcome(
        tuple(run for run, _ in runs),
        float(np.mean(values)) if values else None,
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
        float(np.mean([one.step for one in met])) if met else None,
        float(np.mean([one.seconds for one in met])) if met else None,
        len(met),
    )


def _best_in(histories: dict[str, History], metric: str, better: Better) -> Callable[[str], float | None]:
    def find(run: str) -> float | None:
        return best_value(histories[run], metric, better)

    return find


def best_value(history: History, metric: str, better: Better) -> float | None:
    """The best finite value of a curve; its last one where neither side is better; None without any."""
    curve = history.pyramid(metric)
    if curve is None:
        return None
    found = curve.lowest if better == "lower" else curve.highest if better == "higher" else curve.last
    return found.value if found is not None else None
