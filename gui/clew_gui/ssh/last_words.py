"""The end of a command's standard error: if the command ended before it did anything, this says why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from clew_gui.ssh.connection import after_mark
from clew_gui.ssh.prompts import plain

_CHUNK = 32768
_KEPT_BYTES = 4096
_KEPT_LINES = 4
_KEPT_CHARACTERS = 400
_END_S = 1.0
"""The seconds to wait for the second output: both outputs of a command end at the same time, but are read by two
threads."""


class LastWords:
    """Reads ``recv`` to its end in a thread of its own, so that nothing is held up, and keeps a little of the end. What
    came before ``mark`` is a login shell's own."""

    def __init__(self, recv: Callable[[int], bytes], mark: bytes, name: str) -> None:
        self._recv = recv
        self._mark = mark
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # closed meanwhile
            while data := self._recv(_CHUNK):
                self._kept = (self._kept + data)[-_KEPT_BYTES:]

    def text(self) -> str:
        """The last lines, as one; empty when it said nothing. Waits a moment for their end."""
        self._thread.join(_END_S)
        after = after_mark(self._kept, self._mark)
        words = plain((self._kept if after is None else after).decode(errors="replace"), _KEPT_BYTES)
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        return " ".join(lines[-_KEPT_LINES:])[-_KEPT_CHARACTERS:]
