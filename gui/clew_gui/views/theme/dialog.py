"""The base of all dialogs: a heading, a sentence, content, and buttons. They are opened without blocking the
program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QFileDialog, QLabel, QLayout, QWidget

from clew_gui.views.theme.parts import Appearance, Button, column, label, row

WIDTH = 400


class Dialog(QDialog):
    """A heading, a sentence, content, and buttons at the bottom right, the main one last."""

    def __init__(self, parent: QWidget | None, title: str, sentence: str = "") -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(WIDTH)
        self._box = column(label(title, "title"), gap=9, margins=(24, 22, 24, 18), parent=self)
        self.sentence = label(sentence, "body", "2", wrap=True)
        self._box.addWidget(self.sentence)
        if not sentence:
            self.sentence.hide()

    def add(self, item: QWidget | QLayout, stretch: int = 0) -> None:
        """Adds content."""
        if isinstance(item, QWidget):
            self._box.addWidget(item, stretch)
        else:
            self._box.addLayout(item, stretch)

    def say_wrong(self, where: QLabel, sentences: Sequence[str]) -> None:
        """Say what is wrong. The dialog is as high as that needs at its width, and as high as before without it: a
        layout alone would cut texts, and keep what it once took."""
        text = "\n".join(sentences)
        if text == where.text():
            return
        before = self._box.totalHeightForWidth(self.width())
        where.setText(text)
        where.setVisible(bool(text))
        self._box.activate()
        self.resize(self.width(), self.height() + self._box.totalHeightForWidth(self.width()) - before)

    def finish(self, *buttons: QWidget | None) -> None:
        """The row at the bottom; None for the stretch."""
        self._box.addSpacing(6)
        self._box.addLayout(row(*buttons, gap=8))

    def finish_checked(self, appearance: Appearance, go: Button) -> QLabel:
        """A line for what is wrong, and at the bottom *Cancel* and ``go``, which Enter presses. Returns the line, for
        ``say_wrong``."""
        wrong = label("", "caption", "bad", wrap=True)
        wrong.hide()
        self.add(wrong)
        cancel = Button(appearance, "Cancel")
        cancel.clicked.connect(self.reject)
        go.setDefault(True)
        self.finish(None, cancel, go)
        return wrong


class FittedDialog(Dialog):
    """A dialog that is as high as what it says, which is known when it is shown."""

    def showEvent(self, event: QShowEvent) -> None:
        """Fits the height, because wrapped texts ask for more space than they need until they know their width."""
        super().showEvent(event)
        self.fit_height()

    def fit_height(self) -> None:
        """Take the height that the content needs now."""
        layout = self.layout()
        if layout is not None:
            layout.activate()
            self.resize(self.width(), layout.totalHeightForWidth(self.width()))


class Question(FittedDialog):
    """A question with two answers; ``accepted`` is the yes. Where that is a ``danger``, Enter means no."""

    def __init__(
        self,
        parent: QWidget,
        appearance: Appearance,
        title: str,
        sentence: str,
        yes: str,
        no: str = "Cancel",
        *,
        content: Sequence[QWidget] = (),
        danger: bool = False,
    ) -> None:
        super().__init__(parent, title, sentence)
        for item in content:
            self.add(item)
        refuse, agree = Button(appearance, no), Button(appearance, yes, "danger" if danger else "primarySmall")
        refuse.clicked.connect(self.reject)
        agree.clicked.connect(self.accept)
        usual, other = (refuse, agree) if danger else (agree, refuse)
        other.setAutoDefault(False)
        usual.setDefault(True)
        self.finish(None, other, usual)
        usual.setFocus()


def ask_place(parent: QWidget, title: str, name: str, kinds: str, chosen: Callable[[Path], None]) -> None:
    """Let a person choose where a file is to be written; ``name`` is the proposed one, ``kinds`` as Qt's dialog has
    them ("Values (*.csv)")."""
    dialog = QFileDialog(parent, title, "", kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(Path(name).suffix[1:])
    dialog.selectFile(name)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(lambda path: chosen(Path(path)))
    dialog.open()
