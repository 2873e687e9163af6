"""An exercise as a script that runs by itself, with Keras' ``fit`` and the values of a run."""

from __future__ import annotations

import json
import re

from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import agent_file
from clew_shared.params import Value, value_words
from clew_shared.spec import SITE_PATH, RunSpec

_EXERCISES = "clew_agent/exercises/"
_SPREAD = ("strategy", "devices", "nodes", "precision")
_VALUE = re.compile(r"^(?P<name>[A-Z][A-Z0-9_]*) = (?P<value>[^#\n]*?)(?P<others>  # or .*)?$", re.MULTILINE)
"""A setting at the top of a script. If it has no more than some of the exercise's choices, they are behind it."""


def has_script(card: ExerciseCard) -> bool:
    """Whether there is such a script of this exercise."""
    return bool(_file(card))


def written_code(card: ExerciseCard, spec: RunSpec) -> str:
    """The whole script, with the values of ``spec`` at its top; empty where there is none.

    Its first line names the settings that are not the exercise's default and that it does not have.
    """
    script = _file(card)
    values = {**spec.params, "seed": spec.seed}
    data = spec.data or next(iter(card.datasets), "")
    values["data"] = f"{data}.npz" if data == "mnist" else data.removeprefix(SITE_PATH)
    lines = {found["name"].lower(): found for found in _VALUE.finditer(script)}
    left_out = [
        one
        for one in card.params
        if (value := values.get(one.name, one.default)) != one.default
        and (one.name not in lines or not _has(lines[one.name], value))
    ]
    taken = {name: value for name, value in values.items() if name not in {one.name for one in left_out}}
    no_data = "data" in lines and not data.endswith(".npz") and f'"{values["data"]}"' not in lines["data"][0]
    if no_data:
        del taken["data"]

    def line(found: re.Match[str]) -> str:
        if (name := found["name"].lower()) not in taken:
            return found[0]
        value = taken[name]
        written = json.dumps(value) if isinstance(value, str) else repr(value)
        others = (found["others"] or "").replace(written, found["value"])  # the usual one is a choice as well then
        return f"{found['name']} = {written}{others}"

    named = [f"{one.label} {value_words(one, values[one.name])}" for one in left_out]
    named += [*([f"the data {data}"] if no_data else []), *_other(spec)]
    note = f"# Not in this script: {'; '.join(named)}.\n" if script and named else ""
    return note + _VALUE.sub(line, script)


def _file(card: ExerciseCard) -> str:
    """The script as it lies in the agent's package, where only Clew's own exercises have some."""
    own = card.file.startswith(_EXERCISES)
    return agent_file(f"{_EXERCISES}code/{card.file.rpartition('/')[2]}") if own else ""


def _other(spec: RunSpec) -> list[str]:
    """What the run has besides its hyperparameters and data, and no script has."""
    usual = RunSpec(exercise=spec.exercise)
    named = [f"{name} {getattr(spec, name)}" for name in _SPREAD if getattr(spec, name) != getattr(usual, name)]
    return named + (["the range test of the learning rate"] if spec.rate_range is not None else [])


def _has(found: re.Match[str], value: Value) -> bool:
    return not found["others"] or f'"{value}"' in found[0]
