"""The log of the selected run: its sentences and stages, and below them what its processes printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import QPlainTextEdit

from clew_gui.views.theme.theme import font
from clew_shared.journal.events import Log

MOST_LINES = 5000
TAIL_BYTES = 64 * 1024
_LEVELS = {"warning": "warning: ", "error": "error: ", "debug": "", "info": ""}


def log_line(event: Log) -> str:
    """Returns one event as a line: "09:41:07  step 120  Learning rate is 0.1"."""
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
    """Read-only text: the journal's sentences, below them what the run's processes printed.

    It begins at its top for another run, and follows its end while someone looks at that.
    """

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
        self._output: str | None = ""

    def show_run(self, run: str, events: Sequence[Log], output: str | None = "") -> None:
        """Show what is new; another run starts at the top. ``output`` is what its processes printed so far, None when
        that is not on this computer."""
        state = (run, len(events), output)
        if state == (self._run, self._shown, self._output):
            return
        bar = self.verticalScrollBar()
        place = bar.value() if run == self._run else 0
        follows = run == self._run and bar.maximum() > 0 and bar.value() == bar.maximum()
        self._run, self._shown, self._output = state
        self.setPlainText("\n".join((*map(log_line, events[-MOST_LINES // 2 :]), *_printed(run, output))))
        bar.setValue(bar.maximum() if follows else place)


def _printed(run: str, output: str | None) -> Sequence[str]:
    if not run or output == "":
        return ()
    if output is None:
        return ("", "The output of its processes is on the node, in log.txt in the run's folder.")
    return ("", "Output of its processes:", output.rstrip("\n"))
