"""Whether a run may start on this machine: what does not fit the exercise, and data that cannot be found."""

from __future__ import annotations

from collections.abc import Iterator

from clew_agent.datasets import NAMES, Search, is_name, locate
from clew_agent.spec_check import misfits
from clew_shared.cards import ExerciseCard
from clew_shared.problem import Problem, ProblemError
from clew_shared.spec import RunSpec


def complaints(spec: RunSpec, card: ExerciseCard, search: Search) -> tuple[Problem, ...]:
    """All problems of ``spec`` with the exercise of ``card`` and its data, before anything is left behind.

    Data are only looked for here; whether they are sound is seen when they are read.
    """
    found = misfits(spec, card)
    return found if card.problem is not None else (*found, *_data(spec, card, search))


def data_name(spec: RunSpec, card: ExerciseCard) -> str:
    """The data set or path that the run will use; empty when the exercise needs none."""
    return spec.data or (card.datasets[0] if card.datasets else "")


def _data(spec: RunSpec, card: ExerciseCard, search: Search) -> Iterator[Problem]:
    if not card.datasets:
        if spec.data:
            yield Problem("spec.data", f"The exercise {card.id!r} takes no data set.", "Leave data out.", "data")
        return
    name = data_name(spec, card)
    if is_name(name) and name in NAMES and name not in card.datasets:
        text = f"The exercise {card.id!r} does not take the data set {name!r}."
        yield Problem("spec.data", text, f"Possible: {', '.join(card.datasets)}.", "data")
        return
    try:
        locate(name, search)
    except ProblemError as error:
        yield from error.problems
