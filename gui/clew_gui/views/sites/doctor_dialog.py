"""The doctor in the window: each step of the way to a site as it is found, with the sentence that fixes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from clew_gui.views.presentation.menu_entries import RemedyButton
from clew_gui.views.sites.background import BackgroundWork
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    Elided,
    Glyph,
    Panel,
    column,
    frame,
    label,
    row,
    scrolling,
    set_role,
)
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy

State = Literal["right", "note", "wrong", "open"]
_STATE_STYLES: dict[State, tuple[str, str]] = {
    "right": ("s_done", "ok"),
    "note": ("warn", "warn"),
    "wrong": ("s_failed", "bad"),
    "open": ("s_todo", "text3"),
}
_SIGNS: dict[State, str] = {"right": "+", "note": "!", "wrong": "x", "open": "-"}
_NAMES = 128


@dataclass(frozen=True)
class Step:
    """One finding: what was checked, how it is, in words; ``hint`` is what to do now, ``where`` which host of
    several it is about. ``open``: not checked."""

    title: str
    state: State
    text: str = ""
    hint: str = ""
    where: str = ""
    remedies: tuple[Remedy, ...] = ()


Examine = Callable[[threading.Event, bool], Iterator[Step]]
"""Looks at everything, until the event is set; with a true value also sends a small job to a node."""


class StepRow(QWidget):
    """One finding, with the hint below it."""

    def __init__(self, appearance: Appearance, step: Step, buttons: Sequence[Button] = ()) -> None:
        super().__init__()
        self.step = step
        glyph, tone = _STATE_STYLES[step.state]
        unseen = step.state == "open"
        name = label(step.title, "body" if unseen else "strong", "bad" if step.state == "wrong" else "3" * unseen)
        name.setWordWrap(True)
        names = column(name, *((Elided(step.where, "caption", "3"),) if step.where else ()), None, gap=0)
        side = QWidget()
        side.setLayout(names)
        side.setFixedWidth(_NAMES)
        text = label(step.text, "body", "3" if unseen else "2", wrap=True, selectable=True)
        sign = column(Glyph(appearance, glyph, tone, 16), None, margins=(0, 1, 0, 0))
        line = row(sign, side, text, gap=12, grows=text)
        line.setAlignment(text, Qt.AlignmentFlag.AlignTop)
        box = column(line, gap=6, margins=(0, 5, 0, 5), parent=self)
        if step.hint:
            words = label(step.hint, "body", wrap=True, selectable=True)
            role = "badNote" if step.state == "wrong" else "warnNote"
            said = column(words, *((row(*buttons, None, gap=8),) if buttons else ()), gap=8, margins=(14, 9, 14, 9))
            box.addLayout(row(28, _stretched(frame(role, said)), gap=0))
        self.setAccessibleName(f"{step.title}: {step.text} {step.hint}".strip())
        self._name, self._text, self._titles = name, text, [step.title]

    def add(self, step: Step) -> None:
        """Adds a step that was not checked for the same reason: one line names all of them."""
        self._titles.append(step.title)
        names = ", ".join(dict.fromkeys(self._titles))
        self._name.setText(f"{len(self._titles)} checks")
        self._text.setText(f"{self.step.text} Not checked: {names}.")
        self.setAccessibleName(f"{self._name.text()}: {self._text.text()}")


def _stretched(widget: QWidget) -> QWidget:
    policy = widget.sizePolicy()
    policy.setHorizontalPolicy(policy.Policy.Expanding)
    widget.setSizePolicy(policy)
    return widget


class DoctorDialog(Dialog):
    """Runs ``examine`` in a thread and shows what it finds, one by one. Can be stopped, copied and run again.

    ``node``: whether it looks at a node as well; None: there are none.
    """

    ended = Signal()
    """Emitted when the examination is over, or was stopped."""

    def __init__(
        self,
        parent: QWidget,
        appearance: Appearance,
        title: str,
        examine: Examine,
        remedies: Callable[[Step], Sequence[RemedyButton]] = lambda _step: (),
        node: bool | None = False,
    ) -> None:
        super().__init__(parent, f"Checking {title}")
        self._has_nodes = node is not None
        self._appearance, self._title, self._examine, self._remedies = appearance, title, examine, remedies
        self._work: BackgroundWork[Step] | None = None
        self.steps: list[Step] = []
        self._first_wrong: StepRow | None = None
        self._open: StepRow | None = None
        """The row of the latest unchecked step: others with the same reason are named in its line."""
        self.count = label("", "body", "2")
        self.add(self.count)
        self._list = Panel()
        self._rows = column(None, gap=0, margins=(0, 0, 10, 0), parent=self._list)
        self._area = scrolling(self._list)
        self.add(self._area, 1)
        self.copy_button = Button(appearance, "Copy the report", "quiet", "copy", "All findings as text")
        self.copy_button.clicked.connect(self.copy)
        self.again = Button(appearance, "Stop", "", "stop", "Stop the check")
        self.again.clicked.connect(self._stop_or_again)
        self.node = Button(
            appearance, "Check a node too", "quiet", "server", "Send a tiny job that reports what a node has"
        )
        self.node.clicked.connect(lambda: self.begin(node=True))
        self.finish(self.copy_button, None, self.node, self.again, self.close_button(appearance))
        self.finished.connect(lambda _code: self.stop())
        self.resize(600, 560)
        self.begin(bool(node))

    @property
    def busy(self) -> bool:
        """Whether it is still looking."""
        return self._work is not None

    def begin(self, node: bool = False) -> None:
        """Look at everything again; ``node``: also with a small job."""
        self.stop()
        self.steps.clear()
        self._first_wrong = self._open = None
        while (item := self._rows.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        self._rows.addStretch(1)

        def steps(stop: threading.Event) -> Iterator[Step]:
            return self._examine(stop, node)

        self._work = BackgroundWork(self, f"doctor {self._title}", steps, self._found, self._failed, self._over)
        self._update_count()

    def stop(self) -> None:
        """Stop the check; what was found stays."""
        work, self._work = self._work, None
        if work is not None:
            work.stop()
            self._update_count()
            self.ended.emit()

    def _stop_or_again(self) -> None:
        if self.busy:
            self.stop()
        else:
            self.begin()

    def _found(self, step: Step) -> None:
        self.steps.append(step)
        if step.state == "open" and self._open is not None and self._open.step.text == step.text:
            self._open.add(step)
            self._update_count()
            return
        line = StepRow(self._appearance, step, self._buttons(step))
        self._open = line if step.state == "open" else None
        self._rows.insertWidget(self._rows.count() - 1, line)
        if step.state == "wrong" and self._first_wrong is None:
            self._first_wrong = line
        self._update_count()

    def _buttons(self, step: Step) -> list[Button]:
        made = []
        for way in self._remedies(step) if step.hint else ():
            button = Button(self._appearance, way.text)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _checked=False, way=way: self._leave_for(way))
            made.append(button)
        return made

    def _leave_for(self, way: RemedyButton) -> None:
        """Closes the dialog before the remedy, which may open a dialog of its own or lead to the form."""
        self.accept()
        way.act()

    def _failed(self, problems: tuple[Problem, ...]) -> None:
        for found in problems:
            self._found(Step("The check itself", "wrong", found.text, found.hint))

    def _over(self) -> None:
        self._work = None
        if self._first_wrong is not None:
            self._area.ensureWidgetVisible(self._first_wrong)
        self._update_count()
        self.ended.emit()

    def _update_count(self) -> None:
        self.count.setText(counts_text(self.steps, self.busy))
        wrong = any(step.state == "wrong" for step in self.steps)
        set_role(self.count, "2" if self.busy or not self.steps else "bad" if wrong else "ok", "tone")
        self.again.set_words(*(("Stop", "Stop the check") if self.busy else ("Check again", "Check everything again")))
        self.again.set_glyph("stop" if self.busy else "reset")
        self.node.setVisible(self._has_nodes and not self.busy and bool(self.steps))
        self.copy_button.allow(bool(self.steps), "There are no findings yet")

    def copy(self) -> None:
        """Copies all findings as text."""
        QGuiApplication.clipboard().setText(self.report())

    def report(self) -> str:
        """Returns all findings as text."""
        lines = [f"Checking {self._title}: {counts_text(self.steps, self.busy)}"]
        for step in self.steps:
            name = f"{step.title} ({step.where})" if step.where else step.title
            lines.append(f"[{_SIGNS[step.state]}] {name}: {step.text}")
            lines += [f"      {step.hint}"] if step.hint else []
        return "\n".join(lines)


def counts_text(steps: list[Step], busy: bool) -> str:
    """The sum of it: "6 passed, 1 failed, still checking …"."""
    counts = {state: sum(step.state == state for step in steps) for state in _STATE_STYLES}
    parts = [f"{counts['right']} passed"] if counts["right"] else []
    parts += [f"{counts['note']} worth knowing"] if counts["note"] else []
    parts += [f"{counts['wrong']} failed"] if counts["wrong"] else []
    parts += [f"{counts['open']} not checked"] if counts["open"] else []
    if busy:
        return ", ".join([*parts, "still checking …"]) if parts else "Checking …"
    return ", ".join(parts) if parts else "Stopped before anything was found"
