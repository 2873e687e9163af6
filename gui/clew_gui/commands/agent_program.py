"""What the commands know of the agent: its catalogue, and the Python that has TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import msgspec
import psutil

from clew_gui.targets import local_agent
from clew_shared.base.places import Places
from clew_shared.base.problem import problem, raise_all
from clew_shared.cards import Catalogue
from clew_shared.catalogue import decode, load_builtin

_DATA_S = 30
"""Bound on reading one file, on a slow network disk."""
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


def check_data(places: Places, data: str) -> None:
    """Look into a file of data as a run would, before TensorFlow is loaded for one. A name is left to the run, and so
    is a file that takes too long.

    Raises ``ProblemError`` with what is wrong with the file, or when no Python with TensorFlow is known.
    """
    if not Path(data).is_absolute():
        return
    command = local_agent.data_command(places, Path(data))
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DATA_S, check=False)
        found = local_agent.data_problem(done.stdout)
        raise_all([found] if found is not None else [])


# --- Program ----------------------------------------------------------------------------------------------------------
# The agent as a program of its own: started, watched, asked to stop, killed. What depends on the system is here.


_POSIX = os.name == "posix"
_KILL_WAIT_S = 10.0
_SEAL_WAIT_S = 3.0
"""A guard seals the journal of a dead trainer within a tenth of a second, unless it hangs."""
_TAIL_BYTES = 16 * 1024


class AgentProgram:
    """``python -m clew_agent …`` with its output in a temporary file, in a session of its own.

    Ctrl+C in the terminal reaches only Clew, which then passes it on: the agent is never interrupted twice by one key.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this object, see close
        own_group = 0 if _POSIX else int(getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0))
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=_POSIX,
                creationflags=own_group,
            )
        except BaseException:
            self._output.close()
            raise

    def exit_code(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait at most ``seconds`` for the end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """What Ctrl+C is to a program: the agent stops after its block, the second time at once, the third it kills."""
        with suppress(ProcessLookupError, OSError):
            self._process.send_signal(signal.SIGINT if _POSIX else getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))

    def kill(self) -> None:
        """End it at once, with every process that it started. A guard that lives has the time to seal the journal."""
        self._kill_children()
        if self.wait(_SEAL_WAIT_S) is None:
            self._kill_children()  # it may have started another meanwhile
            with suppress(ProcessLookupError, OSError):
                self._process.kill()
            self.wait(_KILL_WAIT_S)

    def _kill_children(self) -> None:
        """The trainer has a session of its own, so that killing its guard would leave it running for ever."""
        with suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()

    def output(self) -> str:
        """The end of what it printed."""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL_BYTES))
        return self._output.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Make sure that it has ended, and let go of its output."""
        if self._process.poll() is None:
            self.kill()
        self._output.close()

    def __enter__(self) -> AgentProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def stop_requests() -> Iterator[Callable[[], int]]:
    """Count requests to stop (Ctrl+C, a polite kill, the terminal closed) instead of dying of them."""
    count = 0

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1

    numbers = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if _POSIX else [])
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield lambda: count
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def temporary_file(name: str, text: str) -> Iterator[Path]:
    """A file that is gone afterwards, with its folder."""
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        yield path
