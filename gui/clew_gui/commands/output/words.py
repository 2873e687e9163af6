"""Durations, metrics and states in the words that every command uses."""

from __future__ import annotations

import math

from clew_gui.base.state_words import NONE, STATE_WORDS
from clew_shared.base.number_words import quantity
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.run_settings import inside


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 05 min``; a dash when unknown."""
    if not math.isfinite(seconds) or seconds < 0:
        return NONE
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def metric_value(metric: MetricSpec, value: float) -> str:
    """``loss 0.3021``, ``test accuracy 90.79 %``: the label, the value and its unit."""
    unit = f" {metric.unit}" if metric.unit else ""
    return f"{inside(metric.label)} {quantity(value, metric.format)}{unit}"


def state_word(state: RunState | None) -> str:
    """The state as people read it; what has no state yet is starting."""
    return STATE_WORDS[state] if state is not None else "Starting"


def not_finite(history: History, card: ExerciseCard | None = None) -> str:
    """``Diverged: loss from step 44, W and b from step 88. …``; empty when all are."""
    labels: dict[int, list[str]] = {}
    for name, step in history.first_nonfinite.items():
        labels.setdefault(step, []).append(inside(metric_of(card, name, history).label))
    parts = [f"{' and '.join(labels[step])} from step {step:,}" for step in sorted(labels)]
    return f"Diverged: {', '.join(parts)}. A smaller learning rate may help." if parts else ""


def metric_of(card: ExerciseCard | None, name: str, history: History | None = None) -> MetricSpec:
    """The metric of this name as the run itself or the card describes it, else a plain one: exercises whose file is
    missing are shown as well."""
    known = [*(history.metrics.values() if history else ()), *(card.metrics if card else ())]
    found = next((metric for metric in known if metric.name == name), None)
    return found or MetricSpec(name=name, label=name.replace("_", " "))
