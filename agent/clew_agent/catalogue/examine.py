"""Imports exercise files and makes their cards; runs in a child process, because importing a file runs it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from clew_agent.catalogue.exercise_files import (
    OWN_MODULES,
    Examined,
    ExerciseFile,
    broken_card,
    import_problem,
    likely_files,
    read_source,
    source_hash,
)
from clew_agent.node.lean_import import lean_import
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError, did_you_mean, problem
from clew_shared.base.remedies import list_all
from clew_shared.cards import ExerciseCard
from clew_shared.goal_settings import questions, unknown_settings

if TYPE_CHECKING:
    from clew_agent.training.exercise import Exercise
    from clew_shared.params import Params

    AnyExercise = Exercise[Params]


def main(argv: Sequence[str]) -> int:
    """``clew-agent examine FILE...`` (``=module`` before a path for a built-in file): one line of JSON for each file.

    What the files print goes to standard error, so that it cannot be taken for a card.
    """
    operating_system.die_with_parent()  # which has a time limit of its own, and may be killed at it
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        for word in argv:
            module, _, path = word.rpartition("=")
            file = ExerciseFile(Path(path), module)
            out.write(msgspec.json.encode(Examined(path, examine(file))) + b"\n")
            out.flush()
    return 0


def examine(file: ExerciseFile) -> tuple[ExerciseCard, ...]:
    """The cards of the exercises in ``file``, or one card that says why there are none. Never raises."""
    try:
        source = read_source(file)
        cards = tuple(exercise.card(source, file.shown) for exercise in import_exercises(file))
        for card in cards:  # one that cannot travel, or says a text where a number belongs, is found here
            msgspec.json.decode(msgspec.json.encode(card), type=ExerciseCard)
            _check_goals(card, file)
            _check_metrics(card, file)
    except ProblemError as error:
        return (broken_card(file, error.problems[0]),)
    except BaseException as error:  # noqa: BLE001  # anybody's file: it may raise anything, SystemExit as well
        return (broken_card(file, import_problem(file, error)),)
    return cards


def _check_metrics(card: ExerciseCard, file: ExerciseFile) -> None:
    """Raise ``ProblemError`` for a goal, plot or race about a metric that no run records: it would never have a
    value."""
    known = {spec.name for spec in card.metrics}
    used = [(f"goal {goal.text!r}", goal.metric) for goal in card.goals]
    used += [(f"plot {plot.title!r}", name) for plot in card.plots for name in plot.metrics]
    used += [(f"race {race.title!r}", race.metric) for race in card.races]
    for what, name in used:
        if name not in known:
            text = f"The {what} of {card.id} is about the metric {name!r}, which the exercise does not record."
            hint = did_you_mean(name, known) or f"It records {', '.join(sorted(known)) or 'none'}."
            raise problem("exercise.metric", text, hint, file.shown)


def _check_goals(card: ExerciseCard, file: ExerciseFile) -> None:
    """Raise ``ProblemError`` for a goal that no run could reach: it asks for a setting that no run has, or an answer to
    a question that the guide does not ask."""
    for goal, name in unknown_settings(card):
        text = f"The goal {goal.text!r} of {card.id} asks for the setting {name!r}, which the exercise does not have."
        raise problem("exercise.goal", text, did_you_mean(name, [param.name for param in card.params]), file.shown)
    for goal in card.goals:
        if goal.question and goal.question not in questions(card.guide):
            asked = f"question {goal.question}" if goal.question.isdecimal() else repr(goal.question)
            text = f"The goal {goal.text!r} of {card.id} asks for an answer to {asked}, which the guide does not ask."
            hint = "Questions are the items of a list under the heading Questions; they are counted from 1."
            raise problem("exercise.goal", text, hint, file.shown)


def import_exercises(file: ExerciseFile) -> list[AnyExercise]:
    """The exercises that the file declares: its ``EXERCISE``, or its own subclasses of ``Exercise`` that have an id.

    Raises whatever the file raises, and ``ProblemError`` when it declares none.
    """
    with lean_import():
        module = importlib.import_module(file.module) if file.module else _import_path(file.path)
    found = _declared(module)
    if not found:
        text = f"{file.path.name} declares no exercise."
        hint = "Give it a subclass of Exercise and EXERCISE = YourClass()."
        raise problem("exercise.none", text, hint, file.shown)
    return found


def _declared(module: ModuleType) -> list[AnyExercise]:
    from clew_agent.training.exercise import Exercise

    declared = getattr(module, "EXERCISE", None)
    if isinstance(declared, type) and issubclass(declared, Exercise):
        declared = declared()
    if isinstance(declared, Exercise):
        return [declared]
    own = (value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)
    return [kind() for kind in own if issubclass(kind, Exercise) and isinstance(getattr(kind, "id", None), str)]


def _import_path(path: Path) -> ModuleType:
    """The file as a module under a name that no other module has. Its folder is searched last for its own imports."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"{OWN_MODULES}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise problem("exercise.source", f"{path} cannot be imported as Python.", where=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def find_exercise(
    exercise: str, folder: Path | None, known: ExerciseCard | None = None
) -> tuple[AnyExercise, ExerciseCard]:
    """The exercise with this id and its card, from the built-in files or those in ``folder``.

    The card is ``known`` where that was made from the same file: making one takes as long as making some models.
    Raises ``ProblemError`` when there is none, or when the file that should hold it cannot be imported.
    """
    broken: list[Problem] = []
    for file in likely_files(exercise, folder):
        try:
            found = [one for one in import_exercises(file) if one.id == exercise]
            if found:
                source = read_source(file)
                same = known is not None and known.source_hash == source_hash(source)
                return found[0], known if known is not None and same else found[0].card(source, file.shown)
        except ProblemError as error:
            broken.extend(error.problems)
        except Exception as error:  # noqa: BLE001  # someone's own file; the traceback goes to the run's log
            traceback.print_exc()
            broken.append(import_problem(file, error))
    if broken:
        raise ProblemError(*broken)
    raise problem("exercise.unknown", f"There is no exercise {exercise!r}.", "", exercise, list_all("exercises"))
