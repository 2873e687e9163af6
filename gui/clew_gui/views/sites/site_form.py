"""Shows all fields of one site as a form: checked at every key press, with the problem below its field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QCompleter, QLineEdit, QListView, QWidget

from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.site import Site
from clew_gui.sites.site_fields import ASKED, FOLDED, SITE_FIELDS, site_of
from clew_gui.views.form.form import FormRow, ParamForm
from clew_gui.views.theme.parts import Appearance, Button, column
from clew_shared.base.problem import Problem
from clew_shared.params import Value, convert, format_value


class ListCompleter(QCompleter):
    """Completes the last of several names with commas between them, by any part of it."""

    def __init__(self, names: Sequence[str], field: QWidget) -> None:
        super().__init__(list(names), field)
        self.setWidget(field)
        self.setFilterMode(Qt.MatchFlag.MatchContains)
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        popup = QListView()
        popup.setObjectName("completer")
        self.setPopup(popup)

    def splitPath(self, path: str) -> list[str]:
        """The part that is completed."""
        return [path.rpartition(",")[2].strip()]

    def pathFromIndex(self, index: QModelIndex | QPersistentModelIndex) -> str:
        """The whole text with it."""
        field = self.widget()
        before, comma, _ = (field.text() if isinstance(field, QLineEdit) else "").rpartition(",")
        return f"{before}{comma} {super().pathFromIndex(index)}".lstrip()


class SiteForm(QWidget):
    """The form of one site. ``changed`` is emitted after any change by a person; ``site`` and ``problems`` are up to
    date then. ``find_button`` is for looking for the scheduler."""

    changed = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.find_button = Button(appearance, "Find", "", "search", "Log in and find out which scheduler the site has")
        self.find_button.setAutoDefault(False)
        self.form = ParamForm(appearance, SITE_FIELDS, usual=None, folded=FOLDED)
        self.form.row("scheduler").put_beside(self.find_button)
        self.form.changed.connect(self._edited)
        self.site = Site()
        self.problems: tuple[Problem, ...] = ()
        box = column(self.form, gap=0, parent=self)
        box.addStretch(1)

    def row(self, name: str) -> FormRow:
        """Returns one field."""
        return self.form.row(name)

    def texts(self) -> Mapping[str, str]:
        """Returns the present texts of all fields."""
        raw = {spec.name: self.row(spec.name).editor.raw() for spec in SITE_FIELDS}
        return {name: one if isinstance(one, str) else format_value(bool(one)) for name, one in raw.items()}

    def show_texts(self, texts: Mapping[str, str]) -> None:
        """Fill all fields; groups without values are folded."""
        values: dict[str, Value] = {
            spec.name: convert(spec, texts[spec.name])[0] if spec.type.python is bool else texts[spec.name]
            for spec in SITE_FIELDS
        }
        with QSignalBlocker(self.form):
            self.form.set_values(values)
        self.form.fold_usual()
        self._read()

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Put problems that came from elsewhere to their fields."""
        self.form.only_problems(problems)

    def show_title(self, title: str) -> None:
        """The title that the site has while that field is empty."""
        field = self.row("title").editor.widget()
        if isinstance(field, QLineEdit):
            field.setPlaceholderText(title)

    def complete(self, name: str, names: Sequence[str]) -> None:
        """Completes what is typed in a field by these names; they are shown at once."""
        field = self.row(name).editor.widget()
        if isinstance(field, QLineEdit):
            completer = ListCompleter(names, field)
            field.setCompleter(completer)
            if names:
                field.end(False)
                completer.complete()

    def focus(self, name: str) -> None:
        """Put the cursor into a field."""
        self.row(name).editor.widget().setFocus()

    def _edited(self) -> None:
        self._read()
        self.changed.emit()

    def _read(self) -> None:
        self.site, self.problems = site_of(self.texts())
        self.show_problems(self.problems)
        scheduled = scheduler_of(self.site.scheduler).has_queue
        for spec in SITE_FIELDS:
            if spec.name.startswith(ASKED):
                self.row(spec.name).editor.widget().setEnabled(scheduled)
                self.row(spec.name).label.setEnabled(scheduled)
