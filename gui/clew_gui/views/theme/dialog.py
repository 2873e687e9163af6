"""The base of all dialogs: a heading, a sentence, content, and buttons. They are opened without blocking the
program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QFileDialog, QLayout, QWidget

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
        self._needed = 0
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

    def fit_height(self) -> None:
        """Makes the dialog as high as its content needs, later as much higher or lower: a layout alone would cut
        wrapped texts, and keep what it once took."""
        self._box.activate()
        width, before = self.width(), self._needed
        self._needed = max(self._box.totalHeightForWidth(width), self._box.totalMinimumHeightForWidth(width))
        self.resize(width, self._needed + (self.height() - before if before else 0))

    def finish(self, *buttons: QWidget | None) -> None:
        """The row at the bottom; None for the stretch."""
        self._box.addSpacing(6)
        self._box.addLayout(row(*buttons, gap=8))

    def close_button(self, appearance: Appearance, words: str = "Close", role: str = "primarySmall") -> Button:
        """A button that closes the dialog and changes nothing; the main one is what Enter presses anywhere."""
        button = Button(appearance, words, role)
        button.setDefault(bool(role))
        button.clicked.connect(self.reject)
        return button


class FittedDialog(Dialog):
    """A dialog that is as high as what it says, which is known when it is shown."""

    def showEvent(self, event: QShowEvent) -> None:
        """Fits the height, because wrapped texts ask for more space than they need until they know their width."""
        super().showEvent(event)
        self.fit_height()


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


def ask_file(
    parent: QWidget, title: str, kinds: str, chosen: Callable[[Path], None], start: str = "", folder: bool = False
) -> None:
    """Let a person choose a file that is there, or a ``folder``, beginning in ``start``."""
    dialog = QFileDialog(parent, title, start, "" if folder else kinds)
    dialog.setFileMode(QFileDialog.FileMode.Directory if folder else QFileDialog.FileMode.ExistingFile)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly, folder)
    _open(dialog, chosen)


def ask_place(parent: QWidget, title: str, name: str, kinds: str, chosen: Callable[[Path], None]) -> None:
    """Let a person choose where a file is to be written; ``name`` is the proposed one, ``kinds`` as Qt's dialog has
    them ("Values (*.csv)")."""
    dialog = QFileDialog(parent, title, "", kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(Path(name).suffix[1:])
    dialog.selectFile(name)
    _open(dialog, chosen)


def _open(dialog: QFileDialog, chosen: Callable[[Path], None]) -> None:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(lambda path: chosen(Path(path)))
    dialog.open()
