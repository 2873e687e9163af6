"""The agent's program as the commands call it: for its catalogue and other answers; and requests to stop a command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew_gui.base.settings import course_exercises
from clew_gui.commands.context import CommandContext
from clew_gui.courses.course import applied
from clew_gui.courses.store import Courses
from clew_gui.targets import local_agent
from clew_shared.base import operating_system
from clew_shared.base.harmless import say
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.catalogue import decode, load_builtin

_CATALOGUE_S = 300
"""Bound on importing all exercise files in children; TensorFlow takes seconds, on a cold network disk half a minute."""


def cards(places: Places, exercises: str | None = None, needed: Sequence[str] = ()) -> Catalogue:
    """The exercises of ``catalogue`` as the followed course has them."""
    return applied(Courses(places).current(), catalogue(places, exercises, needed), rest=True)


def catalogue(places: Places, exercises: str | None = None, needed: Sequence[str] = ()) -> Catalogue:
    """The exercises of this version, and those in the folder ``exercises``, which the agent imports. Where it is None
    and some of those that are ``needed`` are not built in, those of the course are read."""
    known = load_builtin()
    if exercises is None and set(needed) - {card.id for card in known.exercises}:
        exercises = course_exercises(places) or None
    if exercises is None:
        return known
    folder = Path(exercises).expanduser().absolute()
    if not folder.is_dir():
        raise problem("cli.exercises", f"There is no folder {exercises}.", "Check --exercises.", "exercises")
    command = agent_command(places, "catalogue", "--json", "--exercises", str(folder))
    if sys.stderr.isatty():  # TensorFlow is imported once for each file, which takes some seconds
        say(f"Reading the exercises in {folder} …", sys.stderr)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CATALOGUE_S, check=False)
        return decode(done.stdout)
    except (subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        text = f"The exercises in {folder} could not be listed: {error}."
        raise problem("cli.exercises", text, "Try: clew-agent catalogue --exercises", str(folder)) from None


def note_unknown(context: CommandContext, card: ExerciseCard | None, exercise: str) -> None:
    """Says why an exercise is shown without its goals, if there is no card of it."""
    if card is None:
        context.note(f"{exercise} is not one of Clew's own exercises. With its goals: --exercises DIR")


def agent_command(places: Places, *words: str) -> list[str]:
    """The command line of the agent, under the Python that the window uses as well.

    Raises ``ProblemError`` when no Python with TensorFlow is known.
    """
    return [*local_agent.agent_program(places), *words]


@contextmanager
def stop_requests() -> Iterator[Callable[[], int]]:
    """Count requests to stop (Ctrl+C, a polite kill, the terminal closed) instead of dying of them."""
    count = 0

    def note(_number: int) -> None:
        nonlocal count
        count += 1

    with operating_system.stop_requests(note):
        yield lambda: count
