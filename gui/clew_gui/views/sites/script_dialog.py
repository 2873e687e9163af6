"""The job script exactly as it would be sent."""

from __future__ import annotations

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from clew_gui.views.dialog import Dialog
from clew_gui.views.parts import Button, Look, label, set_role
from clew_gui.views.theme import font
from clew_shared.problem import Problem


class ScriptDialog(Dialog):
    """Opens at once; the text comes when the site has said where things lie there."""

    def __init__(self, parent: QWidget, look: Look, title: str) -> None:
        super().__init__(parent, f"Job script for {title}", "This is what would be sent, character by character.")
        words = f"Asking {title} where things lie; the agent is brought there if it is not there yet …"
        self.said = label(words, "body", "2", wrap=True)
        self.add(self.said)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setProperty("role", "code")
        self.text.setFont(font("mono"))
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setAccessibleName("Job script")
        self.add(self.text, 1)
        self.copy_button = Button(look, "Copy", "", "copy", "Copy the whole script")
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self.text.toPlainText()))
        self.copy_button.allow(False, "There is nothing to copy yet")
        close = Button(look, "Close", "primarySmall")
        close.setDefault(True)
        close.clicked.connect(self.accept)
        self.finish(None, self.copy_button, close)
        close.setFocus()
        self.resize(760, 600)

    def show_script(self, text: str) -> None:
        """It is here."""
        self.text.setPlainText(text)
        self.said.hide()
        self.copy_button.allow(True)

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """It cannot be made, and why."""
        set_role(self.said, "bad", "tone")
        self.said.setText("\n".join(str(one) for one in problems))
