"""The state that a run needs to go on: one ordered dictionary of our own names, saved with ``tf.train.Checkpoint``. A
step that could not be resumed exactly is refused.

The names do not depend on Keras' automatic ones nor on a strategy: ``weights/softmax/W``,
``slots/softmax/W/momentums``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from clew_agent.strategies.base import copies
from clew_agent.training.exercise import Model, Part
from clew_shared.base.problem import Problem, ProblemError, problem

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
    """Whether the attribute is a list of slots. Keras also keeps lists of all its own and of all trained variables;
    those are no slots."""
    listed = isinstance(value, list) and len(value) == weights and all(_is_variable(one) for one in value)
    return listed and attribute not in ("_variables", "_trainable_variables")


def _is_variable(value: Any) -> bool:
    return isinstance(getattr(value, "value", None), tf.Variable)


def as_variables(values: Mapping[str, npt.NDArray[Any]]) -> dict[str, tf.Variable]:
    """The values as variables in this process, to be saved or filled by ``tf.train.Checkpoint``."""
    return {name: tf.Variable(value) for name, value in values.items()}


def as_arrays(variables: Mapping[str, tf.Variable]) -> dict[str, npt.NDArray[Any]]:
    """What the variables hold."""
    return {name: variable.numpy() for name, variable in variables.items()}


def save(state: dict[str, tf.Variable], folder: Path) -> None:
    """Write ``state`` into ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    tf.train.Checkpoint(**_own(state)).write(str(folder / FILE))


def restore(state: dict[str, tf.Variable], folder: Path) -> None:
    """Fill ``state`` from ``folder``. Raises ``ProblemError`` when anything is missing, left over or damaged."""
    try:
        status = tf.train.Checkpoint(**_own(state)).read(str(folder / FILE))
        status.assert_existing_objects_matched()
        status.assert_consumed()
    except (tf.errors.OpError, AssertionError, ValueError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        text = f"The checkpoint in {folder} does not fit this run: {reason}"
        raise problem(
            "checkpoint.read", text, "Resume with the run's own settings, or start a new run.", str(folder)
        ) from None
    for variable in state.values():
        first, *others = copies(variable)
        for other in others:
            other.assign(first)


def _own(state: Mapping[str, tf.Variable]) -> dict[str, tf.Variable]:
    """Returns one plain variable for each name: what is saved does not depend on how many devices hold it."""
    return {name: copies(variable)[0] for name, variable in state.items()}


# --- Checks -----------------------------------------------------------------------------------------------------------
# Refuses a step that could not be resumed exactly: hidden state and hidden randomness.


RANDOM_OPS = frozenset(
    {
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "TruncatedNormal",
    }
)
_HINT = "Use the step's context (context.uniform, layers.dropout), whose numbers depend on seed and step alone."


def check_resumable(function: Any, state: Mapping[str, tf.Variable], *, spread: bool = False) -> None:
    """Look through a traced ``function``: every variable is in ``state``, no operation hides a generator.

    Keras' Dropout draws from a seed generator that is a variable of its own; a checkpoint of weights does not bring
    it back. ``spread``: over replicas. Raises ``ProblemError`` with everything found.
    """
    found = [*_hidden_variables(function, state, spread), *_hidden_generators(function)]
    if found:
        raise ProblemError(*found)


def _hidden_variables(function: Any, state: Mapping[str, tf.Variable], spread: bool) -> Iterator[Problem]:
    known = {id(own.handle) for variable in state.values() for own in copies(variable)}
    names = {id(own.handle): own.name for variable in function.graph.variables for own in copies(variable)}
    for tensor in function.captured_inputs:
        if tensor.dtype != tf.resource or id(tensor) in known:
            continue
        name = names.get(id(tensor), "without a name")
        if spread and id(tensor) not in names:  # by such handles TensorFlow keeps sums over replicas in their order
            continue
        if "seed_generator" in name:
            text = f"A Keras layer draws random numbers from its own generator ({name}), which no checkpoint restores."
            yield Problem("exercise.random", text, _HINT)
        else:
            text = f"The step uses a variable ({name}) of no part and of no state, so a checkpoint would lose it."
            yield Problem("exercise.state", text, "Add it to a Part's variables or to Model.state.")


def _hidden_generators(function: Any) -> Iterator[Problem]:
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    for op in sorted({node.op for node in nodes} & RANDOM_OPS):
        yield Problem(
            "exercise.random", f"The step draws random numbers with {op}, whose position is not restored.", _HINT
        )
