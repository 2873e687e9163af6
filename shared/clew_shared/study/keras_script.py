"""A complete Keras script of an exercise, with the values of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import agent_file
from clew_shared.params import Value, value_words

_VALUE = re.compile(r"^([A-Z][A-Z_]*) = .*$", re.MULTILINE)


def keras_script(card: ExerciseCard, values: Mapping[str, Value]) -> str:
    """The script beside the exercise's file with these values at its top; empty where there is none.

    Its first lines name the settings that are not the exercise's default and that it does not have.
    """
    folder, _, name = card.file.rpartition("/")
    script = agent_file(f"{folder}/keras/{name}")
    if not script:
        return ""
    known = {name.lower() for name in _VALUE.findall(script)}

    def line(found: re.Match[str]) -> str:
        name = found[1].lower()
        if name not in values:
            return found[0]
        value = values[name]
        return f"{found[1]} = {json.dumps(value) if isinstance(value, str) else repr(value)}"

    missing = [
        f"{spec.label} {value_words(spec, values[spec.name])}"
        for spec in card.params
        if spec.name not in known and values.get(spec.name, spec.default) != spec.default
    ]
    if values.get("order") == "balanced":
        missing.append("Order Balanced classes, which it shuffles")
    note = f"# Not in this script: {'; '.join(missing)}.\n" if missing else ""
    return note + _VALUE.sub(line, script)
