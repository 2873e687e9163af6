"""A process that the agent keeps for what it answers: a line of JSON on its standard output for each answer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from clew_agent.node.child_output import HeardLines, tail
from clew_shared.base import operating_system
from clew_shared.base.problem import os_refused

_END_S = 5.0


class Child:
    """Started when it is made, with ``more`` in its environment and what it complains about in ``log``; ``wake`` is
    called from a thread when it has said something, or has ended. Raises ``ProblemError`` with ``code`` if the system
    does not start it."""

    def __init__(
        self, command: Sequence[str], more: Mapping[str, str], log: Path, wake: Callable[[], None], code: str
    ) -> None:
        self.log = log
        self.ended = False
        self._code = code
        with (
            os_refused(code, "The agent cannot start a process", "The node may be short of memory or processes."),
            os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), "wb") as file,
        ):
            self._process = operating_system.start_session(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, env={**os.environ, **more}
            )
        assert self._process.stdin is not None  # noqa: S101  # a pipe
        assert self._process.stdout is not None  # noqa: S101  # a pipe
        self._stdin = self._process.stdin
        self._heard = HeardLines(self._process.stdout, wake, "child output")
        self.pid = self._process.pid

    def lines(self) -> Iterator[bytes]:
        """Yields what it has said since; ``ended`` is set after its last line."""
        for line in self._heard.take():
            if line:
                yield line
            else:
                self.ended = True

    def send(self, line: bytes) -> None:
        """Asks it something while it waits for that: a pipe that is empty takes it without a wait."""
        with suppress(OSError):  # it has ended: ``ended`` says so
            self._stdin.write(line)
            self._stdin.flush()

    def last_words(self) -> str:
        """Returns the end of its log as a sentence that follows another one."""
        said = tail(self.log)
        return f" It said:\n{said}" if said else ""

    def hang_up(self) -> None:
        """Lets it know that nobody needs it."""
        with suppress(OSError):
            self._stdin.close()

    def close(self, patience: float = 0.0) -> None:
        """Ends it, by force after so many seconds."""
        self.hang_up()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        operating_system.kill_session(self._process)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._heard.close(_END_S)
