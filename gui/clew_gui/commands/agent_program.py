"""The agent as the commands use it: its catalogue, the Python that has TensorFlow, and the program itself."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import psutil

from clew_gui.targets import local_agent
from clew_shared.base import operating_system
from clew_shared.base.harmless import say
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.cards import Catalogue
from clew_shared.catalogue import decode, load_builtin
from clew_shared.wire.turns import RunEnded, RunWanted

T = TypeVar("T")
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
    if sys.stderr.isatty():  # TensorFlow is imported once for each file, which takes some seconds
        say(f"Reading the exercises in {folder} …", sys.stderr)
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
# The agent as a program of its own: started, watched, asked to stop, killed.


_KILL_WAIT_S = 10.0
_STOP_WAIT_S = 15.0
"""A block takes a tenth of a second, but the first one is compiled before it."""
_SEAL_WAIT_S = 3.0
"""A guard seals the journal of a dead trainer within a tenth of a second, unless it hangs."""
_TAIL_BYTES = 16 * 1024


class AgentProgram:
    """Runs ``clew-agent runs``, which does the runs that it is asked for one after the other. It is started with the
    first one, and again if it was killed.

    It has a session of its own: Ctrl+C in the terminal reaches only Clew, which then passes it on. So the agent is
    never interrupted twice by one key.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this object, see close
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[RunEnded | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._at_work = False

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            **operating_system.own_session(),
        )
        self._answers = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_read, args=(process, self._answers), name="clew-agent-answers", daemon=True
        )
        self._reader.start()
        return process

    def ask(self, wanted: RunWanted) -> Self:
        """Have it do a run. Returns itself."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._start()
        self._at_work = True
        if self._process.stdin is not None:
            with suppress(OSError):  # it has ended: ``wait`` says so
                self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
                self._process.stdin.flush()
        return self

    def wait(self, seconds: float) -> RunEnded | None:
        """How the run ended; None if it goes on after ``seconds``. If nothing says why, the last lines that the agent
        printed do; the status of an agent that ended before its run is the agent's own."""
        gone = self._exit_code(0) is not None
        try:
            ended = self._answers.get(timeout=seconds)
        except queue.Empty:
            if not gone:
                return None
            ended = None  # its trainer goes on, which may be a copy of it and keeps its end of the pipe open
        self._at_work = False
        if ended is not None and (ended.problem or not ended.code):
            return ended
        code = ended.code if ended is not None else self._exit_code(_KILL_WAIT_S) or 1
        return RunEnded(code, self._last_output())

    def ask_to_stop(self) -> None:
        """Sends what Ctrl+C sends: the agent stops after its block, the second time at once; the third time it
        kills."""
        if self._process is not None:
            operating_system.pass_on(self._process, signal.SIGINT)

    def kill(self) -> None:
        """End it at once, with every process that it started. A guard that lives has the time to seal the journal."""
        self._kill_children()
        if self._process is not None and self._exit_code(_SEAL_WAIT_S) is None:
            self._kill_children()  # it may have started another meanwhile
            with suppress(ProcessLookupError, OSError):
                self._process.kill()
            self._exit_code(_KILL_WAIT_S)

    @property
    def memory(self) -> int:
        """The bytes of memory that the processes of its runs take."""
        return sum(self._of_children(lambda child: int(child.memory_info().rss)))

    def _kill_children(self) -> None:
        """The trainer has a session of its own, so that killing its guard would leave it running for ever."""
        self._of_children(psutil.Process.kill)

    def _of_children(self, what: Callable[[psutil.Process], T]) -> list[T]:
        """Does something with each process that it started."""
        found = []
        with suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True) if self._process else ():
                with suppress(psutil.Error):
                    found.append(what(child))
        return found

    def _exit_code(self, seconds: float) -> int | None:
        """The exit status; None if it still runs after ``seconds``."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll()

    def _last_output(self) -> str:
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _TAIL_BYTES))
        return self._output.read().decode("utf-8", "replace").strip()

    def _end(self) -> None:
        """Let it end. A run that nobody follows any more (who read the output has left, the command has failed) is
        stopped with a checkpoint, as by Ctrl+C; what does not listen is killed."""
        if self._process is None:
            return
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        for _ in range(2):  # after its block, then at once
            if self._at_work and self._exit_code(0) is None:
                self.ask_to_stop()
                self.wait(_STOP_WAIT_S)
        if self._at_work or self._exit_code(_SEAL_WAIT_S) is None:
            self.kill()
        if self._reader is not None:
            self._reader.join(_SEAL_WAIT_S)
        if self._process.stdout is not None and not (self._reader is not None and self._reader.is_alive()):
            self._process.stdout.close()

    def close(self) -> None:
        """Make sure that it has ended, and release its output."""
        self._end()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(process: subprocess.Popen[bytes], answers: queue.SimpleQueue[RunEnded | None]) -> None:
    for line in process.stdout or ():
        with suppress(msgspec.DecodeError):  # a module file or a library may print there as well
            answers.put(msgspec.json.decode(line, type=RunEnded))
    answers.put(None)  # it has ended


def runs_program(places: Places, exercises: str | None) -> AgentProgram:
    """The agent that trains on this computer, with the exercises of one's own in the folder ``exercises``. Raises
    ``ProblemError`` when no Python with TensorFlow is known."""
    own = ("--exercises", str(Path(exercises).expanduser().absolute())) if exercises else ()
    return AgentProgram(agent_command(places, "runs", *own))


@contextmanager
def stop_requests() -> Iterator[Callable[[], int]]:
    """Count requests to stop (Ctrl+C, a polite kill, the terminal closed) instead of dying of them."""
    count = 0

    def note(_number: int) -> None:
        nonlocal count
        count += 1

    with operating_system.stop_requests(note):
        yield lambda: count
