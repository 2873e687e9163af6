"""Whether a Python can run the agent: what to ask it, and what its answer means. The caller runs it."""

from __future__ import annotations

import json
from pathlib import Path

from clew_shared.base.problem import Problem

ANSWER_WITHIN_S = 30.0
"""The time limit in seconds: Python on a cold network disk; nothing of TensorFlow is imported."""
_NEEDED = {"tensorflow": "TensorFlow", "clew_agent": "Clew", "clew_shared": "Clew", "zmq": "pyzmq"}
_QUESTION = (
    "import importlib.util as u, json, sys; "
    f"print(json.dumps([list(sys.version_info[:2]), [n for n in {tuple(_NEEDED)} if u.find_spec(n) is None]]))"
)
_OLDEST = (3, 11)


def question(python: str) -> list[str]:
    """The command that asks a Python for its version and for what it lacks."""
    return [python, "-P", "-c", _QUESTION]


def interpreter_problem(python: str, exit_code: int, output: str) -> Problem | None:
    """Says what is wrong with the interpreter; None if the agent can run there."""
    try:
        version, lacking = json.loads(output.strip().splitlines()[-1])
        found = (int(version[0]), int(version[1]))
        absent = dict.fromkeys(_NEEDED[name] for name in lacking)
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):  # no limit to what a program may print
        said = output.strip().splitlines()[-1:] or [f"it ended with exit code {exit_code}"]
        return _problem(python, f"{python} is not a Python of version 3.11 or later: {said[0]}.")
    if found < _OLDEST:
        return _problem(python, f"{python} is Python {found[0]}.{found[1]}; Clew needs 3.11 or later.")
    if absent:
        hint = "Choose a Python that has all of it, or leave the field empty: Clew can make one of its own."
        return _problem(python, f"{python} has no {' and no '.join(absent)}.", hint)
    return None


def not_there(python: str) -> Problem | None:
    """Returns the problem that can be seen without running it."""
    if Path(python).expanduser().is_file():
        return None
    return _problem(python, f"There is no file {python}.")


def silent(python: str) -> Problem:
    """Returns the problem that it did not answer in time."""
    return _problem(python, f"{python} did not answer within {ANSWER_WITHIN_S:.0f} s.")


def no_folder(folder: str) -> Problem | None:
    """Says what is wrong with a folder of own exercises; None if it is there or none is named."""
    if not folder or Path(folder).expanduser().is_dir():
        return None
    hint = "Choose the folder that holds your exercise files, or leave the field empty."
    return Problem("settings.exercises", f"There is no folder {folder}.", hint, folder)


def _problem(
    python: str, text: str, hint: str = "Choose the program python of an environment with TensorFlow."
) -> Problem:
    return Problem("settings.interpreter", text, hint, python)
