"""The log of the selected run: its sentences and stages, and below them what its processes printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import QPlainTextEdit

from clew_gui.views.theme import font
from clew_shared.events import Log

MOST_LINES = 5000
TAIL_BYTES = 64 * 1024
_LEVELS = {"warning": "warning: ", "error": "error: ", "debug": "", "info": ""}


def log_line(event: Log) -> str:
    """One event as a line: "09:41:07  step 120  Learning rate is 0.1"."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.time)) if event.time else "        "
    step = f"step {event.step:,}  " if event.step else ""
    text = event.text or f"{event.stage}, {event.seconds:.2f} s"
    return f"{clock}  {step}{_LEVELS[event.level]}{text}"


def read_tail(path: Path, most: int = TAIL_BYTES) -> str:
    """The last ``most`` bytes of a text file, from the first whole line on; empty when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return ""
    text = data.decode("utf-8", errors="replace")
    return text if size <= most else text.partition("\n")[2]


class LogPanel(QPlainTextEdit):
    """Read-only text that follows its end unless somebody scrolled up."""

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setProperty("role", "code")
        self.setFont(font("mono"))
        self.setMaximumBlockCount(MOST_LINES)
        self.setTabChangesFocus(True)
        self.setUndoRedoEnabled(False)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setAccessibleName("Log of the selected run")
        self.setPlaceholderText("The log of the selected run appears here.")
        self._run = ""
        self._shown = 0
        self._output = ""

    def show_run(self, run: str, events: Sequence[Log], output: str = "") -> None:
        """Show what is new; another run starts anew. ``output`` is what its processes printed, so far."""
        if run != self._run or len(events) < self._shown or output != self._output:
            self._run, self._shown, self._output = run, 0, output
            self.clear()
            if output:
                self.appendPlainText(output.rstrip("\n"))
        for event in events[self._shown :][-MOST_LINES:]:
            self.appendPlainText(log_line(event))
        self._shown = len(events)
