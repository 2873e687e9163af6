"""The Class tab, for the teacher of the course that is followed: students by exercises, who is stuck, and the race."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

from PySide6.QtWidgets import QCheckBox, QWidget

from clew_gui.charts.class_race import class_goals, class_race
from clew_gui.charts.kit.lines import LinesChart, LinesPlot
from clew_gui.courses.board import Sharing
from clew_gui.courses.class_view import (
    CLASS_HEADS,
    EACH_S,
    ClassReader,
    StudentRow,
    class_table,
    class_words,
    shared_curves,
    shown_name,
    used_cards,
)
from clew_gui.courses.course import Course
from clew_gui.reports.check import HandinVerdict, check_handin
from clew_gui.reports.handin import open_handin
from clew_gui.study.ranking import headline_metric
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.sites.background import BackgroundWork, call_elsewhere
from clew_gui.views.tabs.tab import Tab, low_card
from clew_gui.views.theme.parts import Button, Elided, Segments, column, label, row
from clew_gui.views.theme.tables import ReadOnlyTable
from clew_gui.views.window.window import MainWindow
from clew_shared.base.harmless import csv_text
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard


class ClassTab(Tab):
    """Shows the board of the class; offered while a course with a board is followed that one has not joined."""

    entry = Action("class", "C&lass", "Ctrl+9", "Who is where in the course, and who is stuck")
    EXPORT = "Export the class", "class"
    FILES: ClassVar = {"csv": "Values (*.csv)"}
    KINDS: ClassVar = {"csv": "The table, CSV…"}

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller, places)
        self._reader: ClassReader | None = None
        """Reads the class that was looked at last."""
        self._work: BackgroundWork[list[StudentRow]] | None = None
        self._looked, self._asked = 0.0, False
        """When it was looked at last, and whether a person did that."""
        self._rows: list[StudentRow] = []
        self._exercise = self._student = ""
        self.sentence = Elided("", "subtitle")
        self.names = QCheckBox("Names")
        self.names.setChecked(True)
        self.names.setToolTip("Without names the page can be shown on a projector")
        self.names.toggled.connect(self._fill)
        self.look = Button(self._appearance, "Look now", "quiet", "eye", "Read the board again; each minute by itself")
        self.look.clicked.connect(lambda: self._read(asked=True))
        self.table = ReadOnlyTable("Students by exercises", whole=True)
        self.table.cellClicked.connect(self._choose)
        self.race = ChartView(self._appearance, "The race of the class", least=180)
        self._title = label("", "subtitle")
        self.pages = Segments((("race", "Race"), ("goals", "Goals")), "race", "Chart of the class")
        self.pages.chosen.connect(lambda _page: self._draw())
        self._bar = QWidget()
        row(self.sentence, self.names, self.look, self.files_button(), gap=8, parent=self._bar)
        card = low_card(column(self.table, gap=4, margins=(14, 8, 8, 8)))
        chart = self.pair((row(self._title, None, self.pages), self.race, 1))
        self.lay_out(self._bar, card, chart, grows=chart)
        controller.second.connect(self._offer)
        self._offer()

    def _course(self) -> Course | None:
        course = self._controller.model.course
        return course if course is not None and course.board else None

    def _offer(self) -> None:
        course = self._course()
        self.offer(course is not None and Sharing(self._places.shared(course.id), course.board).member is None)

    def refresh(self) -> None:
        """Looks at the board each minute while the tab is in sight; the first time a person may be asked to log in."""
        new = self._reader is None or self._reader.course != self._course()
        if self.in_sight() and (new or time.monotonic() - self._looked > EACH_S):
            self._read(asked=new)

    def _read(self, asked: bool) -> None:
        course, folder, model = self._course(), self._controller.course_folder, self._controller.model
        if course is None or folder is None or self._work is not None:
            return
        self._looked, self._asked = time.monotonic(), asked
        if self._reader is None or self._reader.course != course:
            self._rows = []
            check = partial(_check, {card.id: card for card in model.whole.exercises})
            shown = model.catalogue.exercises
            self._reader = ClassReader(course, shown, lambda text: folder(course.id, text, lambda: self._asked), check)
        reader = self._reader
        self.look.allow(False, "The board is being read")
        self._work = call_elsewhere(self, "class board", lambda: reader.look(time.time()), self._took, self._failed)

    def _took(self, rows: list[StudentRow]) -> None:
        self._work, self._rows = None, rows
        self.look.allow(True)
        self._fill()

    def _failed(self, problems: Sequence[Problem]) -> None:
        self._work = None
        self.look.allow(True)
        self.sentence.set_text(" ".join(map(str, problems)))

    # --- Showing ------------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        if self._reader is None:
            return
        more = f". {self._reader.more:,} more files are not read" if self._reader.more else ""
        self.sentence.set_text(class_words(self._rows, self._reader) + more)
        cards = self._controller.model.catalogue.exercises
        self.table.fill(class_table(self._rows, cards, names=self.names.isChecked()))
        self._draw()

    def _choose(self, line: int, place: int) -> None:
        """A click on a student's exercise shows its curves, that of the student in colour."""
        used = used_cards(self._rows, self._controller.model.catalogue.exercises)
        place -= len(CLASS_HEADS)
        if 0 <= place < len(used) and line < len(self._rows):
            exercise, name = used[place].id, shown_name(self._rows[line], line + 1, self.names.isChecked())
            again = (exercise, name) == (self._exercise, self._student)
            self._exercise, self._student = exercise, "" if again else name
            self._draw()

    def _draw(self) -> None:
        race = self.pages.current() == "race"
        title, plot = self._race() if race else self._goals()
        self._title.setText(title)
        self.race.setVisible(plot is not None)
        if plot is not None:
            self.race.show_chart(partial(LinesChart, plot, title="Step" if race else "Time since the first goal"))

    def _goals(self) -> tuple[str, LinesPlot | None]:
        cells = {
            card.title: [row.cells[card.id].goals for row in self._rows if card.id in row.cells]
            for card in self._controller.model.catalogue.exercises
        }
        times = {title: sorted(chain.from_iterable(goals)) for title, goals in cells.items()}
        plot = class_goals(times, max((row.seen for row in self._rows), default=0.0))
        return plot.title if plot is not None else "No goal is reached yet", plot

    def _race(self) -> tuple[str, LinesPlot | None]:
        model = self._controller.model
        card = model.cards.get(self._exercise, model.card)
        metric = headline_metric(card)
        names, board = self.names.isChecked(), self._reader.board if self._reader is not None else None
        found = shared_curves(board, self._rows, card, names) if board is not None else {}
        curves = {name: one.line.points for name, one in found.items()}
        plot = class_race(curves, metric, self._student) if metric is not None else None
        return f"{card.title}: {plot.title if plot is not None else 'nobody shares a curve yet'}", plot

    def write(self, kind: str, path: Path) -> None:
        """Write the table."""
        path.write_text(csv_text(self.table.texts), encoding="utf-8", newline="\n")


def _check(cards: Mapping[str, ExerciseCard], path: Path) -> HandinVerdict:
    """Checks a hand-in that lies alone in a folder; nothing of it is trained again."""
    return check_handin(open_handin(path, path.with_name("opened")), cards)
