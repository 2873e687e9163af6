"""The x of a run's curves: steps, as they are recorded, in the unit of the axis and back."""

from __future__ import annotations

import numpy as np

from clew_gui.charts.kit.layout import FloatArray
from clew_gui.charts.kit.ticks import XUnit
from clew_shared.journal.history import History


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
    known, clock, speed = _timeline(history)
    ended = steps - 1.0
    seconds: FloatArray = np.interp(ended, known, clock) + np.maximum(ended - known[-1], 0.0) / speed
    return np.maximum.accumulate(seconds)  # the clocks of a block and of the next one may disagree by a little


def _steps(history: History, seconds: FloatArray) -> FloatArray:
    known, clock, speed = _timeline(history)
    steps: FloatArray = np.interp(seconds, clock, known) + np.maximum(seconds - clock[-1], 0.0) * speed
    return steps + 1.0


def _timeline(history: History) -> tuple[FloatArray, FloatArray, float]:
    """The known points from the beginning of the first step on, which took as long as the second one, and steps a
    second over the whole run."""
    steps, clock = history.timeline()
    begin = max(0.0, float(2 * clock[0] - clock[min(1, clock.size - 1)]))
    known, clock = np.append(steps[0] - 1.0, steps), np.append(begin, clock)
    seconds = float(clock[-1]) - begin
    return known, clock, float(known[-1] - known[0]) / seconds if seconds > 0 else 1.0
