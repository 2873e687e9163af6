"""Evaluates a learning-rate range test: the loss at each rate, and which rate to begin with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.journal.history import History
from clew_shared.reading import spec_of
from clew_shared.spec import RateRange

_SMOOTHING = 5
"""Rates over which the loss is averaged before its slope is taken: one batch differs from the next."""


class RateCurve(NamedTuple):
    """The mean loss at each rate, rates rising. ``steepest`` is the rate at which it falls fastest (None: nowhere)."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    steepest: float | None


def rate_test(history: History) -> RateRange | None:
    """The rates of a run that was a range test, as its journal says: its values are of many rates, so they are compared
    with those of no other run and judged by no goal. None for any other run."""
    if "rate_range" not in history.fold.spec:  # asked often, and most are none
        return None
    spec = spec_of(history)
    return spec.rate_range if spec is not None else None


def rate_curve(history: History, test: RateRange, steps: int, metric: str = "loss") -> RateCurve:
    """The curve of a range test of ``steps`` steps. The steepest rate is where the smoothed loss falls fastest over the
    logarithm of the rate (the suggestion of fast.ai's finder, after L. N. Smith)."""
    column = history.column(metric)
    rates = np.array([test.rate(int(step), steps) for step in column.steps])
    levels = np.unique(rates)
    losses = np.array([float(np.mean(column.values[rates == rate])) for rate in levels])
    good = np.isfinite(losses)
    levels, losses = levels[good], losses[good]
    return RateCurve(tuple(levels.tolist()), tuple(losses.tolist()), _steepest(levels, losses))


def _steepest(rates: NDArray[np.float64], losses: NDArray[np.float64]) -> float | None:
    lowest = int(np.argmin(losses)) if losses.size else 0
    if lowest < _SMOOTHING:
        return None
    smooth = np.convolve(losses, np.ones(_SMOOTHING) / _SMOOTHING, mode="valid")
    slopes = np.diff(smooth[: lowest + 1]) / np.diff(np.log(rates[_SMOOTHING // 2 :][: len(smooth)][: lowest + 1]))
    k = int(np.argmin(slopes)) if slopes.size else 0
    return float(rates[_SMOOTHING // 2 + k]) if slopes.size and slopes[k] < 0 else None


def rate_words(curve: RateCurve) -> str:
    """``The loss falls fastest at a learning rate of 0.02 and is lowest at 0.3.``"""
    if not curve.rates:
        return "The range test has no finite loss."
    lowest = curve.rates[int(np.argmin(curve.losses))]
    if curve.steepest is None:
        lowest_at = f"it is lowest at a learning rate of {lowest:.2g}"
        return f"The loss does not fall clearly anywhere; {lowest_at}. Test lower rates."
    return f"The loss falls fastest at a learning rate of {curve.steepest:.2g} and is lowest at {lowest:.2g}."
