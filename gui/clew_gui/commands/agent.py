"""What the commands know of the agent: its catalogue, and the Python that has TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from clew_shared.cards import Catalogue
from clew_shared.catalogue import decode, load_builtin
from clew_shared.places import Places
from clew_shared.problem import problem

_CATALOGUE_S = 300
"""Bound on importing all exercise files in children; TensorFlow takes seconds, on a cold network disk half a minute."""


def interpreter(places: Places) -> str:
    """The Python that runs the agent on this computer. Raises ``ProblemError`` when none has TensorFlow."""
    del places
    if find_spec("tensorflow") is None:
        hint = "Install it with: pip install 'clew[cpu]'."
        raise problem("agent.tensorflow", "This Python has no TensorFlow, and training needs it.", hint)
    return sys.executable


def cards(places: Places, exercises: str | None = None) -> Catalogue:
    """The exercises of this version, and those in the folder ``exercises``, which the agent imports."""
    if exercises is None:
        return load_builtin()
    folder = Path(exercises).expanduser().absolute()
    if not folder.is_dir():
        raise problem("cli.exercises", f"There is no folder {exercises}.", "Check --exercises.", "exercises")
    command = agent_command(interpreter(places), "catalogue", "--json", "--exercises", str(folder))
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CATALOGUE_S, check=False
        )
        return decode(done.stdout.encode())
    except (subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        text = f"The exercises in {folder} could not be listed: {error}."
        raise problem("cli.exercises", text, "Try: clew-agent catalogue --exercises", str(folder)) from None


def agent_command(python: str, *words: str) -> list[str]:
    """The command line of the agent under ``python``. ``-P``: no file in the current folder stands in for a module."""
    return [python, "-P", "-m", "clew_agent", *words]
