"""Settings as a form, made from ``ParamSpec`` data alone, and a dialog that asks for some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFormLayout, QLineEdit, QSizePolicy, QWidget

from clew_gui.views.form.fields import Editor, NumberSlider, RunEdit, make_editor, slider_ends
from clew_gui.views.theme.dialog import FittedDialog
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    FoldButton,
    IconButton,
    Panel,
    label,
    row,
    scrolling,
    set_role,
)
from clew_gui.views.theme.theme import font
from clew_shared.base.problem import Problem
from clew_shared.params import SELDOM, SHARED, ParamSpec, Value, convert, format_value, matters, value_words
from clew_shared.study.sweep import is_many, read_range, read_values

LABEL_WIDTH, RESET_WIDTH, _GAP = 112, 22, 6


class Usual(NamedTuple):
    """Says where a field's default comes from: at the end of its help, and on its reset arrow."""

    source: str
    back: str


ON_SLIDES = Usual("On the slides", "Back to the slides' value")
SEVERAL = "form.several"
"""The code of the problem that a field has several values: none can be run, all can be swept."""


class Several(NamedTuple):
    """Several values in a field for one: as the sweep's field has them, how many, and what is wrong with them."""

    text: str
    number: int
    problem: Problem | None


def several(spec: ParamSpec, raw: object) -> Several | None:
    """The values that a person wrote into a number's field; None where it is one value, or none of these forms. A range
    of a setting that is best looked at by its logarithm is logarithmic. A single comma between digits, as in 0,1, is no
    list: in most of Europe that is one number."""
    text = raw if isinstance(raw, str) and spec.type.number else ""
    if not is_many(text) and ("." in text or text.count(",") > 1):
        text = text.replace(",", ", ")
    if not is_many(text):
        return None
    limits = read_range(text)
    if limits is not None and spec.log and not limits.log and limits.low > 0:
        text = f"{format_value(limits.low)} to {format_value(limits.high)} log {limits.count}"
    values, wrong = read_values(spec, text)
    return Several(text, len(values), wrong[0] if wrong else None)


class FormRow:
    """Label and field of one hyperparameter with its reset arrow, the sentence of an error, and when it is needed the
    button that sweeps several values. ``sweep`` is what that does; None: the field has one value. Without ``usual`` the
    default is just what an empty field means: nothing says that a field was changed."""

    def __init__(
        self,
        form: QFormLayout,
        appearance: Appearance,
        spec: ParamSpec,
        usual: Usual | None,
        sweep: Callable[[], None] | None,
        make: Callable[[ParamSpec], Editor],
    ) -> None:
        self.spec = spec
        self.usual = usual
        self.several: Several | None = None
        self._sweep = sweep
        self.editor: Editor = make(spec)
        self.value: Value = spec.default
        self.problem: Problem | None = None
        self.remark: Problem | None = None
        """The problem with the value that was found elsewhere."""
        self._offer: Button | None = None
        self._slider: NumberSlider | None = None
        self._slides = False
        self.visible = True
        self.folded = False
        self.label = label(spec.label)
        self.label.setWordWrap(True)
        self._appearance = appearance
        self._strong = False
        self._form = form
        self._line = row(self.editor, gap=_GAP, grows=self.editor)
        self.error = label("", "caption", "bad", wrap=True)
        self._dress()
        form.addRow(self.label, self._line)
        if usual is not None:
            back = f"{usual.back}: {value_words(spec, spec.default)}"
            self.reset = IconButton(appearance, "reset", f"Reset {spec.label}", back, size=14)
            self.reset.setFixedSize(RESET_WIDTH, RESET_WIDTH)
            self.reset.clicked.connect(lambda: self.editor.set_value(spec.default))
            kept = self.reset.sizePolicy()
            kept.setRetainSizeWhenHidden(True)  # all fields end at the same edge
            self.reset.setSizePolicy(kept)
            self._line.addWidget(self.reset)
        form.addRow(self.error)
        form.setRowVisible(self.error, False)

    def _dress(self) -> None:
        field, spec = self.editor, self.spec
        self.label.setBuddy(field)
        field.setAccessibleName(spec.label)
        field.setAccessibleDescription(spec.help)
        field.setObjectName(f"field.{spec.name}")
        default = f"{self.usual.source}: {value_words(spec, spec.default)}." if self.usual is not None else ""
        field.setToolTip(f"{spec.help} {default}".strip())
        self.label.setToolTip(field.toolTip())
        self.label.setFixedWidth(LABEL_WIDTH)
        self.label.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)

    def put_beside(self, *buttons: QWidget) -> None:
        """Share the field's place with buttons, which the Tab key reaches after it."""
        for place, (before, button) in enumerate(pairwise((self.editor, *buttons)), start=1):
            self._line.insertWidget(place, button)
            QWidget.setTabOrder(before, button)

    @property
    def offer(self) -> Button:
        """Sweeps the values in the field."""
        if self._offer is None:
            self._offer = Button(self._appearance, "", "quiet", "rate", "Train once with each of these values")
            self._offer.clicked.connect(self._sweep)
            place = self._form.getWidgetPosition(self.error)
            self._form.insertRow(place[0], "", self._offer)  # type: ignore[index]  # the stubs know no pair
            QWidget.setTabOrder(self.editor, self._offer)
        return self._offer

    def show_slider(self, on: bool) -> None:
        """Shows or hides a slider below a number that has a default."""
        if on and self._slider is None and (ends := slider_ends(self.spec)) is not None:
            self._slider = NumberSlider(self.spec, self.editor, ends)
            place = self._form.getWidgetPosition(self.error)
            self._slider.setFixedWidth(150)
            self._form.insertRow(place[0], "", self._slider)  # type: ignore[index]  # the stubs know no pair
            QWidget.setTabOrder(self.editor, self._slider)
        if self._slider is not None:
            self._slides = on
            self.show_row(self.visible)
            self.show_state()  # a row that is shown shows its arrow as well

    @property
    def changed(self) -> bool:
        """Whether a field that matters says something else than usual, or something wrong."""
        return self.visible and (self.problem is not None or self.value != self.spec.default)

    def read(self) -> None:
        """Take the value from the field and check it."""
        raw = self.editor.raw()
        self.value, self.problem = convert(self.spec, raw)
        self.remark = None
        self.several = several(self.spec, raw) if self.problem is not None and self._sweep is not None else None
        if self.several is not None:
            text = f"{self.spec.label} has {self.several.number} values: sweep them, or write one."
            many = Problem(SEVERAL, text, where=self.spec.name)
            self.problem = self.several.problem or many

    def show_state(self) -> None:
        """Shows a strong label and the reset arrow if the value is changed, a red outline and a sentence if it is
        wrong."""
        changed = self.changed and self.usual is not None
        if changed != self._strong:
            self._strong = changed
            self.dress_label()
        if self.usual is not None:
            self.reset.setVisible(changed and not self.folded)
        offered = self.several if self.several is not None and self.several.problem is None else None
        shown = self.problem or self.remark
        set_role(self.editor, "bad" if shown is not None and offered is None else "", "state")
        if offered is not None or self._offer is not None:
            self.offer.set_words(f"Sweep {offered.number} values…" if offered is not None else "")
            self._form.setRowVisible(self.offer, offered is not None and self.visible and not self.folded)
        text = short(shown, self.spec) if shown is not None and offered is None else ""
        self.error.setText(text)
        self._form.setRowVisible(self.error, bool(text) and self.visible and not self.folded)

    def dress_label(self) -> None:
        """Makes the label strong if the value is changed."""
        self.label.setFont(font("strong" if self._strong else "body"))

    def show_row(self, visible: bool) -> None:
        """A field that does not matter with the other values is not there."""
        self.visible = visible
        self._form.setRowVisible(self._line, visible and not self.folded)
        if self._slider is not None:
            self._form.setRowVisible(self._slider, self._slides and visible and not self.folded)


def without_name(found: Problem) -> str:
    """The problem without the name that its field has in files."""
    return found.text.replace(f" ({found.where})", "", 1)


def short(found: Problem, spec: ParamSpec) -> str:
    """The problem without the field's name, which is beside it."""
    named = f"{spec.label} ({spec.name}): "
    text = found.text.removeprefix(named)
    return text[:1].upper() + text[1:] if found.text.startswith(named) else text


class ParamForm(Panel):
    """Rows in groups; those with the headings ``folded`` are shown when a person opens them, or when a field in them
    says something unusual. ``changed`` is emitted after any change, when values and problems are up to date. ``sweep``
    is called for a sweep over several values in a field; without it no field offers one."""

    changed = Signal()

    def __init__(
        self,
        appearance: Appearance,
        specs: Sequence[ParamSpec],
        usual: Usual | None = ON_SLIDES,
        heads: bool = True,
        folded: Collection[str] = (SELDOM,),
        make: Callable[[ParamSpec], Editor] = make_editor,
        sweep: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.appearance = appearance
        self._rows: dict[str, FormRow] = {}
        self._heads: list[tuple[FoldButton, tuple[str, ...]]] = []
        self._folded = folded
        self._quiet = False
        form = _layout()
        self.setLayout(form)
        for title, group in _groups(specs).items():
            if heads:
                head = FoldButton(appearance, title, "group", size=10)
                head.setChecked(title not in folded)
                head.toggled.connect(lambda _on: self._fold())
                form.addRow(head)
                self._heads.append((head, tuple(spec.name for spec in group)))
            for spec in group:
                self._rows[spec.name] = FormRow(form, appearance, spec, usual, sweep, make)
        for form_row in self._rows.values():
            form_row.editor.set_value(form_row.spec.default)
            form_row.editor.edited.connect(self._edited)
        self._edited()

    def sizeHint(self) -> QSize:
        """Returns a size that is never wider than the panel it scrolls in."""
        return QSize(240, super().sizeHint().height())

    @property
    def unusual(self) -> bool:
        """Whether a field says something else than usual."""
        return self._are_unusual(self._rows)

    def unusual_in(self, title: str) -> bool:
        """Whether a field of a group says something else than usual."""
        return any(self._are_unusual(names) for head, names in self._heads if head.title == title)

    def _are_unusual(self, names: Iterable[str]) -> bool:
        return any(self._rows[name].changed for name in names)

    def head(self, title: str) -> FoldButton | None:
        """The heading of a group; None if there is none."""
        return next((head for head, _ in self._heads if head.title == title), None)

    def row(self, name: str) -> FormRow:
        """The row of one hyperparameter."""
        return self._rows[name]

    def values(self) -> dict[str, Value]:
        """The values that matter, typed; wrong ones have their default (see ``problems``)."""
        return {name: form_row.value for name, form_row in self._rows.items() if form_row.visible}

    def touched(self) -> dict[str, Value]:
        """The values that are not their field's default."""
        return {name: value for name, value in self.values().items() if value != self._rows[name].spec.default}

    def problems(self) -> tuple[Problem, ...]:
        """Returns the problems in visible fields."""
        return tuple(r.problem for r in self._rows.values() if r.visible and r.problem is not None)

    def several(self) -> dict[str, str]:
        """The fields with several values, as a sweep's fields have them."""
        rows = ((name, one) for name, one in self._rows.items() if one.visible)
        return {name: one.several.text for name, one in rows if one.several is not None}

    def set_values(self, values: Mapping[str, Value]) -> None:
        """Show these values; names that are missing go to their default."""
        self._quiet = True
        for name, form_row in self._rows.items():
            form_row.editor.set_value(values.get(name, form_row.spec.default))
        self._quiet = False
        self._edited()

    def show_sliders(self, on: bool) -> None:
        """Shows or hides a slider below each number."""
        for form_row in self._rows.values():
            form_row.show_slider(on)

    def offer_runs(self, runs: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        """Offer earlier runs, by exercise, where one of them may be the value: (folder, words) pairs."""
        for form_row in self._rows.values():
            if isinstance(form_row.editor, RunEdit):
                form_row.editor.offer(runs.get(form_row.spec.runs_of, ()))

    def retheme(self) -> None:
        """A style sheet that is replaced gives labels back the font that they were made with."""
        for form_row in self._rows.values():
            form_row.dress_label()

    def show_problems(self, problems: Iterable[Problem]) -> list[Problem]:
        """Puts problems that came from elsewhere under their fields, with what to do about each; returns those of which
        none is here."""
        by_field: dict[str, list[Problem]] = {}
        for found in problems:
            by_field.setdefault(found.where, []).append(found)
        for name, several in by_field.items():
            if name in self._rows:
                text = "\n".join(map(str, several))
                self._rows[name].problem = msgspec.structs.replace(several[0], text=text, hint="")
                self._rows[name].show_state()
        return [found for name, several in by_field.items() if name not in self._rows for found in several]

    def only_problems(self, problems: Iterable[Problem]) -> None:
        """Put these under their fields in place of what earlier calls put there."""
        for form_row in self._rows.values():
            form_row.read()
        self.show_problems(problems)
        for form_row in self._rows.values():
            form_row.show_state()
        self._fold()

    def fold_usual(self) -> None:
        """Fold again the groups that begin folded and have only usual values."""
        for head, names in self._heads:
            head.setChecked(self._are_unusual(names) or head.title not in self._folded)

    def mark(self, problems: Iterable[Problem]) -> None:
        """Show what somebody else said of fields, until anything is changed. It keeps nothing from running: the same
        values may be right the next time."""
        for found in problems:
            if found.where in self._rows:
                self._rows[found.where].remark = found
                self._rows[found.where].show_state()

    def focus_first_problem(self) -> None:
        """Put the cursor where something is wrong."""
        for form_row in self._rows.values():
            if form_row.visible and form_row.problem is not None:
                form_row.editor.setFocus()
                return

    def _edited(self) -> None:
        if self._quiet:
            return
        for form_row in self._rows.values():
            form_row.read()
        raw = {name: form_row.value for name, form_row in self._rows.items()}
        for form_row in self._rows.values():
            visible = _visible(form_row.spec, raw, self._rows)
            form_row.show_row(visible)
            form_row.show_state()
        self._fold()
        self.changed.emit()

    def _fold(self) -> None:
        """Hide the rows of folded groups. A group with a field that says something unusual is open."""
        for head, names in self._heads:
            rows = [self._rows[name] for name in names]
            head.setVisible(any(one.visible for one in rows))
            if self._are_unusual(names) and not head.isChecked():
                head.setChecked(True)
                return  # it comes here again
            for one in rows:
                one.folded = not head.isChecked()
                one.show_row(one.visible)
                one.show_state()


def field_rows(*rows: tuple[str, QWidget]) -> QFormLayout:
    """Rows of label and field for what is no hyperparameter, with the edges of a ``ParamForm``."""
    form = _layout(_GAP + RESET_WIDTH)
    for name, field in rows:
        form.addRow(name, field)
        form.labelForField(field).setFixedWidth(LABEL_WIDTH)
    return form


def _layout(right: int = 0) -> QFormLayout:
    form = QFormLayout()
    form.setContentsMargins(16, 2, 12 + right, 2)
    form.setSpacing(_GAP)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return form


def _visible(spec: ParamSpec, values: Mapping[str, object], rows: Mapping[str, FormRow]) -> bool:
    """A field is there when its condition holds and the field it depends on is there as well."""
    if not matters(spec, values):
        return False
    parent = rows.get(spec.shown_when.name) if spec.shown_when is not None else None
    return parent is None or _visible(parent.spec, values, rows)


def _groups(specs: Sequence[ParamSpec]) -> dict[str, list[ParamSpec]]:
    """Specs by group: first an exercise's own, in the order of their first member, then those that all share."""
    groups: dict[str, list[ParamSpec]] = {}
    for spec in sorted(specs, key=lambda spec: (spec.group == SELDOM, spec.group == SHARED)):
        groups.setdefault(spec.group, []).append(spec)
    return groups


# --- A dialog of it ---------------------------------------------------------------------------------------------------


_WIDTH, _HIGHEST = 480, 500
"""The dialog's width in pixels, and the height from which on its form scrolls."""


class Asked(NamedTuple):
    """What the values of a form describe: the ``result``, None while something is missing or wrong; the sentence below
    the form, and another text for the button."""

    result: object = None
    problems: Sequence[Problem] = ()
    sentence: str = ""
    button: str = ""


Read = Callable[[Mapping[str, Value]], Asked]


class FormDialog(FittedDialog):
    """Asks for the values of a form and hands over what ``read`` makes of them, as soon as nothing is wrong."""

    asked = Signal(object)

    def __init__(self, parent: QWidget, title: str, sentence: str, form: ParamForm, go: Button, read: Read) -> None:
        super().__init__(parent, title, sentence)
        self.form, self.go, self._read = form, go, read
        if (layout := form.layout()) is not None:
            layout.setContentsMargins(0, 0, 0, 0)
        form.changed.connect(self._edited)
        self._area = scrolling(form)
        self._area.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
        self.add(self._area, 1)
        self.summary = label("", "body", "2", wrap=True)
        self.add(self.summary)
        go.setMinimumWidth(140)  # it stays where it is when its number grows
        go.clicked.connect(self._ask)
        self.error = label("", "caption", "bad", wrap=True)
        self.add(self.error)
        go.setDefault(True)
        self.finish(None, self.close_button(form.appearance, "Cancel", ""), go)
        self.setMinimumWidth(_WIDTH)
        self.resize(_WIDTH, 0)
        self._edited()
        if isinstance(first := form.findChild(QLineEdit), QLineEdit):
            first.selectAll()  # what a person types takes the place of what is there

    def _now(self) -> Asked:
        return Asked(problems=self.form.problems()) if self.form.problems() else self._read(self.form.values())

    def _edited(self) -> None:
        now = self._now()
        wrong = without_name(now.problems[0]) if now.problems else ""
        self.go.allow(now.result is not None and not wrong, wrong or now.sentence)
        self.go.set_words(now.button or self.go.accessibleName())
        self.summary.setText(now.sentence or self.summary.text() if now.problems else now.sentence)
        self.summary.setVisible(bool(self.summary.text()))
        elsewhere = [] if self.form.problems() else self.form.show_problems(now.problems)
        self.error.setText("\n".join(found.text for found in elsewhere))
        self.error.setVisible(bool(elsewhere))
        self.fit_height()

    def fit_height(self) -> None:
        """The form takes the height of its fields, up to a limit."""
        if (fields := self.form.layout()) is not None:
            fields.invalidate()
            self._area.setMinimumHeight(min(fields.totalHeightForWidth(self.width() - 48), _HIGHEST))
        super().fit_height()

    def _ask(self) -> None:
        now = self._now()
        if now.result is not None and not now.problems:
            self.asked.emit(now.result)
            self.accept()
