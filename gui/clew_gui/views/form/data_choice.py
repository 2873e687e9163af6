"""The data of a run: a data set is one choice for all exercises, a file of one's own that of its exercise. Checked
before a run may use it; on a site also a path there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QWidget

from clew_gui.views.form.fields import choose_quietly, combo, text_field
from clew_gui.views.form.form import field_rows
from clew_gui.views.presentation.words import WAITS, data_name
from clew_gui.views.theme.dialog import ask_file
from clew_gui.views.theme.parts import Appearance, Button, Elided, label, set_role
from clew_shared.base.harmless import for_tooltip
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import known_sets
from clew_shared.data_sets import BUILT_IN, data_set_of
from clew_shared.spec import SITE_PATH

FILE = "file…"
FOLDER = "folder…"
THERE = "there…"
Answer = Callable[[Problem | None], None]
Check = Callable[[Path, Answer], None]
"""Looks whether a file or folder is a data set, and calls back with what is wrong with it, if anything."""


_KEPT = 5
"""Files of one's own that the list keeps."""


def is_path(choice: str) -> bool:
    """Whether a choice is a file or folder, not the name of a data set."""
    return choice != "" and choice not in known_sets()


def is_own(choice: str) -> bool:
    """Whether a choice is a file or folder of this computer that holds no known data set."""
    return is_path(choice) and data_set_of(choice) not in known_sets() and not choice.startswith(SITE_PATH)


def _patterns() -> list[str]:
    """Returns the name patterns of data files."""
    sets = known_sets().values()
    endings = [f"*{ending}" for card in sets for ending in card.endings]
    return ["*.csv", *endings, *(f"{card.parts[0]}*" for card in sets if card.parts)]


class DataChoice(QObject):
    """``rows`` of a form: ``combo``, the folder of the file that was chosen, the path on the site; the ``message``
    about a choice that cannot be used, and ``choose``, the button that helps.

    ``choice`` is a set's name, or a file of this computer that holds one; empty until a person chooses: then each
    exercise takes the first of its sets that is here. A file of another kind is the choice of the exercise that it was
    chosen for; the last ones stay in the list (``kept``). What a preset names, or an exercise that was made for the
    built-in digits, is only taken for as long as that is chosen, and leaves the lab's choice as it is. ``check`` looks
    into a file; until it is given, whether there is one is enough.
    """

    changed = Signal()

    def __init__(self, parent: QWidget, appearance: Appearance) -> None:
        super().__init__(parent)
        self._window = parent
        self._card: ExerciseCard | None = None
        self._found: tuple[str, ...] = ()
        self._looking = self._elsewhere = self._is_there = False
        self._state = ""
        self._wrong: Problem | None = None
        self.choice = ""
        self.kept: tuple[str, ...] = ()
        self._own: dict[str, str] = {}
        self._of_preset = ""
        self._own_choice: set[str] = set()
        """The exercises for which a person chose, although they are made for the digits."""
        self.folder = ""
        """The folder of the last chosen file."""
        self.check: Check | None = None
        self.combo = combo([], "Data set")
        self.combo.setToolTip("A data set is chosen for all exercises that take it, a file of your own for this one")
        self.combo.activated.connect(lambda _index: self._chosen())
        self.own_file = Elided("", "caption", "2")
        tip = "A file or folder there: an absolute path, or one that begins with ~/ (your home folder)"
        self.remote_path = text_field("Path of the data on the site", "/gpfs/course/mnist.npz", tip)
        self.remote_path.textChanged.connect(lambda _text: self.changed.emit())
        fields = (("Data set", self.combo), ("In folder", self.own_file), ("Path there", self.remote_path))
        self.rows = field_rows(*fields)
        self.message = label("", "caption", "bad", wrap=True)
        self.choose = Button(appearance, "Choose file…", "", "data", "Choose the file of the data set on this computer")
        self.choose.clicked.connect(lambda _checked: self.ask_file())
        self.message.setContentsMargins(16, 0, 16, 4)
        self.message.hide()
        self.choose.hide()

    def set_card(self, card: ExerciseCard) -> None:
        """Offer the sets of another exercise; the choice stays."""
        self._card, self._of_preset = card, ""
        self._show()

    def take_of_preset(self, name: str) -> None:
        """The set that the chosen preset names; empty: it names none."""
        self._of_preset = name
        self._show()

    def set_elsewhere(self, elsewhere: bool) -> None:
        """Whether the run goes to a site: what is known of this computer's data says nothing there."""
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            self._show()

    def found(self, names: tuple[str, ...], looking: bool = False) -> None:
        """Say which sets are on this computer; empty while that is not known. ``looking``: it will be, soon."""
        self._found, self._looking = names, looking and not names
        self._show()
        self.changed.emit()

    def offered(self) -> tuple[str, ...]:
        """The sets by name that the exercise takes."""
        return self._card.datasets if self._card is not None else ()

    def default(self) -> str:
        """The course's data set, or where that is missing the first that is there; empty when none is needed."""
        sets = self._card.datasets if self._card is not None else ()
        return next(filter(self._is_found, sets), next(iter(sets), ""))

    def value(self) -> str:
        """Returns the chosen data as a run's spec names it."""
        if self._card is None or not self._card.datasets:
            return ""
        if self._elsewhere and self._is_there:
            return f"{SITE_PATH}{self.remote_path.text().strip()}"
        if self._of_preset in self._card.datasets:
            return self._of_preset
        if self._card.id in self._own:
            return self._own[self._card.id]
        if self._card.datasets[0] == BUILT_IN and self._card.id not in self._own_choice:
            return BUILT_IN
        return self.choice if data_set_of(self.choice) in self._card.datasets else self.default()

    def staged(self) -> str:
        """The file of this computer that a run on a site needs there; empty when it needs none."""
        value = self.value()
        return value if is_path(value) and not value.startswith(SITE_PATH) else ""

    def problems(self) -> tuple[Problem, ...]:
        """Returns the problem that keeps a run from using the chosen data, if there is one."""
        value = self.value()
        found = None
        if not value:
            return ()
        if value.startswith(SITE_PATH):
            good = value.removeprefix(SITE_PATH).startswith(("/", "~/"))
            text = "The path of the data on the site must begin with / or ~/."
            found = None if good else Problem("data.there", text)
        elif is_path(value):
            found = self._file_problem(value)
        elif self._looking and not self._elsewhere:
            found = Problem("data.unknown", "Clew is looking for the data sets on this computer; this takes a second.")
        elif not self._is_found(value):
            text = f"{data_name(value)} was not found on this computer."
            found = Problem("data.missing", text, "Choose its file, or the built-in digits.")
        return () if found is None else (found,)

    def use(self, name: str) -> None:
        """Choose by name, a file by its path, or a path on the site."""
        exercise = self._card.id if self._card is not None else ""
        if name.startswith(SITE_PATH):
            self._is_there = True
            self.remote_path.setText(name.removeprefix(SITE_PATH))
        else:
            self._is_there, self._of_preset = False, ""
            self._own_choice.add(exercise)
            self._own.pop(exercise, None)
            if is_own(name):
                self._keep(exercise, name)
            else:
                self.choice = name
        self._show()
        self.changed.emit()

    def _keep(self, exercise: str, file: str) -> None:
        self._own[exercise] = file
        self.kept = (file, *(one for one in self.kept if one != file))[:_KEPT]

    def recall(self, choice: str, folder: str, kept: Sequence[str], own: Mapping[str, str]) -> None:
        """Take over what the window before was left with: ``own`` are the files of exercises."""
        self.folder, self.kept = folder, tuple(kept)
        for exercise, file in own.items():
            self._keep(exercise, file)
        if is_own(choice):  # an earlier version had one choice for all exercises
            self.kept = (*self.kept, choice)[:_KEPT]
        else:
            self.choice = choice

    def ask_path(self) -> None:
        """Let a person name a path on the site."""
        self._is_there = True
        self._show()
        self.changed.emit()
        self.remote_path.setFocus()

    def start_check(self, check: Check) -> None:
        """Checks files with ``check`` from now on, beginning with the file that an earlier window left."""
        self.check = check
        self._state = ""
        self._show()
        self.changed.emit()

    # --- What is shown ------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        value = self.value()
        self.combo.clear()
        for name in self._card.datasets if self._card is not None else ():
            self.combo.addItem(data_name(name) if self._is_found(name) else f"{data_name(name)}, not found", name)
        if self.combo.count():
            theirs = [self.choice] if is_path(self.choice) and data_set_of(self.choice) in self.offered() else []
            for file in (*theirs, *self.kept):
                self.combo.addItem(data_name(file), file)
                self.combo.setItemData(self.combo.count() - 1, for_tooltip(file), Qt.ItemDataRole.ToolTipRole)
            self.combo.addItem("Choose file…", FILE)
            self.combo.addItem("Folder of images…", FOLDER)
            if self._elsewhere:
                self.combo.addItem("On the site…", THERE)
        there = self._elsewhere and self._is_there
        choose_quietly(self.combo, THERE if there else value)
        self.rows.setRowVisible(self.combo, self.combo.count() > 0)
        self.rows.setRowVisible(self.remote_path, there and self.combo.count() > 0)
        staged = self.staged()
        self.own_file.set_text(str(Path(staged).parent) if staged else "")
        self.own_file.setToolTip(staged)
        self.rows.setRowVisible(self.own_file, bool(staged))
        self.refresh()

    def refresh(self) -> None:
        """Shows below the choice what is wrong with it, and the button that helps."""
        found = next(iter(self.problems()), None)
        bad = found is not None and found.code not in ("data.unknown", "data.checking", "data.there")
        text = f"{found.text} {found.hint}".strip() if found is not None else ""
        if self.message.text() != text:
            self.message.setText(text)
        set_role(self.message, "2" if found is not None and found.code in WAITS else "bad", "tone")
        self.choose.setVisible(bad)
        self.message.setVisible(found is not None)

    def _is_found(self, name: str) -> bool:
        return self._elsewhere or not self._found or name in self._found

    # --- A file of one's own ------------------------------------------------------------------------------------------

    def _file_problem(self, value: str) -> Problem | None:
        """Says what is wrong with a file, as far as that is known; a changed file is checked again."""
        path = Path(value).expanduser()
        try:
            there = path.stat()
        except OSError:
            return Problem("data.file", f"There is no file or folder {value}.", "Choose it again.", value)
        state = f"{value} {there.st_mtime_ns} {there.st_size}"
        if state != self._state and self.check is not None:
            self._state = state
            self._wrong = Problem("data.checking", f"Clew is checking {path.name}…")
            self.check(path, lambda found: self._checked(state, found))
        return self._wrong if self.check is not None else None

    def _checked(self, state: str, found: Problem | None) -> None:
        if state == self._state:
            self._wrong = found
            self.refresh()
            self.changed.emit()

    def _chosen(self) -> None:
        key = str(self.combo.currentData())
        if key in (FILE, FOLDER):
            choose_quietly(self.combo, self.value())
            self.ask_file(folder=key == FOLDER)
        elif key == THERE:
            self.ask_path()
        else:
            self.use(key)

    def ask_file(self, folder: bool = False) -> None:
        """Let a person choose a file, or a folder of images; nothing changes when none is chosen."""
        value = self.value()
        start = str(Path(value).parent) if is_path(value) else self.folder or str(Path.home())
        kinds = f"Data ({' '.join(_patterns())});;All files (*)"
        title = "Choose a folder with one folder of images for each class" if folder else "Choose a data file"
        ask_file(self._window, title, kinds, self._take_file, start, folder)

    def _take_file(self, path: Path) -> None:
        self.folder = str(path.parent)
        self._state = ""  # chosen again: looked into again
        self.use(str(path))
