"""The windows in which a sweep is put together (which values of which settings, which seeds, and what it will take) and
a learning-rate range test."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
    QWidgetAction,
)

from clew_gui.views.form.fields import NumberEdit, combo
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance, Button, column, frame, label, panel, row, scrolling
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.goal_settings import idle_seeds
from clew_shared.params import ParamSpec, Value, convert, format_value, matters
from clew_shared.spec import RateRange, RunSpec, check_spec
from clew_shared.study.study import StudySpec, check_study, study_runs, sweep_study, usual_metric
from clew_shared.study.sweep import Sweep, Values, is_many, read_range, read_values, settled

_METHODS = [("grid", "All combinations"), ("random", "Random points")]
_PRUNERS = [("", "Never"), ("median", "Worse than the median"), ("halving", "Not in the best third")]
_HELP = "Tick or write several values of one or more settings. Each combination is a run of its own."
_SINGLE = "sweep.single"
_SEEDS = ParamSpec(name="seeds", kind="int", label="Seeds", default=1, ge=0, lt=2**31)
_COUNT = ParamSpec(name="count", kind="int", label="Points", default=20, ge=1, le=1000)


class SweepDialog(Dialog):
    """Puts a study together and hands it over. ``base`` is what the form says, with several values of a setting in
    ``typed``; ``forecast`` says what runs take."""

    started = Signal(StudySpec)

    def __init__(
        self,
        parent: QWidget,
        appearance: Appearance,
        card: ExerciseCard,
        base: RunSpec,
        forecast: Callable[[tuple[RunSpec, ...]], str],
        typed: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(parent, "Sweep", _HELP)
        self._card, self._base, self._forecast, self._typed = card, base, forecast, typed or {}
        self._appearance = appearance
        self.fields: dict[str, QLineEdit | ManyChoices] = {}
        self._add_fields()
        self._add_choices()
        self.cost = label("", "body", "2", wrap=True)
        self.add(self.cost)
        self.go = Button(appearance, "Start", "primarySmall", "play", "Start these runs where the form says")
        self.go.setMinimumWidth(140)  # it stays where it is when its number grows
        self.go.clicked.connect(self._start)
        self.error = self.finish_checked(appearance, self.go)
        self.setMinimumWidth(560)
        self._edited()
        self.resize(560, min(680, self.sizeHint().height() + 24))

    def _add_fields(self) -> None:
        grid = QGridLayout()
        grid.setContentsMargins(14, 10, 14, 12)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(6)
        values = {spec.name: self._base.params.get(spec.name, spec.default) for spec in self._card.params}
        self.seeds = self._field("Seeds", str(self._base.seed), "1, 2, 3")
        self._put(grid, 0, "Seeds", self.seeds)
        line = 1
        for spec in self._card.params:
            if not matters(spec, values):
                continue
            text = self._typed.get(spec.name) or format_value(values[spec.name])
            field: QLineEdit | ManyChoices
            if spec.type.choices(spec):
                field = ticks = ManyChoices(spec, text)
                ticks.edited.connect(self._edited)
            else:
                field = self._field(spec.label, text, spec.type.several)
            self.fields[spec.name] = field
            self._put(grid, line, spec.label, field)
            if isinstance(field, QLineEdit) and spec.type.number:
                grid.addWidget(RangeButton(self._appearance, spec, field), line, 2)
            line += 1
        grid.setColumnStretch(1, 1)
        box = frame("sunken")
        box.setLayout(grid)
        area = scrolling(box, takes_focus=True)
        area.setMinimumHeight(min(400, box.sizeHint().height() + 4))
        self.add(area, 1)

    def _put(self, grid: QGridLayout, line: int, text: str, field: QWidget) -> None:
        name = label(text)
        name.setBuddy(field)
        grid.addWidget(name, line, 0)
        grid.addWidget(field, line, 1)

    def _field(self, name: str, text: str, known: str) -> QLineEdit:
        field = QLineEdit(text)
        field.setAccessibleName(f"Values of {name}")
        field.setPlaceholderText("not set")
        field.setToolTip(f"One value, or several with commas: {known}")
        field.textChanged.connect(self._edited)
        return field

    def _add_choices(self) -> None:
        self.method = combo(list(_METHODS), "Points")
        self.count = self._field("Points", str(_COUNT.default), "20")
        self.pruner = combo(list(_PRUNERS), "End runs early")
        self.method.currentIndexChanged.connect(lambda _index: self._edited())
        self.pruner.currentIndexChanged.connect(lambda _index: self._edited())
        line = row(label("Points"), self.method, self.count, label("End a run early"), self.pruner, gap=8)
        line.setStretch(1, 2)
        line.setStretch(2, 1)
        line.setStretch(4, 2)
        self.add(line)

    # --- What was chosen ----------------------------------------------------------------------------------------------

    def _read(self) -> tuple[StudySpec, list[Problem]]:
        """The study as the dialog describes it, and what is wrong with it."""
        over: dict[str, Values] = {}
        fixed: dict[str, Value] = {}
        wrong: list[Problem] = []
        method = str(self.method.currentData())
        for spec in self._card.params:
            if spec.name not in self.fields:
                continue
            text = spaced(spec, self.fields[spec.name].text().strip())
            if not is_many(text):
                values, found = read_values(spec, text) if text else ((None,), [])
                fixed |= {spec.name: values[0]} if values else {}
            elif method == "random" and (limits := read_range(text)) is not None:
                over[spec.name], found = limits, []
            else:
                over[spec.name], found = read_values(spec, text)
            wrong += found
        seeds, found = read_values(_SEEDS, self.seeds.text().replace(",", ", "))
        count, more = read_values(_COUNT, self.count.text())
        wrong += [*found, *(more if method == "random" else [])]
        base = msgspec.structs.replace(
            self._base, seed=int(seeds[0] or 0) if seeds else 1, params={**self._base.params, **fixed}
        )
        sweep = self._sweep(method, over, [int(s or 0) for s in seeds], count)
        study = sweep_study(base, sweep, metric=usual_metric(self._card), title=f"{self._card.title}, sweep")
        if not over and len(seeds) < 2 and not wrong:
            wrong.append(Problem(_SINGLE, "No setting has several values yet.", "Write 0.01, 0.1, for example."))
        return self._settled(study, wrong)

    def _sweep(self, method: str, over: dict[str, Values], seeds: list[int], count: tuple[Value, ...]) -> Sweep:
        several = tuple(seeds) if len(seeds) > 1 else ()
        pruner = str(self.pruner.currentData())
        number = int(count[0] or 0) if method == "random" and count else 0
        if not over:  # the same point with several seeds
            return msgspec.convert({"method": "list", "points": [{}], "seeds": several, "pruner": pruner}, Sweep)
        given = {"method": method, "over": over, "count": number, "seeds": several, "pruner": pruner}
        return msgspec.convert(msgspec.to_builtins(given), Sweep)

    def _settled(self, study: StudySpec, wrong: list[Problem]) -> tuple[StudySpec, list[Problem]]:
        wrong = wrong or check_study(study, self._card)
        if wrong or study.sweep is None:
            return study, wrong
        study = msgspec.structs.replace(study, sweep=settled(study.sweep, self._card))
        return study, check_study(study, self._card)

    def study(self) -> StudySpec:
        """The study as the dialog describes it."""
        return self._read()[0]

    def _edited(self) -> None:
        if not hasattr(self, "go"):
            return
        study, problems = self._read()
        self.count.setVisible(self.method.currentData() == "random")
        self.go.allow(not problems, problems[0].text if problems else "")
        specs = () if problems else tuple(run.spec for run in study_runs(study))
        self.go.set_words(f"Start {len(specs)} runs" if specs else "Start")
        nothing_yet = any(problem.code == _SINGLE for problem in problems)
        said = " ".join(filter(None, (self._forecast(specs), idle_seeds(specs, self._card)))) if specs else " "
        self.cost.setText(str(problems[0]) if nothing_yet else said)
        self.say_wrong(self.error, [problem.text for problem in problems if problem.code != _SINGLE])

    def _start(self) -> None:
        study, problems = self._read()
        if not problems:
            self.started.emit(study)
            self.accept()


def spaced(spec: ParamSpec, text: str) -> str:
    """``text`` with a blank after each comma that separates values: 0.01,0.1 are two, 25,000 is one."""
    thousands = re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", text) is not None
    return text if not spec.type.number or thousands else re.sub(r",\s*", ", ", text)


class ManyChoices(QPushButton):
    """Several of the values of a choice, ticked in a menu and shown by their labels."""

    edited = Signal()

    def __init__(self, spec: ParamSpec, text: str) -> None:
        super().__init__()
        self.setProperty("role", "field")
        self.setAccessibleName(f"Values of {spec.label}")
        self.setAutoDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        menu = StayingMenu(self)
        self.entries: dict[str, QAction] = {}
        for choice in spec.type.choices(spec):
            entry = menu.addAction(choice.label)
            entry.setCheckable(True)
            entry.toggled.connect(lambda _on: self._ticked())
            self.entries[choice.value] = entry
        self.setMenu(menu)
        self.setText(text)

    def text(self) -> str:
        """The ticked values, as a sweep's file has them."""
        return ", ".join(value for value, entry in self.entries.items() if entry.isChecked())

    def setText(self, text: str) -> None:
        """Ticks these values."""
        wanted = {word.strip() for word in text.split(",")}
        for value, entry in self.entries.items():
            with QSignalBlocker(entry):
                entry.setChecked(value in wanted)
        self._ticked()

    def _ticked(self) -> None:
        labels = [entry.text() for entry in self.entries.values() if entry.isChecked()]
        super().setText(f"  {', '.join(labels) or 'not set'}")  # Qt has no padding beside a text at the left
        self.setToolTip("Tick several to train once with each")
        self.edited.emit()


class StayingMenu(QMenu):
    """A menu of ticks that stays open while they are set."""

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click sets a tick and closes nothing."""
        entry: object = self.actionAt(event.position().toPoint())  # None beside the entries, whatever its type says
        if isinstance(entry, QAction) and entry.isCheckable():
            entry.toggle()
        else:
            super().mouseReleaseEvent(event)


class RangeButton(QToolButton):
    """Writes a range into a number's field: from, to, how many, evenly or by equal factors."""

    def __init__(self, appearance: Appearance, spec: ParamSpec, field: QLineEdit) -> None:
        super().__init__()
        self.setText("Range…")
        self.setProperty("role", "link")
        self.setAccessibleName(f"Range of {spec.label}")
        self.setToolTip("From, to, and how many values")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._field = field
        number = msgspec.structs.replace(spec, optional=False, unit="", default=spec.default or 1)
        self.low, self.high = NumberEdit(number), NumberEdit(number)
        self.many = NumberEdit(ParamSpec(name="many", kind="int", label="How many", default=4, ge=2, le=100))
        self.many.set_value(4)
        self.log = QCheckBox("Equal factors")
        self.log.setChecked(spec.log)
        self.use = Button(appearance, "Use", "primarySmall")
        self.use.clicked.connect(self._use)
        words = ((self.low, "From"), (self.high, "To"), (self.many, "How many"))
        for edit, name in words:
            edit.setAccessibleName(name)
            edit.setFixedWidth(80)
        lines = [row(label(name), None, edit, gap=8) for edit, name in words]
        inside = panel()
        column(*lines, self.log, self.use, gap=6, margins=(12, 10, 12, 10), parent=inside)
        action = QWidgetAction(self)
        action.setDefaultWidget(inside)
        menu = QMenu(self)
        menu.addAction(action)
        self.setMenu(menu)

    def _use(self) -> None:
        low, high, many = (str(edit.raw()).strip() for edit in (self.low, self.high, self.many))
        if low and high:
            self._field.setText(f"{low} to {high}{' log' if self.log.isChecked() else ''} {many or 4}")
            self.menu().close()


# --- Range test -------------------------------------------------------------------------------------------------------


_RANGE_HELP = (
    "One run of the form's settings, in which the learning rate grows from the lowest to the highest. Afterwards the"
    " run says at which rate the loss falls fastest: a good rate to begin with."
)
_LOWEST = ParamSpec(name="low", kind="float", label="Lowest rate", default=1e-5, gt=0, log=True)
_HIGHEST = ParamSpec(name="high", kind="float", label="Highest rate", default=10.0, gt=0, log=True)


class RangeDialog(Dialog):
    """Asks for the limits of a learning-rate range test; ``base`` is what the form says."""

    started = Signal(RunSpec)

    def __init__(self, parent: QWidget, appearance: Appearance, base: RunSpec) -> None:
        super().__init__(parent, "Learning-rate range test", _RANGE_HELP)
        self._base = base
        self.low, self.high = (self._edit(spec) for spec in (_LOWEST, _HIGHEST))
        line = row(label(_LOWEST.label), self.low, label(_HIGHEST.label), self.high, gap=8)
        line.setStretch(1, 1)
        line.setStretch(3, 1)
        self.add(line)
        self.go = Button(appearance, "Run the test", "primarySmall", "play")
        self.go.clicked.connect(self._start)
        self.error = self.finish_checked(appearance, self.go)
        self.setMinimumWidth(480)
        self._edited()

    def _edit(self, spec: ParamSpec) -> NumberEdit:
        field = NumberEdit(spec)
        field.setAccessibleName(spec.label)
        field.set_value(spec.default)
        field.edited.connect(self._edited)
        return field

    def _read(self) -> tuple[RunSpec, list[Problem]]:
        read = [convert(_LOWEST, self.low.raw()), convert(_HIGHEST, self.high.raw())]
        wrong = [found for _, found in read if found is not None]
        low, high = (float(value) if isinstance(value, int | float) else 0.0 for value, _ in read)
        spec = msgspec.structs.replace(self._base, rate_range=RateRange(low, high))
        return spec, wrong or [found for found in check_spec(spec) if found.where == "rate_range"]

    def _edited(self) -> None:
        if hasattr(self, "go"):
            _, wrong = self._read()
            self.go.allow(not wrong, wrong[0].text if wrong else "")
            self.say_wrong(self.error, [found.text for found in wrong])

    def _start(self) -> None:
        spec, wrong = self._read()
        if not wrong:
            self.started.emit(spec)
            self.accept()
