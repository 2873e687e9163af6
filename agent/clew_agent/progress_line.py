"""One line on a terminal that says how far a headless run is; it reads the journal like any other viewer."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

from clew_shared.history import History
from clew_shared.journal import FrameReader, Record
from clew_shared.runfolder import RunFolder

_EVERY_S = 1.0
_CHUNK = 1 << 20


class ProgressLine:
    """Rewrites its line once a second; silent when ``quiet`` or when ``stream`` is no terminal."""

    def __init__(self, folder: RunFolder, attempt: int, stream: TextIO, quiet: bool = False) -> None:
        self._path = folder.journal(attempt)
        self._attempt = attempt
        self._stream = stream
        self._silent = quiet or not stream.isatty()
        self._reader = FrameReader()
        self._shown = False
        self._history = History()
        self._next = 0.0

    def tick(self) -> None:
        """Called often; does something once a second."""
        if self._silent or time.monotonic() < self._next or not self._path.exists():
            return
        self._next = time.monotonic() + _EVERY_S
        self._catch_up()
        width = shutil.get_terminal_size().columns - 1
        self._shown = True
        self._stream.write("\r" + line(self._history)[:width].ljust(width))
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._shown:
            self._stream.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            self._stream.flush()

    def _catch_up(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._reader.rewind())
            while chunk := file.read(_CHUNK):
                for found in self._reader.feed(chunk):
                    if isinstance(found, Record):
                        self._history.feed(self._attempt, found.event)


def line(history: History) -> str:
    """State, step and the last value of each metric: ``RUNNING  step 120 of 500  loss 0.41``."""
    fold = history.fold
    total = f" of {fold.steps}" if fold.steps else ""
    parts = [str(fold.state), f"step {fold.step}{total}"]
    for name in history.recorded():
        value = history.last(name)
        if value is not None:
            parts.append(f"{name} {value:.4g}")
    rate = history.steps_per_second()
    return "  ".join([*parts, f"{rate:,.0f} steps/s"] if rate else parts)
