"""Shows everything about one run beside another: settings, seed, data, node, software, folder, hashes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHeaderView, QTableWidgetItem, QWidget

from clew_gui.base.state_words import NONE, STATE_WORDS
from clew_gui.jobs.job import use_words
from clew_gui.session.runs import RunModel
from clew_gui.study.trace import most_expensive_words, trace_words
from clew_gui.study.usage import usage_words
from clew_gui.views.form.fields import combo, offer
from clew_gui.views.presentation import words
from clew_gui.views.theme.parts import Appearance, Button, column, label, row
from clew_gui.views.theme.tables import ReadOnlyTable
from clew_gui.views.theme.theme import font
from clew_shared.base.harmless import for_tooltip
from clew_shared.cards import ExerciseCard
from clew_shared.run_settings import label_of, setting_words, settings_of


class Detail(NamedTuple):
    """A line: what it says of the run, and of the other one; empty if there is none."""

    label: str
    text: str
    other: str = ""
    setting: bool = False

    @property
    def differs(self) -> bool:
        """Whether a setting is not the same in both."""
        return self.setting and bool(self.other) and self.text != self.other


def details(run: RunModel, card: ExerciseCard, other: RunModel | None) -> list[Detail]:
    """Returns all lines of the details; settings in which the two runs differ come first."""
    names = list(dict.fromkeys([*settings_of(run.spec, card), *(settings_of(other.spec, card) if other else ())]))
    mine, theirs = _settings(run, card, names), _settings(other, card, names) if other is not None else {}
    lines = [Detail(label_of(name, card), mine[name], theirs.get(name, ""), True) for name in names]
    lines = sorted(lines, key=lambda line: not line.differs)
    about, beside = _about(run), _about(other) if other is not None else {}
    return lines + [Detail(name, text, beside.get(name, "")) for name, text in about.items() if text]


def _settings(run: RunModel, card: ExerciseCard, names: Sequence[str]) -> dict[str, str]:
    values = settings_of(run.spec, card)
    values["data"] = run.spec.data or values["data"]
    return {name: setting_words(name, values.get(name), card) or NONE for name in names}


def _about(run: RunModel) -> dict[str, str]:
    fold, attempt, trace = run.history.fold, run.history.begun, run.history.trace
    software = (
        ", ".join(f"{name} {version}" for name, version in attempt.software.items()) if attempt is not None else ""
    )
    return {
        "Name": words.name_of(run),
        "Tags": " ".join(f"#{tag}" for tag in run.note.tags),
        "Note": run.note.note,
        "State": words.join([STATE_WORDS[run.state], run.reason]),
        "Started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(fold.first_started)) if fold.first_started else "",
        "Took": words.clock(fold.seconds) if fold.done and fold.seconds else "",
        "Where": run.where,
        "Node": fold.host,
        "Machine": usage_words(run.history.pulse_summary()),
        "Traced": trace_words(trace) if trace is not None else "",
        "Most expensive operations": most_expensive_words(trace) if trace is not None else "",
        "Scheduler's accounts": use_words(run.job.use) if run.job is not None else "",
        "Device names": ", ".join(fold.devices),
        "Software": software,
        "Attempts": str(fold.attempt) if fold.attempt > 1 else "",
        "Folder": str(run.folder),
        "Run": run.id,
        "SHA-256 of the spec": attempt.spec_sha256 if attempt is not None else "",
        "SHA-256 of the exercise": (attempt.source_sha256 if attempt is not None else "") or run.spec.source_hash,
    }


class DetailsPanel(QWidget):
    """A table of the lines, and the choice of the run beside it. Ctrl+C copies what is selected."""

    other_chosen = Signal(str)
    """Asks to compare with this run; empty: with none."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.table = ReadOnlyTable("Details of the run")
        self.table.setColumnCount(3)
        head = self.table.horizontalHeader()
        head.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        head.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        for place in (1, 2):
            head.setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)
        self.others = combo([], "Compare with")
        self.others.setMinimumWidth(190)
        self.others.activated.connect(lambda _place: self.other_chosen.emit(self.others.currentData()))
        beside = label("Compare with", "body", "2", of=self.others)
        self.difference = label("", "body", "2")
        self.note = Button(appearance, "Name and tags…", "", "", "Write a name, tags and a note (F2)")
        copy = Button(appearance, "Copy all", "", "copy", "Copy the table, for a spreadsheet")
        copy.clicked.connect(lambda: self._copy(range(self.table.rowCount())))
        line = row(beside, self.others, self.difference, None, self.note, copy, gap=8, margins=(16, 4, 12, 4))
        column(line, self.table, gap=0, grows=self.table, parent=self)
        self._lines: list[Detail] = []

    def show_run(self, title: str, lines: Sequence[Detail], choices: Sequence[tuple[str, str]], other: str) -> None:
        """Show these lines of the run called ``title``, and what it may be compared with: ids and titles."""
        offer(self.others, [("", "No other run"), *choices], other)
        beside = self.others.currentText() if other else ""
        heads = ["", title, beside]
        self.table.setHorizontalHeaderLabels(heads)
        self.table.setColumnHidden(2, not other)
        differ = sum(line.differs for line in lines)
        self.difference.setText(
            "" if not other else f"{differ} settings differ" if differ != 1 else "1 setting differs"
        )
        if list(lines) != self._lines:
            self._lines = list(lines)
            self._fill()

    def _fill(self) -> None:
        strong = font("strong")
        self.table.setRowCount(len(self._lines))
        for number, line in enumerate(self._lines):
            for place, text in enumerate((line.label, line.text, line.other)):
                item = QTableWidgetItem(text)
                item.setToolTip(for_tooltip(text))
                if line.differs:
                    item.setFont(strong)
                self.table.setItem(number, place, item)
        self.table.resizeRowsToContents()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy the selected lines."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self._copy(sorted({index.row() for index in self.table.selectedIndexes()}))
        else:
            super().keyPressEvent(event)

    def _copy(self, numbers: Sequence[int]) -> None:
        lines = [self._lines[number] for number in numbers]
        texts = ["\t".join((line.label, line.text, *([line.other] if line.other else []))) for line in lines]
        QGuiApplication.clipboard().setText("\n".join(texts))
