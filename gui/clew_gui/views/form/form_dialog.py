"""The dialog that asks for values: a form, and a button that starts what the values describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from clew_gui.views.form.form import ParamForm, without_name
from clew_gui.views.theme.dialog import FittedDialog
from clew_gui.views.theme.parts import Button, label, scrolling
from clew_shared.base.problem import Problem
from clew_shared.params import Value

_WIDTH, _HIGHEST = 480, 500
"""The dialog's width in pixels, and the height from which on its form scrolls."""


class Asked(NamedTuple):
    """What the values of a form describe: the ``result``, None while something is missing or wrong; the sentence below
    the form, and another text for the button."""

    result: object = None
    problems: Sequence[Problem] = ()
    sentence: str = ""
    button: str = ""


class FormDialog(FittedDialog):
    """Asks for the values of a form and hands over what ``read`` makes of them, as soon as nothing is wrong."""

    asked = Signal(object)

    def __init__(
        self,
        parent: QWidget,
        title: str,
        sentence: str,
        form: ParamForm,
        go: Button,
        read: Callable[[Mapping[str, Value]], Asked],
    ) -> None:
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
