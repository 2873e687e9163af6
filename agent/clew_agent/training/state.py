"""All that a run needs to go on: one ordered dictionary of our own names, saved with ``tf.train.Checkpoint``.

The names do not depend on Keras' automatic ones nor on a strategy: ``weights/softmax/W``,
``slots/softmax/W/momentums``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from clew_agent.training.exercise import Model, Part
from clew_shared.problem import problem

FILE = "state"


def named_state(model: Model) -> dict[str, tf.Variable]:
    """The model's variables and its optimizers' (which are built here if they were not) under our own names."""
    state: dict[str, tf.Variable] = {}
    for part in model.parts:
        state |= {f"weights/{part.name}/{name}": variable for name, variable in part.variables.items()}
        state |= _optimizer_state(part)
    return state | {f"state/{name}": variable for name, variable in model.state.items()}


def _optimizer_state(part: Part) -> dict[str, tf.Variable]:
    """Slots by weight: in a Keras optimizer each kind of slot is an attribute that lists one variable per weight."""
    rule = part.optimizer.rule
    if not rule.built:
        rule.build(list(part.variables.values()))
    state: dict[str, tf.Variable] = {}
    for attribute, value in sorted(vars(rule).items()):
        name = attribute.strip("_")
        if _is_slot(attribute, value, len(part.variables)):
            pairs = zip(part.variables, value, strict=True)
            state |= {f"slots/{part.name}/{weight}/{name}": slot.value for weight, slot in pairs}
        elif _is_variable(value):
            state[f"optimizer/{part.name}/{name}"] = value.value
    listed = {id(variable) for variable in state.values()}
    lost = [variable.path for variable in rule.variables if id(variable.value) not in listed]
    if lost:
        raise problem(
            "checkpoint.slots", f"The optimizer of {part.name} keeps state that has no name: {', '.join(lost)}."
        )
    return state


def _is_slot(attribute: str, value: Any, weights: int) -> bool:
    """Keras also keeps lists of all its own and of all trained variables; those are no slots."""
    listed = isinstance(value, list) and len(value) == weights and all(_is_variable(one) for one in value)
    return listed and attribute not in ("_variables", "_trainable_variables")


def _is_variable(value: Any) -> bool:
    return isinstance(getattr(value, "value", None), tf.Variable)


def save(state: dict[str, tf.Variable], folder: Path) -> None:
    """Write ``state`` into ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    tf.train.Checkpoint(**state).write(str(folder / FILE))


def restore(state: dict[str, tf.Variable], folder: Path) -> None:
    """Fill ``state`` from ``folder``. Raises ``ProblemError`` when anything is missing, left over or damaged."""
    try:
        status = tf.train.Checkpoint(**state).read(str(folder / FILE))
        status.assert_existing_objects_matched()
        status.assert_consumed()
    except (tf.errors.OpError, AssertionError, ValueError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        text = f"The checkpoint in {folder} does not fit this run: {reason}"
        raise problem(
            "checkpoint.read", text, "Resume with the run's own settings, or start anew.", str(folder)
        ) from None
