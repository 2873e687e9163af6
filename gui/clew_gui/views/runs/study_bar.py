"""Shows how the race or the sweep of the selected run goes: a line above the plots, with the places of the lanes or the
buttons that control all runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QMenu, QToolButton, QWidget

from clew_gui.views.theme.parts import Appearance, Button, Elided, IconButton, column, label, row

_CHIP = 256
_GAP = 6
_EDGES = 28
"""The pixels to the left and right of all chips."""
_SWATCH = QSize(16, 12)


class RaceEntry(msgspec.Struct, frozen=True):
    """One lane: its place from 1 (0: none yet), its run, its curve style, its name, and what it has reached."""

    place: int
    run: str
    index: int
    name: str
    result: str
    selected: bool = False

    @property
    def words(self) -> str:
        """Describes the lane in one phrase: "1 Adam 0.2, step 67"."""
        place = f"{self.place} " if self.place else ""
        return f"{place}{self.name}, {self.result}"


class StudyBar(QFrame):
    """Title, sentence, places and buttons. Low, it is one line; else each lane is a button that selects its run."""

    chosen = Signal(str)

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._appearance = appearance
        self._low = self.rests = False
        self.entries: tuple[RaceEntry, ...] = ()
        self._sentence = ""
        self.title = label("", "strong")
        self.sentence = Elided("", "body", "2")
        self.pause = Button(appearance, "Pause", "", "pause", "Pause the run that trains; the others wait for it")
        self.order = IconButton(appearance, "dots", "Order of the sweep", "When the waiting runs of this sweep start")
        self.order.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.order)
        self.first = menu.addAction("Start this sweep before all other waiting runs")
        self.last = menu.addAction("Let all other waiting runs go first")
        self.order.setMenu(menu)
        self.end = Button(appearance, "Cancel the sweep", "danger", "stop", "Stop its runs; it can be continued later")
        self.go_on = Button(
            appearance, "Continue sweep", "", "play", "Do what is left of this sweep; nothing runs twice"
        )
        self.close_button = IconButton(appearance, "cross", "Hide this line", "Hide this line; the runs stay", size=14)
        self.chips: list[Button] = []
        self._area = QWidget()
        self._grid = QGridLayout(self._area)
        self._grid.setContentsMargins(0, 0, 6, 2)
        self._grid.setHorizontalSpacing(_GAP)
        self._grid.setVerticalSpacing(4)
        head = row(self.title, self.sentence, self.pause, self.go_on, self.end, self.order, self.close_button)
        column(head, self._area, gap=4, margins=(14, 5, 8, 6), parent=self)
        self.allow()
        self.hide()

    def allow(self, *, going: bool = False, rests: bool = False, waits: bool = False, left: bool = False) -> None:
        """Offers what can be done: runs are ``going``, of which one ``rests`` (is paused), and others ``wait`` in this
        computer's queue; something is ``left`` to be continued."""
        self.rests = rests
        self.pause.set_words("Resume" if rests else "Pause")
        self.pause.set_glyph("play" if rests else "pause")
        self.pause.setVisible(going)
        self.order.setVisible(waits)
        self.end.setVisible(going)
        self.go_on.setVisible(left and not going)

    def show_study(self, title: str, sentence: str, entries: Sequence[RaceEntry] = ()) -> None:
        """Shows how it goes, with the lanes of a race, the leader first. Cheap when nothing changed."""
        if (title, sentence, tuple(entries)) == (self.title.text(), self._sentence, self.entries):
            return
        self.title.setText(title)
        self._sentence, self.entries = sentence, tuple(entries)
        self._fill()

    def make_room(self, low: bool) -> None:
        """Uses a single line if the plots need the height."""
        if low != self._low:
            self._low = low
            self._fill()

    def _fill(self) -> None:
        places = "; ".join(entry.words for entry in self.entries)
        self.sentence.set_text(places if self._low and places else self._sentence)
        self._area.setVisible(bool(places) and not self._low)
        self.setAccessibleName(f"{self.title.text()}: {places or self._sentence}")
        while len(self.chips) < len(self.entries):
            self._add_chip()
        for number, chip in enumerate(self.chips):
            chip.setVisible(number < len(self.entries))
            if number < len(self.entries):
                self._show(chip, self.entries[number])
        self._arrange()

    def _add_chip(self) -> None:
        chip = Button(self._appearance, "", "chip")
        chip.setParent(self)  # shown without a parent it would be a window of its own
        chip.setIconSize(_SWATCH)
        chip.setMinimumWidth(60)
        number = len(self.chips)
        chip.clicked.connect(lambda: self.chosen.emit(self.entries[number].run))
        self.chips.append(chip)

    def _show(self, chip: Button, entry: RaceEntry) -> None:
        result = entry.result.removeprefix("best ")  # the sentence says that it is the best
        chip.set_words(f"{entry.place or '–'}  {entry.name}   {result}", f"Select this run: {entry.words}")
        chip.setAccessibleName(entry.words)
        chip.setIcon(self._appearance.swatch(entry.index))
        chosen = chip.font()
        chosen.setWeight(QFont.Weight.DemiBold if entry.selected else QFont.Weight.Normal)
        chip.setFont(chosen)

    def _arrange(self) -> None:
        used = self.chips[: len(self.entries)]
        wide = max((chip.sizeHint().width() + _GAP for chip in used), default=0)
        across = max((self.width() - _EDGES) // max(wide, _CHIP), 1)
        for number, chip in enumerate(self.chips):
            self._grid.addWidget(chip, number // across, number % across)
        for place in range(self._grid.columnCount()):
            self._grid.setColumnStretch(place, 1 if place < across else 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Puts as many chips beside each other as can be read."""
        super().resizeEvent(event)
        self._arrange()

    def retheme(self) -> None:
        """Tint the swatches again."""
        for chip, entry in zip(self.chips, self.entries, strict=False):
            chip.setIcon(self._appearance.swatch(entry.index))

    def minimumSizeHint(self) -> QSize:
        """Lets the bar become narrow."""
        return QSize(320, super().minimumSizeHint().height())
