"""The columns that the runs table can show beside its usual ones, and what its filter knows of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from clew_gui.base.state_words import NONE, STATE_WORDS
from clew_gui.session.runs import RunModel
from clew_gui.views.presentation import words
from clew_gui.views.runs.runs_model import Cell
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import BATCH_SIZE, HEADLINE, Value
from clew_shared.run_settings import Facts, label_of, setting_words, settings_of
from clew_shared.study.usage import USAGE, usage_results

NOTED = {"tags": "Tags", "note": "Note"}
_PLACED = ("seed", "preset", "strategy", "devices", "nodes", "precision")
_USUAL = (*HEADLINE, BATCH_SIZE)
"""Settings that have a column anyway."""
Best = Callable[[MetricSpec, RunModel], float | None]


def more_columns(card: ExerciseCard) -> dict[str, str]:
    """Columns that may be added for runs of this exercise: names, and headings."""
    params = {param.name: param.label for param in card.params if param.name not in _USUAL}
    placed = {name: label_of(name) for name in _PLACED}
    metrics = {metric.name: metric.label for metric in card.metrics}
    return NOTED | params | placed | metrics | {name: one.heading for name, one in USAGE.items()}


def unused_columns(card: ExerciseCard) -> dict[str, bool]:
    """The usual columns that would be empty for every run of this exercise, as ones that nobody shows."""
    params = {param.name for param in card.params}
    there = dict(zip(("optimizer", "rate", "batch"), (name in params for name in _USUAL), strict=True))
    return {name: False for name, has in (there | {"data": bool(card.datasets)}).items() if not has}


def is_number(card: ExerciseCard, name: str) -> bool:
    """Whether a column's values are numbers, which are aligned to the right."""
    numbers = {"seed", "devices", "nodes", *(param.name for param in card.params if param.type.number)}
    return name in numbers or name in USAGE or _metric(card, name) is not None


def number(value: object) -> float:
    """What a column of numbers is sorted by: NaN for what is missing."""
    return float(value) if isinstance(value, int | float) else math.nan


def cells(card: ExerciseCard, run: RunModel, names: Iterable[str], best: Best) -> dict[str, Cell]:
    """What added columns say of a run, by name."""
    values = settings_of(run.spec, card)
    return {name: _cell(card, run, name, values, best) for name in names}


def _cell(card: ExerciseCard, run: RunModel, name: str, values: Mapping[str, Value], best: Best) -> Cell:
    metric = _metric(card, name)
    if metric is not None:
        result = _result(metric, run, best)
        return words.metric_value(metric, result), number(result)
    if name in USAGE:
        used = usage_results(run.history).get(name)
        return USAGE[name].words(used) if used is not None else NONE, number(used)
    noted = {"tags": " ".join(f"#{tag}" for tag in run.note.tags), "note": run.note.note.replace("\n", " ")}
    text = noted[name] if name in noted else setting_words(name, values.get(name), card) or NONE
    return text, number(values.get(name)) if is_number(card, name) else text


def _metric(card: ExerciseCard, name: str) -> MetricSpec | None:
    return next((metric for metric in card.metrics if metric.name == name), None)


def _result(metric: MetricSpec, run: RunModel, best: Best) -> float | None:
    """The best value, the last one where neither side is better."""
    return best(metric, run) if metric.better != "none" else run.history.last(metric.name)


# --- Filter -----------------------------------------------------------------------------------------------------------


def known_names(card: ExerciseCard) -> set[str]:
    """Returns the names that a filter over runs of this exercise may use."""
    strategies = {option.name for one in card.strategies for option in one.params}
    return (
        {param.name for param in card.params}
        | {metric.name for metric in card.metrics}
        | USAGE.keys()
        | strategies
        | {
            *_PLACED,
            "data",
        }
    )


def facts(card: ExerciseCard, run: RunModel, best: Best) -> Facts:
    """A run as the filter sees it."""
    values = settings_of(run.spec, card)
    results: dict[str, Value] = {}
    for metric in card.metrics:
        value = _result(metric, run, best)
        if value is not None:
            results[metric.name] = value
    name, state, note = words.name_of(run), STATE_WORDS[run.state], run.note
    shown = (setting_words(param.name, values.get(param.name), card) for param in card.params if param.choices)
    texts = [str(run.number), name, note.note, *note.tags, state, run.where, *shown, *map(str, values.values())]
    known: dict[str, Value] = {"name": name, "note": note.note, "state": state, "number": run.number}
    known |= {"study": run.spec.study, "exercise": run.spec.exercise}
    return Facts(words=" ".join(texts), values=values | usage_results(run.history) | results | known, tags=note.tags)
