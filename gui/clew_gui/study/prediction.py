"""Says how near the curve that a person expected came to the one that was recorded."""

from __future__ import annotations

from bisect import bisect_right

from clew_shared.journal.events import Predicted
from clew_shared.journal.history import History


def prediction_words(history: History) -> str:
    """Returns what was expected of the last recorded value and what it is; empty without a prediction or a value."""
    drawn = history.prediction
    column = history.column(drawn.metric) if drawn is not None else None
    if drawn is None or column is None or not len(column.steps):
        return ""
    metric = history.metrics[drawn.metric]
    at, value = int(column.steps[-1]), float(column.values[-1])
    expected, found = (_shown(one, metric.format == "percent") for one in (predicted_at(drawn, at), value))
    return f"{metric.label}: you predicted {expected} for step {at:,}, and it is {found}."


def predicted_at(drawn: Predicted, step: int) -> float:
    """The value that a person expected at a step; beyond the drawing that of its end."""
    k = bisect_right(drawn.steps, step)
    if k in (0, len(drawn.steps)):
        return drawn.values[0 if k == 0 else -1]
    share = (step - drawn.steps[k - 1]) / (drawn.steps[k] - drawn.steps[k - 1])
    return drawn.values[k - 1] * (1 - share) + drawn.values[k] * share  # their difference may be no number


def _shown(value: float, percent: bool) -> str:
    return f"{100 * value:.4g} %" if percent else f"{value:.4g}"
