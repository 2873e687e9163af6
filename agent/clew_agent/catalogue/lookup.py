"""Finds the card of one exercise, without an import where that is possible."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

from clew_agent.catalogue.exercise_files import likely_files, read_source, source_hash
from clew_agent.catalogue.script_card import Script, read_script
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import find_card, load_builtin


def card_of(exercise: str, exercises: Path | None) -> ExerciseCard:
    """The card of an exercise, made by importing its file in a child where it is not known otherwise. Raises
    ``ProblemError``."""
    from clew_agent.catalogue.catalogue import make_catalogue  # late: no trainer needs it

    return quick_card(exercise, exercises) or find_card(make_catalogue(exercises).exercises, exercise)


def quick_card(exercise: str, exercises: Path | None) -> ExerciseCard | None:
    """The card if it is known without an import: from the built-in catalogue, when it was made from the very file that
    will run, or from the header of a training script; else None."""
    source = likely_hash(exercise, exercises)
    same = (card for card in builtin_cards() if source and (card.id, card.source_hash) == (exercise, source))
    found = next(same, None)
    if found is not None or exercises is None:
        return found
    script = find_script(exercise, exercises)
    return script.card if script is not None else None


def likely_hash(exercise: str, exercises: Path | None) -> str:
    """The hash of the file that probably holds the exercise; empty where there is none."""
    with suppress(ProblemError):
        return next((source_hash(read_source(file)) for file in likely_files(exercise, exercises)), "")
    return ""


@cache
def builtin_cards() -> tuple[ExerciseCard, ...]:
    """The exercises that come with this version; read once, by the nursery for all its copies."""
    try:
        return load_builtin().exercises
    except ProblemError:
        return ()


def find_script(exercise: str, folder: Path) -> Script | None:
    """The training script with this id in ``folder``; None when it is none. What is broken has no id."""
    for file in likely_files(exercise, folder):
        with suppress(ProblemError):
            script = read_script(file)
            if script is not None and script.card.id == exercise:
                return script
    return None
