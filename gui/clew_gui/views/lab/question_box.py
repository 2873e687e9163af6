"""A question of a guide with room for the student's answer, which is kept while it is written."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

from clew_gui.views.theme.parts import column
from clew_gui.views.theme.theme import font

_QUIET_MS = 600
"""The milliseconds after the last key press when an answer is saved."""
_LINES = (3, 12)


class AnswerEdit(QPlainTextEdit):
    """The text of one answer; grows with it."""

    settled = Signal(str)
    """Emitted when the answer was edited and nothing more was typed for a moment."""

    def __init__(self, question: str, text: str) -> None:
        super().__init__()
        self.setFont(font("guide"))
        self.setProperty("role", "lines")
        self.setPlainText(text)
        self.setTabChangesFocus(True)
        self.setPlaceholderText("Your answer. It goes into your report.")
        self.setAccessibleName(f"Answer to: {question}")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._kept = text
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(_QUIET_MS)
        self._quiet.timeout.connect(self.settle)
        self.textChanged.connect(self._edited)
        self._fit()

    def _edited(self) -> None:
        self._fit()
        self._quiet.start()

    def _fit(self) -> None:
        lines = min(max(self.document().blockCount(), _LINES[0]), _LINES[1])
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + 18)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """A person who leaves the field has finished."""
        super().focusOutEvent(event)
        self.settle()

    def settle(self) -> None:
        """Report the text if it is another than before."""
        self._quiet.stop()
        text = self.toPlainText()
        if text != self._kept:
            self._kept = text
            self.settled.emit(text)


class QuestionBox(QWidget):
    """The question, and below it the answer."""

    answered = Signal(str, str)
    """Question and text."""

    def __init__(self, question: str, shown: QWidget, answer: str) -> None:
        super().__init__()
        self.edit = AnswerEdit(question, answer)
        self.edit.settled.connect(lambda text: self.answered.emit(question, text))
        column(shown, self.edit, gap=5, margins=(0, 0, 0, 8), parent=self)
