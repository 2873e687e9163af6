"""Predict, then run: a person says what a metric will be in the end, before the run begins."""

from __future__ import annotations

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from clew_gui.views.form.fields import NumberEdit, combo
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance, Button, label, row
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import ParamSpec, convert
from clew_shared.spec import Prediction, RunSpec, check_spec

_HELP = (
    "What will it be at the end of the run? Write 0.9 for 90 %. Your value is written into the run's journal before the"
    " first step; a dashed line shows it beside the curve, and the run's card says how near it came."
)
_VALUE = ParamSpec(name="value", kind="float", label="Value at the end", default=0.0)


class PredictDialog(Dialog):
    """Asks for one value and hands it over as a level over all ``steps`` of the run that ``base`` describes."""

    predicted = Signal(Prediction)

    def __init__(self, parent: QWidget, appearance: Appearance, card: ExerciseCard, base: RunSpec, steps: int) -> None:
        super().__init__(parent, "Predict the result", _HELP)
        self._base, self._steps = base, max(steps, 1)
        self.metrics = combo([(one.name, one.label.capitalize()) for one in _judged(card)], "Metric")
        self.value = NumberEdit(_VALUE)
        self.value.setAccessibleName(_VALUE.label)
        self.value.edited.connect(self._edited)
        line = row(label("Metric"), self.metrics, label(_VALUE.label), self.value, gap=8)
        line.setStretch(1, 2)
        line.setStretch(3, 1)
        self.add(line)
        self.go = Button(appearance, "Keep for the next run", "primarySmall", "check")
        self.go.clicked.connect(self._keep)
        self.error = self.finish_checked(appearance, self.go)
        self.setMinimumWidth(480)
        self._edited()
        self.value.setFocus()

    def _read(self) -> tuple[Prediction | None, list[Problem]]:
        value, wrong = convert(_VALUE, self.value.raw())
        if wrong is not None or not isinstance(value, float):
            return None, [wrong] if wrong is not None else []
        found = Prediction(str(self.metrics.currentData()), (0, self._steps), (value, value))
        checked = check_spec(msgspec.structs.replace(self._base, prediction=found))
        return found, [one for one in checked if one.where == "prediction"]

    def _edited(self) -> None:
        found, wrong = self._read()
        self.go.allow(found is not None and not wrong, wrong[0].text if wrong else "Write a value first")
        self.say_wrong(self.error, [one.text for one in wrong] if self.value.text() else [])

    def _keep(self) -> None:
        found, wrong = self._read()
        if found is not None and not wrong:
            self.predicted.emit(found)
            self.accept()


def _judged(card: ExerciseCard) -> list[MetricSpec]:
    """Metrics that can be better or worse: those that are measured now and then first, such as accuracy."""
    found = [one for one in card.metrics if one.better != "none"]
    return sorted(found or card.metrics, key=lambda one: one.per_step)
