"""Which data the next run reads: a set of the exercise, a file of one's own, or what lies on the site already."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QLabel, QLineEdit, QWidget

from clew_gui.views.form.fields import choose_quietly, combo
from clew_gui.views.presentation.words import data_name
from clew_gui.views.theme.parts import Elided
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.spec import SITE_PATH

FILE = "file"
THERE = "there"


class DataChoice(QObject):
    """Three fields of a form: ``combo``, the file that was chosen, and the path on the site."""

    changed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._card: ExerciseCard | None = None
        self._found: tuple[str, ...] = ()
        self._elsewhere = False
        self._names: dict[QWidget, QLabel] = {}
        self.combo = combo([], "Data set")
        self.combo.activated.connect(lambda _index: self._chosen())
        self.own_file = Elided("", "caption", "2")
        self.there = QLineEdit()
        self.there.setAccessibleName("Path of the data on the site")
        self.there.setToolTip("A file or folder there: an absolute path, or one that begins with ~/ (your home folder)")
        self.there.setPlaceholderText("/gpfs/course/mnist.npz")
        self.there.textChanged.connect(lambda _text: self.changed.emit())

    def name(self, field: QWidget, text: QLabel) -> None:
        """The label of a field comes and goes with it."""
        self._names[field] = text

    def set_card(self, card: ExerciseCard) -> None:
        """Offer the sets of another exercise."""
        self._card = card
        self.combo.clear()
        for name in card.datasets:
            self.combo.addItem(self._label(name), name)
        if card.datasets:
            self.combo.addItem("Own file…", FILE)
        self._offer_there()
        self._show_field(self.combo, bool(card.datasets))
        self._show_file("")

    def set_elsewhere(self, elsewhere: bool) -> None:
        """Whether the run goes to a site: what is known of this computer's data says nothing there."""
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            self._offer_there()
            self._mark()

    def found(self, names: tuple[str, ...]) -> None:
        """Say which sets are on this computer; empty while that is not known.

        A set that is missing is marked, and another is chosen in its place.
        """
        self._found = names
        self._mark()

    def default(self) -> str:
        """The course's data set, or where that is missing the first that is there; empty when none is needed."""
        sets = self._card.datasets if self._card is not None else ()
        return next(filter(self._is_found, sets), next(iter(sets), ""))

    def value(self) -> str:
        """As a run's spec has it."""
        key = self.combo.currentData()
        if key == FILE:
            return self.own_file.whole()
        if key == THERE:
            return f"{SITE_PATH}{self.there.text().strip()}"
        return "" if key is None else str(key)

    def staged(self) -> str:
        """The file of this computer that a run on a site needs there; empty when it needs none."""
        return self.own_file.whole() if self.combo.currentData() == FILE else ""

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the choice."""
        if self.combo.currentData() != THERE or self.there.text().strip().startswith(("/", "~/")):
            return ()
        return (Problem("data.there", "The path of the data on the site must begin with / or ~/."),)

    def show(self, name: str) -> None:
        """Choose what a spec names, without telling anybody."""
        if name.startswith(SITE_PATH) and self.combo.findData(THERE) >= 0:
            choose_quietly(self.combo, THERE)
            self.there.setText(name.removeprefix(SITE_PATH))
            self._show_file("")
        elif name and self.combo.findData(name) < 0 and self.combo.count():
            choose_quietly(self.combo, FILE)
            self._show_file(name)
        else:
            choose_quietly(self.combo, name)
            self._show_file("")

    def use(self, name: str) -> None:
        """Choose by name, or a file by its path."""
        self.show(name)
        self.changed.emit()

    def _label(self, name: str) -> str:
        return data_name(name) if self._is_found(name) else f"{data_name(name)}, not found"

    def _is_found(self, name: str) -> bool:
        return self._elsewhere or not self._found or name in self._found

    def _mark(self) -> None:
        if self._card is None:
            return
        for name in self._card.datasets:
            self.combo.setItemText(self.combo.findData(name), self._label(name))
        if self.value() in self._card.datasets and not self._is_found(self.value()):
            self.use(self.default())

    def _offer_there(self) -> None:
        """A path on the site makes sense only while a site is chosen."""
        offered = self.combo.findData(THERE)
        if self._elsewhere and offered < 0 and self.combo.count():
            self.combo.addItem("On the site…", THERE)
        elif not self._elsewhere and offered >= 0:
            gone = self.combo.currentData() == THERE
            self.combo.removeItem(offered)
            if gone:
                self.show(self.default())

    def _show_file(self, path: str) -> None:
        self.own_file.set_text(path)
        self._show_field(self.own_file, bool(path))
        self._show_field(self.there, self.combo.currentData() == THERE)

    def _show_field(self, field: QWidget, on: bool) -> None:
        field.setVisible(on)
        if field in self._names:
            self._names[field].setVisible(on)

    # --- A file of one's own ------------------------------------------------------------------------------------------

    def _chosen(self) -> None:
        if self.combo.currentData() != FILE:
            self._show_file("")
            self.changed.emit()
            return
        from PySide6.QtWidgets import QFileDialog

        dialog = QFileDialog(
            self._window, "Choose a data file", "", "Data (*.npz *.gz *.pkl.gz *ubyte*);;All files (*)"
        )
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.use)
        dialog.rejected.connect(self._no_file)
        dialog.open()

    def _no_file(self) -> None:
        if not self.own_file.whole():
            self.combo.setCurrentIndex(0)
            self._show_file("")
        self.changed.emit()
