"""What the commands know of the agent: its catalogue, and the Python that has TensorFlow."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from clew_gui.session import local_agent
from clew_shared.cards import Catalogue
from clew_shared.catalogue import decode, load_builtin
from clew_shared.places import Places
from clew_shared.problem import problem

_CATALOGUE_S = 300
"""Bound on importing all exercise files in children; TensorFlow takes seconds, on a cold network disk half a minute."""


def cards(places: Places, exercises: str | None = None) -> Catalogue:
    """The exercises of this version, and those in the folder ``exercises``, which the agent imports."""
    if exercises is None:
        return load_builtin()
    folder = Path(exercises).expanduser().absolute()
    if not folder.is_dir():
        raise problem("cli.exercises", f"There is no folder {exercises}.", "Check --exercises.", "exercises")
    command = agent_command(places, "catalogue", "--json", "--exercises", str(folder))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CATALOGUE_S, check=False)
        return decode(done.stdout)
    except (subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        text = f"The exercises in {folder} could not be listed: {error}."
        raise problem("cli.exercises", text, "Try: clew-agent catalogue --exercises", str(folder)) from None


def agent_command(places: Places, *words: str) -> list[str]:
    """The command line of the agent, under the Python that the window uses as well.

    Raises ``ProblemError`` when no Python with TensorFlow is known.
    """
    return [*local_agent.agent_program(places), *words]
