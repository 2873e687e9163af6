"""The window in which a race is put together: who takes part, at which rate, and how many steps each gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QGridLayout, QWidget

from clew_gui.views.form.fields import NumberEdit
from clew_gui.views.presentation import words
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance, Button, frame, label, row
from clew_gui.views.theme.theme import font
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.params import BATCH_SIZE, LEARNING_RATE, STEPS, ParamSpec, Value, convert, value_words
from clew_shared.spec import RunSpec
from clew_shared.study.study import StudySpec, check_study, race_study

_TOLD = (BATCH_SIZE, "order", "schedule")


@dataclass(frozen=True)
class LaneRow:
    """One line of the dialog; ``rate`` is None where the exercise has no learning rate."""

    lane: Lane
    box: QCheckBox
    rate: NumberEdit | None


class RaceDialog(Dialog):
    """Puts a study together and hands it over; ``base`` is what the form says, for everything that all lanes share."""

    started = Signal(StudySpec)

    def __init__(
        self, parent: QWidget, appearance: Appearance, card: ExerciseCard, race: RaceSpec, base: RunSpec
    ) -> None:
        fair = "All start with the same weights and see the same batches in the same order."
        super().__init__(parent, race.title, words.join([race.help, fair], " "))
        self._card, self._race, self._base = card, race, base
        self._specs = {spec.name: spec for spec in card.params}
        self.rows: list[LaneRow] = []
        self._add_lanes()
        self._add_budget()
        shared = label(f"Everything else is as in the form: {shared_words(card, base)}.", "caption", "2", wrap=True)
        self.add(shared)
        self.go = Button(appearance, "Start the race", "primarySmall", "play", "Queue these runs, one after the other")
        self.go.clicked.connect(self._start)
        self.error = self.finish_checked(appearance, self.go)
        self.setMinimumWidth(470)
        self._edited()

    def _add_lanes(self) -> None:
        grid = QGridLayout()
        grid.setContentsMargins(14, 10, 14, 12)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(6)
        grid.addWidget(label("Lane", "section", "2"), 0, 0)
        if LEARNING_RATE in self._specs:
            grid.addWidget(label(self._specs[LEARNING_RATE].label, "section", "2"), 0, 1)
        for number, lane in enumerate(self._race.lanes):
            line = self._lane_row(lane)
            self.rows.append(line)
            grid.addWidget(line.box, number + 1, 0)
            if line.rate is not None:
                grid.addWidget(line.rate, number + 1, 1)
        grid.setColumnStretch(0, 3)
        grid.setColumnStretch(1, 2)
        box = frame("sunken")
        box.setLayout(grid)
        self.add(box)

    def _lane_row(self, lane: Lane) -> LaneRow:
        box = QCheckBox(lane.name)
        box.setFont(font())
        box.setChecked(True)
        box.setAccessibleName(f"{lane.name} takes part")
        spec = self._specs.get(LEARNING_RATE)
        rate = None
        if spec is not None:
            rate = NumberEdit(spec)
            rate.setAccessibleName(f"{spec.label} of {lane.name}")
            rate.set_value(lane.values.get(LEARNING_RATE, self._base.params.get(LEARNING_RATE, spec.default)))
            rate.edited.connect(self._edited)
            box.toggled.connect(rate.setEnabled)
        box.toggled.connect(lambda _on: self._edited())
        return LaneRow(lane, box, rate)

    def _add_budget(self) -> None:
        spec = self._specs.get(STEPS) or ParamSpec(name=STEPS, kind="int", label="Steps", default=0, ge=1)
        self.steps = NumberEdit(spec)
        self.steps.setAccessibleName("Steps for each lane")
        self.steps.set_value(self._race.steps)
        self.steps.edited.connect(self._edited)
        self.samples = label("", "body", "2")
        name = label("Steps for each lane", "strong")
        name.setBuddy(self.steps)
        line = row(name, self.steps, self.samples, gap=10)
        line.setStretch(1, 1)
        line.setStretch(2, 1)
        self.add(line)

    # --- What was chosen ----------------------------------------------------------------------------------------------

    def _read(self) -> tuple[StudySpec, list[Problem]]:
        """The study as the dialog describes it, and what is wrong with it."""
        problems: list[Problem] = []
        lanes = []
        for line in self.rows:
            if line.box.isChecked():
                values = dict(line.lane.values)
                if line.rate is not None:
                    values[LEARNING_RATE], found = convert(self._specs[LEARNING_RATE], line.rate.raw())
                    problems += [Problem(found.code, f"{line.lane.name}: {found.text}")] if found is not None else []
                lanes.append(Lane(name=line.lane.name, values=values))
        steps, found = convert(self._steps_spec(), self.steps.raw())
        problems += [found] if found is not None else []
        study = race_study(self._race, self._base, lanes, steps if isinstance(steps, int) else 1)
        if not lanes:
            problems.append(Problem("study.lanes", "No lane is chosen.", "Tick at least one lane."))
        return study, problems or check_study(study, self._card)

    def _steps_spec(self) -> ParamSpec:
        return self._specs.get(STEPS) or ParamSpec(name=STEPS, kind="int", label="Steps", default=1, ge=1)

    def study(self) -> StudySpec:
        """The study as the dialog describes it."""
        return self._read()[0]

    def _edited(self) -> None:
        study, problems = self._read()
        self.go.allow(not problems, problems[0].text if problems else "")
        self.go.set_words(f"Start {len(study.lanes)} runs" if len(study.lanes) > 1 else "Start the run")
        size = self._base.params.get(BATCH_SIZE, _default(self._specs, BATCH_SIZE))
        images = isinstance(size, int) and not isinstance(size, bool) and bool(self._card.datasets)
        self.samples.setText(f"= {words.count(study.steps * int(size or 0))} images" if images else "")
        self.say_wrong(self.error, [problem.text for problem in problems])

    def _start(self) -> None:
        study, problems = self._read()
        if not problems:
            self.started.emit(study)
            self.accept()


def _default(specs: dict[str, ParamSpec], name: str) -> Value:
    return specs[name].default if name in specs else None


def shared_words(card: ExerciseCard, base: RunSpec) -> str:
    """Describes what all lanes share: "seed 1, MNIST, batch size 100, file order"."""
    parts = [f"seed {base.seed}"]
    parts += [words.data_name(base.data)] if base.data else []
    specs: Sequence[ParamSpec] = card.params
    for spec in specs:
        if spec.name in _TOLD:
            value = value_words(spec, base.params.get(spec.name, spec.default)).lower()
            parts.append(value if spec.name == "order" else f"{spec.label.lower()} {value}")
    return ", ".join(parts)
