"""Runs this computer's agent: chooses its Python, starts it as a program of its own, finds it."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_gui.base.settings import exercises_folder, local_settings
from clew_gui.targets.local_environment import find_environment
from clew_shared.base import operating_system
from clew_shared.base.foreign import json_or_none
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, problem
from clew_shared.base.process_identity import still_runs_since
from clew_shared.base.remedies import set_up_tensorflow
from clew_shared.wire.messages import AgentAddress, read_address

_LOG_BYTES = 1 << 20
_INSTALL = "Name a Python that has TensorFlow and Clew in {}, or let Clew make an environment of its own."


def agent_command(places: Places) -> list[str]:
    """``python -m clew_agent serve`` with the folder of own exercises that the settings name.

    Raises ``ProblemError`` as ``agent_program``, and when there is no such folder.
    """
    folder = exercises_folder(places)
    if folder and not Path(folder).expanduser().is_dir():
        hint = f"Fix exercises in {local_settings(places).path}, or remove that line."
        raise problem("agent.exercises", f"There is no folder {folder}.", hint, folder)
    own = ["--exercises", str(Path(folder).expanduser())] if folder else []
    return [*agent_program(places), "serve", *own]


def agent_program(places: Places) -> list[str]:
    """``python -m clew_agent``, by the Python of the settings, else this one if it has TensorFlow, else the one of the
    environment that Clew has made.

    Raises ``ProblemError`` when none will do. TensorFlow is looked for, not imported.
    """
    settings = local_settings(places)
    chosen = settings.load().interpreter
    if chosen and not Path(chosen).expanduser().is_file():
        hint = f"Fix interpreter in {settings.path}, or remove that line."
        raise problem("agent.interpreter", f"There is no Python at {chosen}.", hint, chosen)
    python = str(Path(chosen).expanduser()) if chosen else sys.executable
    if not chosen and not has_tensorflow():
        found = find_environment(places)
        if found is None:
            text = f"{sys.executable} has no TensorFlow, so nothing can be trained on this computer."
            raise problem("agent.tensorflow", text, _INSTALL.format(settings.path), sys.executable, set_up_tensorflow())
        python = found.python
    # -P: a file of the current folder must not stand in for a module.
    return [python, "-P", "-m", "clew_agent"]


def has_tensorflow() -> bool:
    """Whether the Python that runs Clew has TensorFlow."""
    return importlib.util.find_spec("tensorflow") is not None


class _DataAnswer(msgspec.Struct):
    problem: Problem | None = None


def data_command(places: Places, path: Path) -> list[str]:
    """The program that reads a file of data as a run would. Raises ``ProblemError`` as ``agent_program``."""
    return [*agent_program(places), "data", "--json", "--", str(path)]


def data_problem(output: bytes) -> Problem | None:
    """Returns what is wrong with the file, from the output of ``data_command``; None also if it could not find out."""
    answer = json_or_none(output.strip().rpartition(b"\n")[2], _DataAnswer)
    return answer.problem if answer is not None else None


def log_path(places: Places) -> Path:
    """Returns the file in which this computer's agent writes what it does."""
    return places.agents / "agent.log"


def start_agent(places: Places, command: list[str]) -> subprocess.Popen[bytes]:
    """Start the agent in a session of its own: it outlives this program. Raises ``ProblemError`` if it cannot."""
    make_private(places.agents)
    path = log_path(places)
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        with suppress(PermissionError):  # an agent that is ending has it open
            operating_system.replace_file(path, path.with_suffix(".log.1"))
    try:
        with path.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"CLEW_HOME": str(places.home)},
                **operating_system.own_session(),
            )
    except OSError as error:
        raise problem("agent.start", f"{command[0]} cannot be started: {error}.", "Check the path.") from None


def find_agent(places: Places) -> AgentAddress | None:
    """The newest agent of this computer whose process lives."""
    found = [address for path in places.agents.glob("*.json") if (address := read_address(path)) is not None]
    alive = [address for address in found if address.host == platform.node() and is_alive(address)]
    return max(alive, key=lambda address: address.started, default=None)


def is_alive(address: AgentAddress) -> bool:
    """Whether the process that wrote the address still runs."""
    return still_runs_since(address.pid, address.started, _holds_agents_lock)


def _holds_agents_lock(files: Collection[Path]) -> bool:
    return any(file.suffix == ".lock" and file.parent.name == "agents" for file in files)


def last_lines(places: Places, count: int = 5) -> str:
    """The end of the agent's log, for the sentence that says that it did not start."""
    try:
        lines = log_path(places).read_bytes()[-4096:].decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(line[:300] for line in lines[-count:])


# --- Another Python ---------------------------------------------------------------------------------------------------
# Whether it can run the agent: what to ask it, and what its answer means. The caller runs it.


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
        return _interpreter_problem(python, f"{python} is not a Python of version 3.11 or later: {said[0]}.")
    if found < _OLDEST:
        return _interpreter_problem(python, f"{python} is Python {found[0]}.{found[1]}; Clew needs 3.11 or later.")
    if absent:
        hint = "Choose a Python that has all of it, or leave the field empty: Clew can make one of its own."
        return _interpreter_problem(python, f"{python} has no {' and no '.join(absent)}.", hint)
    return None


def not_there(python: str) -> Problem | None:
    """Returns the problem that can be seen without running it."""
    if Path(python).expanduser().is_file():
        return None
    return _interpreter_problem(python, f"There is no file {python}.")


def silent(python: str) -> Problem:
    """Returns the problem that it did not answer in time."""
    return _interpreter_problem(python, f"{python} did not answer within {ANSWER_WITHIN_S:.0f} s.")


def no_folder(folder: str) -> Problem | None:
    """Says what is wrong with a folder of own exercises; None if it is there or none is named."""
    if not folder or Path(folder).expanduser().is_dir():
        return None
    hint = "Choose the folder that holds your exercise files, or leave the field empty."
    return Problem("settings.exercises", f"There is no folder {folder}.", hint, folder)


def _interpreter_problem(
    python: str, text: str, hint: str = "Choose the program python of an environment with TensorFlow."
) -> Problem:
    return Problem("settings.interpreter", text, hint, python)
