"""Whether a run spec fits the catalogue: every problem at once, so that one correction is enough. No NumPy."""

from __future__ import annotations

from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import find_card, find_preset
from clew_shared.params import check
from clew_shared.problem import Problem, ProblemError
from clew_shared.spec import SPEC_FORMAT, RunSpec


def check_spec(spec: RunSpec, catalogue: Catalogue) -> tuple[Problem, ...]:
    """Everything that is wrong with ``spec``; empty when the run can be started."""
    found = _check_numbers(spec)
    try:
        card = find_card(catalogue.exercises, spec.exercise)
    except ProblemError as error:
        return (*found, *error.problems)
    if card.problem is not None:
        return (*found, card.problem)
    return (*found, *_check_source(spec, card), *check(card.params, spec.params)[1], *_check_rest(spec, card))


def combine(problems: tuple[Problem, ...]) -> Problem:
    """Several problems as one, because a reply carries one; a single one stays as it is."""
    if len(problems) == 1:
        return problems[0]
    return Problem("spec.invalid", "\n".join(str(problem) for problem in problems), where=problems[0].where)


def _check_numbers(spec: RunSpec) -> tuple[Problem, ...]:
    found = []
    if spec.format != SPEC_FORMAT:
        text = f"The run spec has format {spec.format}; this agent reads format {SPEC_FORMAT}."
        found.append(Problem("spec.format", text, "Use the same version of Clew on both sides.", "format"))
    if not 0 <= spec.seed < 2**31:
        found.append(Problem("spec.seed", f"The seed must be from 0 to 2147483647, got {spec.seed}.", where="seed"))
    return tuple(found)


def _check_source(spec: RunSpec, card: ExerciseCard) -> tuple[Problem, ...]:
    if spec.source_hash in ("", card.source_hash):
        return ()
    text = f"The exercise {card.id!r} of this agent is another one than the spec was made from."
    return (Problem("spec.source", text, "Load the agent's catalogue again and choose anew.", "source_hash"),)


def _check_rest(spec: RunSpec, card: ExerciseCard) -> tuple[Problem, ...]:
    found: list[Problem] = []
    if spec.preset:
        try:
            find_preset(card, spec.preset)
        except ProblemError as error:
            found.extend(error.problems)
    strategies = {strategy.id: strategy for strategy in card.strategies}
    if not strategies and spec.strategy != "single":
        found.append(_unknown("strategy", spec.strategy, ("single",), card))
    elif strategies and spec.strategy not in strategies:
        found.append(_unknown("strategy", spec.strategy, tuple(strategies), card))
    elif spec.devices not in (strategies[spec.strategy].devices if strategies else (1,)):
        text = f"{spec.devices} devices do not fit the strategy {spec.strategy!r} of {card.id!r}."
        found.append(Problem("spec.devices", text, "Choose another number.", "devices"))
    return tuple(found)


def _unknown(what: str, value: str, known: tuple[str, ...], card: ExerciseCard) -> Problem:
    return Problem(f"spec.{what}", f"{card.id!r} knows no {what} {value!r}.", f"Known: {', '.join(known)}.", where=what)
