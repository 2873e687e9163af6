"""The part of the settings that concerns this computer's agent: which Python runs it, and a folder of own exercises."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QProcess, QTimer, Signal
from PySide6.QtWidgets import QFileDialog, QLineEdit, QWidget

from clew_gui.targets.local_agent import ANSWER_WITHIN_S, interpreter_problem, no_folder, not_there, question, silent
from clew_gui.views.theme.parts import Appearance, Button, column, label, lay_out_now, row, set_role
from clew_gui.views.window.processes import end_unheard
from clew_shared.base.problem import Problem


class AgentSettings(QWidget):
    """Two fields and a button. Their values are checked before it emits ``accepted``; the window is not blocked
    meanwhile."""

    accepted = Signal(str, str)
    """Interpreter and folder, both as typed and both possibly empty."""

    def __init__(self, appearance: Appearance, interpreter: str, exercises: str) -> None:
        super().__init__()
        self.interpreter = _field(interpreter, "Python of the agent", "found automatically")
        self.exercises = _field(exercises, "Folder with your own exercises", "none")
        self.message = label("", "caption", "2", wrap=True)
        self.message.hide()
        self.use = Button(
            appearance, "Check and use", "", "check", "Check what that Python has, then start the agent with it"
        )
        self.use.clicked.connect(self.check)
        self._process: QProcess | None = None
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.setObjectName("interpreter check")
        self._late.timeout.connect(self._silent)
        choose_python = self._chooser(appearance, self.interpreter, "Choose a Python", self._ask_file)
        choose_folder = self._chooser(appearance, self.exercises, "Choose a folder", self._ask_folder)
        names = [label("Python of the agent", "strong"), label("Folder with your own exercises", "strong")]
        for name, field in zip(names, (self.interpreter, self.exercises), strict=True):
            name.setBuddy(field)
        python, folder = row(self.interpreter, choose_python, gap=6), row(self.exercises, choose_folder, gap=6)
        use = row(self.use, None)
        column(names[0], python, 4, names[1], folder, 4, use, self.message, gap=6, parent=self)

    def _chooser(self, appearance: Appearance, field: QLineEdit, name: str, ask: Callable[[QLineEdit], None]) -> Button:
        button = Button(appearance, "Choose…", "", "", name)
        button.setAccessibleName(name)
        button.clicked.connect(lambda: ask(field))
        return button

    def _ask_file(self, field: QLineEdit) -> None:
        self._ask(field, QFileDialog.FileMode.ExistingFile)

    def _ask_folder(self, field: QLineEdit) -> None:
        self._ask(field, QFileDialog.FileMode.Directory)

    def _ask(self, field: QLineEdit, mode: QFileDialog.FileMode) -> None:
        dialog = QFileDialog(self, field.accessibleName())
        dialog.setFileMode(mode)
        dialog.fileSelected.connect(field.setText)
        dialog.open()

    # --- Checking -----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what can be checked at once, then ask the Python; the answer comes later."""
        python = self.interpreter.text().strip()
        trouble = no_folder(self.exercises.text().strip()) or (not_there(python) if python else None)
        if trouble is not None or not python:
            self._end(trouble)
            return
        self.use.allow(False, "The Python is being checked")
        self._say(f"Checking {python} …")
        process = self._process = QProcess(self)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.finished.connect(self._answered)
        process.errorOccurred.connect(self._broken)
        command = question(python)
        process.start(command[0], command[1:])
        self._late.start(round(1000 * ANSWER_WITHIN_S))

    def _answered(self, code: int) -> None:
        if self._process is not None:
            output = bytes(self._process.readAll().data()).decode("utf-8", "replace")
            self._end(interpreter_problem(self.interpreter.text().strip(), code, output))

    def _broken(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            self._end(interpreter_problem(self.interpreter.text().strip(), -1, self._process.errorString()))

    def _silent(self) -> None:
        self._end(silent(self.interpreter.text().strip()))

    def _end(self, trouble: Problem | None) -> None:
        self.stop()
        self.use.allow(True)
        if trouble is not None:
            self._say(f"{trouble.text} {trouble.hint}", bad=True)
            return
        self._say("Saved. The local agent is restarting; current runs continue.")
        self.accepted.emit(self.interpreter.text().strip(), self.exercises.text().strip())

    def stop(self) -> None:
        """Stop the check."""
        self._late.stop()
        process, self._process = self._process, None
        end_unheard(process)

    def _say(self, text: str, bad: bool = False) -> None:
        set_role(self.message, "bad" if bad else "2", "tone")
        self.message.setText(text)
        self.message.show()
        lay_out_now(self, self.window())
        window = self.window()
        window.resize(window.width(), max(window.height(), window.heightForWidth(window.width())))


def _field(text: str, name: str, empty: str) -> QLineEdit:
    field = QLineEdit(text)
    field.setAccessibleName(name)
    field.setPlaceholderText(empty)
    field.setMinimumHeight(30)
    return field
