"""Refuses a step that could not be resumed exactly: hidden state and hidden randomness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from clew_shared.problem import Problem, ProblemError

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


def check_resumable(function: Any, state: Mapping[str, tf.Variable]) -> None:
    """Look through a traced ``function``: every variable stands in ``state``, no operation hides a generator.

    Keras' Dropout draws from a seed generator that is a variable of its own; a checkpoint of weights does not bring
    it back. Raises ``ProblemError`` with everything found.
    """
    found = [*_hidden_variables(function, state), *_hidden_generators(function)]
    if found:
        raise ProblemError(*found)


def _hidden_variables(function: Any, state: Mapping[str, tf.Variable]) -> Iterator[Problem]:
    known = {id(variable.handle) for variable in state.values()}
    names = {id(variable.handle): variable.name for variable in function.graph.variables}
    for tensor in function.captured_inputs:
        if tensor.dtype != tf.resource or id(tensor) in known:
            continue
        name = names.get(id(tensor), "without a name")
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
