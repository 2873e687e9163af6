"""Smoothing of a decimated curve: an exponential moving average that knows how many samples are in each column."""

from __future__ import annotations

import numpy as np

from clew_gui.charts.kit.layout import FloatArray, IntArray
from clew_shared.journal.pyramid import Columns, Pyramid

_STRONGEST = 0.9  # at 1 the window is total ** 0.9 samples
_WARM_UP = 32  # columns before the left edge that start the moving average


def window_for(amount: float, total: float) -> float:
    """Returns how many samples the slider's ``amount`` (0 to 1) averages over in a curve of ``total`` samples.

    It grows as a power, so that the same place of the slider suits a run of 500 steps (29 at 0.6) and one of 25,000
    (237). ``total`` is rounded up to a power of two, so that the smoothing does not creep while a run grows. 1 is none.
    """
    if amount <= 0 or total < 2:
        return 1.0
    return float((2.0 ** np.ceil(np.log2(total))) ** (_STRONGEST * min(amount, 1.0)))


def ema(mean: FloatArray, count: IntArray, window: float) -> FloatArray:
    """Exponential moving average, free of the pull of its start, over columns of ``count`` samples each.

    A sample has the weight ``a = 2 / (window + 1)``, so a column of n samples keeps ``(1 - a) ** n`` of what was
    before. The result equals the average over single samples where a column's samples equal its mean. The recurrence
    is solved as a prefix scan of affine maps (Hillis and Steele 1986): log2(columns) vector operations.
    """
    if window <= 1 or mean.size < 2:
        return mean
    keep = (1.0 - 2.0 / (window + 1.0)) ** count.astype(np.float64)
    value = (1.0 - keep) * mean
    stride = 1
    while stride < mean.size:
        value = value.copy()
        keep = keep.copy()
        value[stride:] += keep[stride:] * value[:-stride].copy()
        keep[stride:] *= keep[:-stride].copy()
        stride *= 2
    return value / (1.0 - keep)


def is_noisy(y: FloatArray) -> bool:
    """Whether a curve jumps from sample to sample, so that smoothing shows more than it hides.

    Judged by how often the curve turns: noise turns at two of three samples, a smooth descent hardly ever. ``y`` are
    its first samples; smoothing a curve without noise would only draw it late.
    """
    finite = y[np.isfinite(y)]
    signs = (finite[1:] > finite[:-1]).astype(np.int64) - (finite[1:] < finite[:-1])
    if signs.size < 6:
        return False
    return bool(np.count_nonzero(signs[1:] * signs[:-1] < 0) > 0.15 * (signs.size - 1))


def smoothed(curve: Pyramid, columns: Columns, edges: FloatArray, window: float, log: bool = False) -> FloatArray:
    """The moving average over ``window`` samples at ``columns``, which are those of ``curve`` between ``edges``.

    What lies left of the first edge is taken into account, so that the average does not depend on the zoom. For a
    ``log`` axis the average is that of the logarithms (the geometric mean): the arithmetic one of a loss that falls
    by powers of ten would hang far above what the axis shows. Columns that are not positive count as the smallest
    positive one.
    """
    mean, samples, first = columns.mean, columns.samples, 0
    begin = float(curve.steps[0]) if len(curve) else 0.0
    if len(curve) and window > 1 and float(edges[0]) > begin:
        start = max(float(edges[0]) - 6 * window, begin)
        before = curve.view(np.append(np.linspace(start, edges[0], _WARM_UP, endpoint=False), edges[0]))
        mean, samples = np.concatenate((before.mean, mean)), np.concatenate((before.samples, samples))
        first = before.mean.size
    positive = mean[mean > 0] if log else mean
    if not log or not positive.size:
        return ema(mean, samples, window)[first:]
    smooth: FloatArray = np.exp(ema(np.log(np.maximum(mean, positive.min())), samples, window))
    return smooth[first:]
