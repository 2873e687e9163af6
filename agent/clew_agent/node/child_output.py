"""What a child prints: its lines as they come, and the last ones that it printed before it died."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path
from queue import SimpleQueue
from typing import IO

_TAIL_BYTES = 1 << 16
"""Holds the stacks of all threads, which Python prints when a native library ends the process, and what came before."""
_TAIL_LINES = 8
_LINE = 300
"""Characters of a line: a frame of the journal carries these lines, and must stay small beside what it may have."""
_DUMP, _CRASHED = "Fatal Python error: ", "Current thread "
_FRAMES = 4
_OF_DUMP = re.compile(r"\s|$|Current thread|Thread 0x|Extension modules: |Python runtime state: ")
"""What the lines of the stacks begin with."""
_NOISE = ("All log messages before absl::InitializeLog()", "oneDNN custom operations are on")
"""Lines that TensorFlow prints whenever it is imported, whatever its log level: no reason why a trainer died."""


class HeardLines:
    """Hears ``pipe`` up to its end in a thread called ``name``, as not every system can wait for a pipe beside sockets.
    The thread calls ``wake`` when there is something to take. A line that is longer than ``limit`` bytes, if this is
    not negative, comes in pieces."""

    def __init__(self, pipe: IO[bytes], wake: Callable[[], None], name: str, limit: int = -1) -> None:
        self._pipe, self._wake, self._limit = pipe, wake, limit
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._thread = threading.Thread(target=self._hear, name=name, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        line = b" "
        while line:
            line = self._pipe.readline(self._limit)
            self._lines.put(line)
            self._wake()

    def take(self) -> Iterator[bytes]:
        """Yields the lines that came since; an empty one is the end."""
        while not self._lines.empty():
            yield self._lines.get()

    def close(self, seconds: float) -> None:
        """Wait at most ``seconds`` for the end, which comes when the child and whoever has its output have ended, and
        close the pipe. One that is still being read stays open: to close it would wait for the reader."""
        self._thread.join(seconds)
        if not self._thread.is_alive():
            self._pipe.close()


def tail(path: Path) -> str:
    """The last lines of a text file, of whatever bytes it is made.

    Of the stacks that Python prints at a crash only the innermost calls of the thread that crashed are kept: the lines
    before them are the ones in which the library says why. What follows them is kept first: a later attempt printed it.
    """
    said, mark, dump = read_end(path).rpartition(_DUMP)
    if not mark:
        return "\n".join(_lines(dump)[-_TAIL_LINES:])
    error, _, stacks = dump.partition("\n")
    later = _lines("\n".join(dropwhile(_OF_DUMP.match, stacks.splitlines())))
    _, crashed, calls = stacks.partition(_CRASHED)  # a thread of the library's own has none that Python knows
    crash = [*_lines(said)[-(_TAIL_LINES - _FRAMES) :], mark + error[:_LINE], *_lines(crashed + calls)[: 1 + _FRAMES]]
    return "\n".join([*crash, *later][-_TAIL_LINES:] if later else crash)


def read_end(path: Path) -> str:
    """The end of a text file; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _lines(text: str) -> list[str]:
    """The lines that say something, none of them long."""
    lines = text.splitlines()
    return [line[:_LINE] for line in lines if line.strip() and not any(noise in line for noise in _NOISE)]
