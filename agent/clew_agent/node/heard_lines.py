"""The lines that a child prints, heard by a thread: not every system can wait for a pipe beside sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import IO


class HeardLines:
    """Hears ``pipe`` up to its end; ``wake`` is called by the thread ``name`` when there is something to take. A line
    that is longer than ``limit`` bytes, if this is not negative, comes in pieces."""

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
