"""The x of a run's curves: steps, as they are recorded, in the unit of the axis and back."""

from __future__ import annotations

import numpy as np

from clew_gui.charts.kit.layout import FloatArray, IntArray
from clew_gui.charts.kit.ticks import XUnit
from clew_shared.journal.history import History
from clew_shared.journal.pyramid import index_of


def knows(history: History, unit: XUnit) -> bool:
    """Whether a run can be shown against ``unit``."""
    return bool(history.timeline()[0].size) if unit is XUnit.SECONDS else _factor(history, unit) > 0


def from_steps(history: History, steps: FloatArray, unit: XUnit) -> FloatArray:
    """Ascending steps of a run in another unit, which the run must know."""
    return _seconds(history, steps) if unit is XUnit.SECONDS else steps * _factor(history, unit)


def to_steps(history: History, x: FloatArray, unit: XUnit) -> FloatArray:
    """The inverse of ``from_steps``."""
    return _steps(history, x) if unit is XUnit.SECONDS else x / _factor(history, unit)


def state_of(history: History, unit: XUnit) -> tuple[float, float]:
    """Returns something that changes when steps of a run are elsewhere in another unit than before."""
    if unit is not XUnit.SECONDS:
        return _factor(history, unit), 0.0
    _, clock = history.timeline()
    return float(clock.size), float(clock[-1]) if clock.size else 0.0


def _factor(history: History, unit: XUnit) -> float:
    schema = history.schema
    if unit is XUnit.STEP or schema is None:
        return float(unit is XUnit.STEP)
    if unit is XUnit.IMAGES:
        return float(schema.batch_size)
    return schema.batch_size / schema.samples_per_epoch if schema.samples_per_epoch else 0.0


# --- Training time ----------------------------------------------------------------------------------------------------
# A point of the timeline is the clock at the end of a step, where the next step begins.


def _seconds(history: History, steps: FloatArray) -> FloatArray:
    """Training seconds at the beginning of ``steps``; after the last known step at the run's mean speed."""
    known, clock = history.timeline()
    ended = steps - 1.0
    after = index_of(known, np.nextafter(ended, np.inf))
    inner, right = np.maximum(after - 1, 0), np.minimum(after, known.size - 1)
    begun = after == 0
    x, y = np.where(begun, known[0] - 1.0, known[inner]), np.where(begun, _begin(clock), clock[inner])
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip(np.nan_to_num((ended - x) / (known[right] - x)), 0.0, 1.0)
    seconds = y + part * (clock[right] - y) + np.maximum(ended - known[-1], 0.0) / _speed(known, clock)
    return np.maximum.accumulate(seconds)  # the clocks of a block and of the next one may disagree by a little


def _steps(history: History, seconds: FloatArray) -> FloatArray:
    known, clock = history.timeline()
    after = np.searchsorted(clock, seconds, side="right")
    inner, right = np.maximum(after - 1, 0), np.minimum(after, known.size - 1)
    begun = after == 0
    x, y = np.where(begun, known[0] - 1.0, known[inner]), np.where(begun, _begin(clock), clock[inner])
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip(np.nan_to_num((seconds - y) / (clock[right] - y)), 0.0, 1.0)
    steps = x + part * (known[right] - x) + np.maximum(seconds - clock[-1], 0.0) * _speed(known, clock)
    return np.asarray(steps + 1.0, np.float64)


def _begin(clock: FloatArray) -> float:
    """The clock at the beginning of the first step: it took as long as the second one."""
    return max(0.0, float(2 * clock[0] - clock[min(1, clock.size - 1)]))


def _speed(known: IntArray, clock: FloatArray) -> float:
    """Steps a second, over the whole run."""
    seconds = float(clock[-1]) - _begin(clock)
    return (float(known[-1] - known[0]) + 1.0) / seconds if seconds > 0 else 1.0
