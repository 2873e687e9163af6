"""Whether a run may start: everything that is wrong with a spec, found together, before anything is left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clew_agent.datasets import NAMES, Search, is_name, locate
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import find_preset
from clew_shared.journal import check_size
from clew_shared.params import Value, check
from clew_shared.problem import Problem, ProblemError
from clew_shared.spec import RunSpec


def complaints(spec: RunSpec, card: ExerciseCard, search: Search) -> tuple[Problem, ...]:
    """All problems of ``spec`` with the exercise of ``card``: file, hyperparameters, strategy, length, data.

    Data are only looked for here; whether they are sound is seen when they are read.
    """
    if card.problem is not None:
        return (card.problem,)
    values, problems = check(card.params, spec.params)
    return (
        *_file(spec, card),
        *_preset(spec, card),
        *problems,
        *_strategy(spec, card),
        *_length(card, values),
        *_data(spec, card, search),
    )


def data_name(spec: RunSpec, card: ExerciseCard) -> str:
    """The data set or path that the run will use; empty when the exercise needs none."""
    return spec.data or (card.datasets[0] if card.datasets else "")


def planned_steps(values: dict[str, Value]) -> int:
    """How many steps the hyperparameters ask for; 0 when they do not say."""
    steps = values.get("steps")
    return steps if isinstance(steps, int) else 0


def _file(spec: RunSpec, card: ExerciseCard) -> Iterator[Problem]:
    if spec.source_hash and spec.source_hash != card.source_hash:
        text = (
            f"The spec was made for another version of {card.id}: its file has the SHA-256"
            f" {card.source_hash[:12]}…, the spec names {spec.source_hash[:12]}…."
        )
        yield Problem("exercise.changed", text, "Choose the exercise again, or leave source_hash out.", "source_hash")


def _preset(spec: RunSpec, card: ExerciseCard) -> Iterator[Problem]:
    try:
        if spec.preset:
            find_preset(card, spec.preset)
    except ProblemError as error:
        yield from error.problems


def _strategy(spec: RunSpec, card: ExerciseCard) -> Iterator[Problem]:
    strategy = next((one for one in card.strategies if one.id == spec.strategy), None)
    if strategy is None:
        known = ", ".join(one.id for one in card.strategies)
        text = f"The exercise {card.id!r} cannot be run with the strategy {spec.strategy!r}."
        yield Problem("spec.strategy", text, f"Possible: {known}.", "strategy")
    elif spec.devices not in strategy.devices:
        counts = ", ".join(map(str, strategy.devices))
        text = f"The strategy {spec.strategy!r} runs on {counts} devices, not on {spec.devices}."
        yield Problem("spec.devices", text, "Change devices.", "devices")


def _length(card: ExerciseCard, values: dict[str, Value]) -> Iterator[Problem]:
    try:
        check_size(planned_steps(values), card.metrics)
    except ProblemError as error:
        yield from error.problems


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


def as_one(problems: Sequence[Problem]) -> Problem:
    """All ``problems`` in one, for places that have room for a single one."""
    if len(problems) == 1:
        return problems[0]
    lines = "\n".join(f"  - {one}" for one in problems)
    return Problem("spec.refused", f"{len(problems)} things are wrong:\n{lines}\n")
