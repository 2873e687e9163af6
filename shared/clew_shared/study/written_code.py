"""An exercise as a script that runs by itself, with the values of a run: with Keras' ``fit``, or as the session loop of
TensorFlow 1 that older slides show."""

from __future__ import annotations

import ast
import json
import re
import sys
from typing import NamedTuple

from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import agent_file
from clew_shared.params import Value, value_words
from clew_shared.spec import SITE_PATH, RunSpec

_EXERCISES = "clew_agent/exercises/"
_SPREAD = ("strategy", "devices", "nodes", "precision")
_PARTS = "clew_agent.exercises.code.parts"
_VALUE = re.compile(r"^(?P<name>[A-Z][A-Z0-9_]*) = (?P<value>[^#\n]*?)(?P<others>  # or .*)?$", re.MULTILINE)
"""A setting at the top of a script. If it has no more than some of the exercise's choices, they are behind it."""
_FOR_CHECKS = re.compile(r"  # type: ignore.*")
"""What only our type checker reads."""


class Form(NamedTuple):
    """A form of an exercise's code: its name in commands, its title, and what it is."""

    name: str
    title: str
    about: str


FORMS = (
    Form("keras", "With Keras", "The same model, trained by Keras' own fit"),
    Form("session", "With TensorFlow 1", "The same steps as a session loop of TensorFlow 1, as older slides have it"),
)


def written_forms(card: ExerciseCard) -> list[Form]:
    """The forms that this exercise has."""
    return [form for form in FORMS if _file(card, form.name)]


def written_code(card: ExerciseCard, form: str, spec: RunSpec) -> str:
    """The whole script of this form, with the values of ``spec`` at its top; empty where there is none.

    Its first line names the settings that are not the exercise's default and that it does not have.
    """
    script = _file(card, form)
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
    return note + _FOR_CHECKS.sub("", _whole(_VALUE.sub(line, script)))


def _file(card: ExerciseCard, form: str) -> str:
    """The script as it lies in the agent's package, where only Clew's own exercises have some."""
    return (
        agent_file(f"{_EXERCISES}code/{form}/{card.file.rpartition('/')[2]}")
        if card.file.startswith(_EXERCISES)
        else ""
    )


def _other(spec: RunSpec) -> list[str]:
    """What the run has besides its hyperparameters and data, and no script has."""
    usual = RunSpec(exercise=spec.exercise)
    named = [f"{name} {getattr(spec, name)}" for name in _SPREAD if getattr(spec, name) != getattr(usual, name)]
    return named + (["the range test of the learning rate"] if spec.rate_range is not None else [])


def _has(found: re.Match[str], value: Value) -> bool:
    return not found["others"] or f'"{value}"' in found[0]


# --- One file ---------------------------------------------------------------------------------------------------------
# Scripts import what they share. A script that is written out has the text of these functions in itself.


def _whole(script: str) -> str:
    """The script without its import of shared functions: those that it uses are in it."""
    own = ast.parse(script)
    wanted = {name for node in own.body if _is_shared(node) for name in _bound(node)}
    if not wanted:
        return script
    parts = agent_file(f"{_PARTS.replace('.', '/')}.py")
    shared = ast.parse(parts)
    functions = [node for node in shared.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    used = {one.id for top in functions for one in ast.walk(top) if isinstance(one, ast.Name)}
    nodes = [node for node in own.body if _bound(node) and not _is_shared(node)]
    nodes += [node for node in shared.body if used.intersection(_bound(node))]
    imports = {(_place(node), ast.unparse(node)) for node in nodes}
    groups = ["\n".join(line for place, line in sorted(imports) if place == group) for group in range(3)]
    lines = script.splitlines()
    begin, *_, end = (node.lineno for node in own.body if _bound(node))
    first = next(node.lineno for node in own.body if isinstance(node, ast.FunctionDef)) - 1
    head = [*lines[: begin - 1], "\n\n".join(filter(None, groups)), *lines[end:first]]
    texts = [ast.get_source_segment(parts, node) or "" for node in functions]
    return "\n".join([*head, *(f"{text}\n\n" for text in texts), *lines[first:]]) + "\n"


def _is_shared(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == _PARTS


def _bound(node: ast.stmt) -> list[str]:
    """The names that an import gives; none for another statement."""
    return [one.asname or one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []


def _place(node: ast.stmt) -> int:
    """The group of an import: what Python itself is told, what comes with Python, everything else."""
    module = (node.module if isinstance(node, ast.ImportFrom) else "".join(_bound(node))) or ""
    return 0 if module == "__future__" else 1 if module.partition(".")[0] in sys.stdlib_module_names else 2
