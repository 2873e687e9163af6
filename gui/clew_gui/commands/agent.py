"""What the commands know of the agent: its built-in catalogue, and the Python that has TensorFlow."""

from __future__ import annotations

from clew_gui.session.local_agent import find_interpreter
from clew_shared.cards import Catalogue
from clew_shared.catalogue import load_builtin
from clew_shared.places import Places


def cards() -> Catalogue:
    """The exercises of this version."""
    return load_builtin()


def interpreter(places: Places) -> str:
    """The Python that runs the agent on this computer. Raises ``ProblemError`` when none has TensorFlow."""
    return str(find_interpreter(places))
