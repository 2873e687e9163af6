"""Whether a run may start: everything that is wrong with a spec, found together, before any file is written.

No NumPy: the supervisor asks this as well as the trainer. Data are only looked for; whether they are sound is seen when
they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clew_agent.datasets.search import Search, find_search, locate
from clew_agent.strategies.registry import STRATEGIES, entry
from clew_shared import spec as specs
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import find_card, find_preset, known_sets, load_builtin
from clew_shared.journal.files import check_size, first_attempt
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value, check
from clew_shared.revisions import trains_alike
from clew_shared.spec import RunSpec


def check_spec(spec: RunSpec, catalogue: Catalogue, search: Search, revision: int = 0) -> tuple[Problem, ...]:
    """Everything that is wrong with ``spec``; empty when the run can be started."""
    found = tuple(specs.check_spec(spec))
    try:
        card = find_card(catalogue.exercises, spec.exercise)
    except ProblemError as error:
        return (*found, *error.problems)
    return (*found, *check_against_card(spec, card, search, revision))


def check_against_card(spec: RunSpec, card: ExerciseCard, search: Search, revision: int = 0) -> tuple[Problem, ...]:
    """Returns all that does not fit the exercise of ``card``: file, hyperparameters, preset, strategy, length and
    data."""
    if card.problem is not None:
        return (card.problem,)
    values, _ = check(card.params, spec.params)
    return (
        *_file(spec, card, revision),
        *specs.misfits(spec, card),
        *_preset(spec, card),
        *_strategy(spec, card),
        *entry(spec.strategy).check(spec),
        *_length(card, values),
        *_data(spec, card, search),
    )


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a laptop that asks on a login node, before it sends a job: why ``specs`` could not start, if so."""
    found = check_texts(question["specs"], find_search(find_places()), question["own"])
    return {"problem": msgspec.to_builtins(found)}


def check_texts(texts: Sequence[str], search: Search, own: bool = False) -> Problem | None:
    """Says why runs with these specs, as TOML, could not start here; None when they could.

    ``own``: they may be exercises of one's own, of which only the data that their specs name are looked for.
    """
    catalogue = load_builtin()
    found: list[Problem] = []
    for text in texts:
        try:
            spec = specs.from_toml(text)
        except ProblemError as error:
            found += error.problems
            continue
        if not own:
            folder = RunFolder(find_places().runs / spec.run)
            before = max(folder.attempts(), default=0) if spec.run else 0
            found += check_spec(spec, catalogue, search, revision=recorded_revision(folder, before))
        elif spec.data:
            found += _absent(spec.data, search)
    return combine(tuple(dict.fromkeys(found))) if found else None


def data_name(spec: RunSpec, card: ExerciseCard) -> str:
    """The data set or path that the run will use; empty when the exercise needs none."""
    return spec.data or (card.datasets[0] if card.datasets else "")


def planned_steps(values: dict[str, Value]) -> int:
    """Returns how many steps the hyperparameters ask for; 0 when they do not say."""
    steps = values.get("steps")
    return steps if isinstance(steps, int) else 0


def combine(problems: Sequence[Problem]) -> Problem:
    """Several problems as one, with the ways out of all, for places that have room for one; a single one stays as it
    is."""
    if len(problems) == 1:
        return problems[0]
    lines = "\n".join(f"  - {one}" for one in problems)
    remedies = tuple(dict.fromkeys(way for one in problems for way in one.remedies))
    text = f"{len(problems)} things are wrong:\n{lines}\n"
    return Problem("spec.refused", text, where=problems[0].where, remedies=remedies)


def recorded_revision(folder: RunFolder, attempt: int) -> int:
    """Returns the revision of the exercise that the journal of ``attempt`` names; 0 if there is none (attempt 0)."""
    first = first_attempt(folder.journal(attempt)) if attempt else None
    return first.revision if first is not None else 0


def _file(spec: RunSpec, card: ExerciseCard, revision: int) -> Iterator[Problem]:
    if trains_alike(card, revision, spec.source_hash):
        return
    here, there = f"the SHA-256 {card.source_hash[:12]}…", f"{spec.source_hash[:12]}…"
    if revision and card.revision:
        here, there = f"revision {card.revision}", str(revision)
    text = f"The spec was made for another version of {card.id}: its file has {here}, the run has {there}."
    hint = "Choose the exercise again, or leave source_hash out."
    yield Problem("spec.source", text, hint, "source_hash")


def _preset(spec: RunSpec, card: ExerciseCard) -> Iterator[Problem]:
    try:
        if spec.preset:
            find_preset(card, spec.preset)
    except ProblemError as error:
        yield from error.problems


def _strategy(spec: RunSpec, card: ExerciseCard) -> Iterator[Problem]:
    """Says that a card names a strategy that this version does not have."""
    known = spec.strategy in STRATEGIES and (spec.devices == 1 or spec.strategy != specs.SINGLE.id)
    if not known and not specs.check_strategy(spec, card):
        text = f"This version of Clew cannot train with the strategy {spec.strategy!r} on {spec.devices} devices yet."
        yield Problem("spec.strategy", text, 'Choose the strategy "single" and 1 device.', "strategy")


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
    if name in known_sets() and name not in card.datasets:
        text = f"The exercise {card.id!r} does not take the data set {name!r}."
        yield Problem("spec.data", text, f"Possible: {', '.join(card.datasets)}.", "data")
        return
    yield from _absent(name, search)


def _absent(name: str, search: Search) -> Iterator[Problem]:
    try:
        locate(name, search)
    except ProblemError as error:
        yield from error.problems
