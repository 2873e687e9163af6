"""Why a run failed, in full: unfolds below the run's card, can be selected and copied."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame

from clew_gui.views.parts import IconButton, Look, column, label, row
from clew_gui.views.ports import RunLike
from clew_shared.lifecycle import RunState

_TROUBLE = (RunState.FAILED, RunState.TIMED_OUT, RunState.LOST)


def reason_of(run: RunLike) -> tuple[str, str]:
    """Why a run went wrong, and what to do now; both empty when it did not."""
    if run.state not in _TROUBLE:
        return "", ""
    found, job = run.history.fold.problem, run.job.problem if run.job is not None else None
    if job is not None and run.reason == job.text:
        found = job
    return (found.text, found.hint) if found is not None else (run.reason, "")


class Reason(QFrame):
    """The sentence, the hint and a button that copies both."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.setProperty("role", "sunken")
        self.text = label("", "body", wrap=True)
        self.hint = label("", "body", "2", wrap=True)
        for part in (self.text, self.hint):
            part.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._copy = IconButton(look, "copy", "Copy the reason")
        self._copy.clicked.connect(self.copy)
        words = column(self.text, self.hint, gap=4)
        side = column(self._copy, None)
        row(words, side, gap=8, margins=(12, 9, 8, 9), parent=self).setStretch(0, 1)

    def show_reason(self, text: str, hint: str) -> None:
        """Other words."""
        if (text, hint) != (self.text.text(), self.hint.text()):
            self.text.setText(text)
            self.hint.setText(hint)
            self.hint.setVisible(bool(hint))

    def copy(self) -> None:
        """Both as text, to the clipboard."""
        QGuiApplication.clipboard().setText("\n".join(filter(None, (self.text.text(), self.hint.text()))))
