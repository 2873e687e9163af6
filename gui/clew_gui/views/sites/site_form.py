"""All fields of one site as a form: checked at every key, the sentence of what is wrong below its field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLabel, QLineEdit, QPlainTextEdit, QWidget

from clew_gui.schedulers.registry import scheduler_of
from clew_gui.sites.site import Site
from clew_gui.sites.site_fields import GROUPS, SiteField, site_of, texts_of
from clew_gui.views.form.fields import Combo, choose_quietly, combo
from clew_gui.views.theme.fold import FoldingSection
from clew_gui.views.theme.parts import Appearance, Button, column, label, panel, row, set_role
from clew_gui.views.theme.theme import font
from clew_shared.base.problem import Problem

LABELS = 128


class _Lines(QPlainTextEdit):
    """Some lines of text; Tab goes on to the next field."""

    def __init__(self, field: SiteField) -> None:
        super().__init__()
        self.setFont(font("mono"))
        self.setTabChangesFocus(True)
        self.setProperty("role", "lines")
        self.setPlaceholderText(field.shape)
        wrap = QPlainTextEdit.LineWrapMode
        self.setLineWrapMode(wrap.WidgetWidth if field.name == "note" else wrap.NoWrap)
        lines = 4 if field.kind == "text" else 2
        self.setFixedHeight(round(QFontMetricsF(self.font()).lineSpacing() * lines) + 18)


class SiteRow:
    """Label, control and sentence of one field."""

    def __init__(self, field: SiteField) -> None:
        self.field = field
        self.label: QLabel = label(field.label)
        self.error: QLabel = label("", "caption", "bad", wrap=True)
        self.error.hide()
        self.control = _control(field)
        self.control.setAccessibleName(field.label)
        self.control.setAccessibleDescription(field.help)
        self.control.setToolTip(field.help)
        self.control.setObjectName(f"site.{field.name}")
        self.label.setToolTip(field.help)
        self.label.setBuddy(self.control)

    def text(self) -> str:
        """What is there."""
        control = self.control
        if isinstance(control, QLineEdit):
            return control.text()
        if isinstance(control, QPlainTextEdit):
            return control.toPlainText()
        if isinstance(control, QCheckBox):
            return "true" if control.isChecked() else ""
        return str(control.currentData()) if isinstance(control, Combo) else ""

    def set_text(self, text: str) -> None:
        """Show this."""
        control = self.control
        if isinstance(control, QLineEdit):
            control.setText(text)
            control.setCursorPosition(0)
        elif isinstance(control, QPlainTextEdit):
            control.setPlainText(text)
        elif isinstance(control, QCheckBox):
            control.setChecked(text == "true")
        elif isinstance(control, Combo):
            choose_quietly(control, text)

    def show_shape(self, text: str) -> None:
        """Another example while a field of one line is empty."""
        if isinstance(self.control, QLineEdit):
            self.control.setPlaceholderText(text)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Their sentences; none when all is well."""
        self.error.setText("\n".join(str(one) for one in problems))
        self.error.setVisible(bool(problems))
        set_role(self.control, "bad" if problems else "", "state")


def _control(field: SiteField) -> QWidget:
    if field.kind == "choice":
        return combo(list(field.choices), field.label)
    if field.kind == "switch":
        return QCheckBox(field.shape)
    if field.kind in ("lines", "text"):
        return _Lines(field)
    edit = QLineEdit()
    edit.setFont(font())
    edit.setPlaceholderText(field.shape)
    return edit


class SiteForm(QWidget):
    """``changed`` is emitted after any change by a person; ``site`` and ``problems`` are up to date then.
    ``find_button`` is for looking for the scheduler."""

    changed = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.find_button = Button(appearance, "Find", "", "search", "Log in and find out which scheduler the site has")
        self.find_button.setAutoDefault(False)
        self._rows: dict[str, SiteRow] = {}
        self._folds: list[tuple[FoldingSection, tuple[str, ...]]] = []
        self._quiet = False
        self.site = Site()
        self.problems: tuple[Problem, ...] = ()
        whole = column(gap=6, margins=(2, 0, 14, 8), parent=self)
        for group in GROUPS:
            grid = self._grid(group.fields)
            if group.folded:
                fold = FoldingSection(appearance, group.title, grid)
                self._folds.append((fold, tuple(field.name for field in group.fields)))
                whole.addWidget(fold)
            else:
                head = label(group.title, "section", "2")
                head.setContentsMargins(0, 8, 0, 0)
                whole.addWidget(head)
                whole.addWidget(grid)
        whole.addStretch(1)

    def _grid(self, fields: Sequence[SiteField]) -> QWidget:
        area = panel()
        grid = QGridLayout(area)
        grid.setContentsMargins(0, 2, 0, 2)
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(6)
        grid.setColumnMinimumWidth(0, LABELS)
        grid.setColumnStretch(1, 1)
        for number, field in enumerate(fields):
            self._rows[field.name] = line = SiteRow(field)
            top = Qt.AlignmentFlag.AlignTop if field.kind in ("lines", "text") else Qt.AlignmentFlag.AlignVCenter
            grid.addWidget(line.label, 2 * number, 0, top)
            if field.name == "scheduler":
                beside = row(line.control, self.find_button, gap=8)
                beside.setStretch(0, 1)
                grid.addLayout(beside, 2 * number, 1)
            else:
                grid.addWidget(line.control, 2 * number, 1)
            grid.addWidget(line.error, 2 * number + 1, 1)
            self._listen(line.control)
        return area

    def _listen(self, control: QWidget) -> None:
        if isinstance(control, QLineEdit | QPlainTextEdit):
            control.textChanged.connect(self._edited)
        elif isinstance(control, QCheckBox):
            control.toggled.connect(self._edited)
        elif isinstance(control, Combo):
            control.currentIndexChanged.connect(self._edited)

    # --- What is there --------------------------------------------------------------------------------------------

    def row(self, name: str) -> SiteRow:
        """One field."""
        return self._rows[name]

    def texts(self) -> Mapping[str, str]:
        """All fields as they stand."""
        return {name: line.text() for name, line in self._rows.items()}

    def show_texts(self, texts: Mapping[str, str]) -> None:
        """Fill all fields; groups without values are folded."""
        self._quiet = True
        for name, line in self._rows.items():
            line.set_text(texts.get(name, ""))
        self._quiet = False
        usual = texts_of(Site())
        for fold, names in self._folds:
            fold.unfold(any(self._rows[name].text() != usual[name] for name in names))
        self._read()

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Put problems that came from elsewhere to their fields."""
        for name, line in self._rows.items():
            line.show_problems([one for one in problems if one.where == name])
        for fold, names in self._folds:
            if any(one.where in names for one in problems):
                fold.unfold()

    def focus(self, name: str) -> None:
        """Put the cursor into a field."""
        if name in self._rows:
            self._rows[name].control.setFocus()

    def _edited(self) -> None:
        if not self._quiet:
            self._read()
            self.changed.emit()

    def _read(self) -> None:
        self.site, self.problems = site_of(self.texts())
        self.show_problems(self.problems)
        scheduled = scheduler_of(self.site.scheduler).has_queue
        for name, line in self._rows.items():
            if name.startswith("allocation."):
                line.control.setEnabled(scheduled)
                line.label.setEnabled(scheduled)
