"""Lets a person write about runs: a name, a note, tags."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from clew_gui.session.runs import RunModel
from clew_gui.views.presentation import words
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance, Button, label
from clew_shared.base.problem import ProblemError
from clew_shared.run_settings import RunNote, note_problems, read_tags
from clew_shared.spec import MAX_NAME


class NoteDialog(Dialog):
    """Edits everything about one run; for several runs, tags that are added to all of them."""

    written = Signal(str, object)
    """A run's id and its ``RunNote``."""

    def __init__(self, parent: QWidget, appearance: Appearance, runs: Sequence[RunModel]) -> None:
        one = runs[0] if len(runs) == 1 else None
        title = f"Run {one.number}" if one is not None else f"Tags of {len(runs)} runs"
        sentence = "Only these labels change." if one is not None else "These tags are added to each of them."
        super().__init__(parent, title, sentence)
        self._runs = tuple(runs)
        self.name = QLineEdit(words.name_of(one) if one is not None else "")
        self.name.setPlaceholderText("Shown instead of its settings")
        self.tags = QLineEdit(", ".join(one.note.tags) if one is not None else "")
        self.tags.setPlaceholderText("good, slow")
        self.note = QPlainTextEdit(one.note.note if one is not None else "")
        self.note.setTabChangesFocus(True)
        self.note.setFixedHeight(92)
        fields = (("Name", self.name), ("Tags", self.tags), ("Note", self.note))
        for text, field in fields if one is not None else fields[1:2]:
            head = label(text, "strong")
            head.setBuddy(field)
            field.setAccessibleName(text)
            self.add(head)
            self.add(field)
        self.keep = Button(appearance, "Save", "primarySmall")
        self.keep.clicked.connect(self._keep)
        self.error = self.finish_checked(appearance, self.keep)
        (self.name if one is not None else self.tags).setFocus()

    def _keep(self) -> None:
        try:
            tags = read_tags(self.tags.text())
            notes = {run.id: self._note(run, tags) for run in self._runs}
        except ProblemError as error:
            self.say_wrong(self.error, [str(found) for found in error.problems])
            return
        wrong = [found for note in notes.values() for found in note_problems(note, MAX_NAME)]
        self.say_wrong(self.error, [str(found) for found in wrong])
        if not wrong:
            for run, note in notes.items():
                self.written.emit(run, note)
            self.accept()

    def _note(self, run: RunModel, tags: tuple[str, ...]) -> RunNote:
        if len(self._runs) > 1:
            return RunNote(run.note.name, run.note.note, read_tags(" ".join((*run.note.tags, *tags))))
        name = self.name.text().strip()
        return RunNote("" if name == run.spec.name else name, self.note.toPlainText().strip(), tags)
