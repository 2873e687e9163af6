"""The agent as the commands use it: its catalogue, the Python that has TensorFlow, and the program itself."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Protocol, Self

import msgspec
import psutil

from clew_gui.targets import local_agent
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.cards import Catalogue
from clew_shared.catalogue import decode, load_builtin
from clew_shared.wire.turns import RunEnded, RunWanted

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


# --- Program ----------------------------------------------------------------------------------------------------------
# The agent as a program of its own: started, watched, asked to stop, killed. What depends on the system is here.


_POSIX = os.name == "posix"
_KILL_WAIT_S = 10.0
_SEAL_WAIT_S = 3.0
"""A guard seals the journal of a dead trainer within a tenth of a second, unless it hangs."""
_TAIL_BYTES = 16 * 1024


class Agent(Protocol):
    """The interface of an agent that does a run, for a ``with`` statement."""

    def wait(self, seconds: float) -> int | None:
        """Wait for the end of the run, at most that many seconds; its exit status, None while it goes on."""

    def ask_to_stop(self) -> None:
        """Asks the agent to stop, as Ctrl+C does."""

    def kill(self) -> None:
        """End it at once."""

    def output(self) -> str:
        """Returns the end of its output."""

    def __enter__(self) -> Self:
        """Starts the agent."""

    def __exit__(self, *_: object) -> None:
        """Make sure that the run has ended."""


class AgentProgram:
    """Runs ``python -m clew_agent …`` with its output in a temporary file, in a session of its own.

    Ctrl+C in the terminal reaches only Clew, which then passes it on: the agent is never interrupted twice by one key.
    """

    def __init__(self, command: Sequence[str], asked: bool = False) -> None:
        """``asked``: it reads from a pipe what to do, and writes its answers into another."""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this object, see close
        own_group = 0 if _POSIX else int(getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0))
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
                stdout=subprocess.PIPE if asked else self._output,
                stderr=self._output,
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
        """Sends what Ctrl+C sends: the agent stops after its block, the second time at once; the third time it
        kills."""
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
        """Make sure that it has ended, and release its output."""
        if self._process.poll() is None:
            self.kill()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AgentTurns(AgentProgram):
    """``clew-agent runs``: an agent that does runs one after the other and imports TensorFlow once."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, asked=True)
        self._answers: queue.SimpleQueue[RunEnded | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="clew-agent-answers", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._answers.put(msgspec.json.decode(line, type=RunEnded))
        self._answers.put(None)  # it has ended

    def ask(self, wanted: RunWanted) -> None:
        """Have it do a run. Does nothing if the agent has ended: ``answer`` says so."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
                self._process.stdin.flush()

    def answer(self, seconds: float) -> RunEnded | None:
        """Returns how the run ended, None while it goes on."""
        try:
            ended = self._answers.get(timeout=seconds)
        except queue.Empty:
            return None
        if ended is None:
            self._answers.put(None)  # for the next one who asks
            return RunEnded(self.wait(_KILL_WAIT_S) or 1, self.output())
        return ended

    def close(self) -> None:
        """Let it end: it has no run to do. What goes on with one is killed."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self.wait(_SEAL_WAIT_S)
        super().close()
        self._reader.join(_KILL_WAIT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Turn:
    """Does one run with such an agent; has the methods of an ``AgentProgram`` that does one run."""

    def __init__(self, agent: AgentTurns, wanted: RunWanted) -> None:
        self._agent, self._wanted = agent, wanted
        self._ended: RunEnded | None = None

    def wait(self, seconds: float) -> int | None:
        """Wait for the end of the run, at most that many seconds; its exit status, None while it goes on."""
        if self._ended is None:
            self._ended = self._agent.answer(seconds)
        return self._ended.code if self._ended is not None else None

    def ask_to_stop(self) -> None:
        """Stops the run that goes on, as Ctrl+C does, and no later one."""
        self._agent.ask_to_stop()

    def kill(self) -> None:
        """End the agent at once, with the run."""
        self._agent.kill()

    def output(self) -> str:
        """Returns why it was refused or failed."""
        return self._ended.problem if self._ended is not None else ""

    def __enter__(self) -> Self:
        self._agent.ask(self._wanted)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ended is None:
            self._agent.kill()


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
