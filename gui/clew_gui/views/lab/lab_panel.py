"""The left panel: the lab's progress, a search field, and the exercises in their chapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QPersistentModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHeaderView, QLineEdit, QToolButton, QTreeWidget, QTreeWidgetItem, QWidget

from clew_gui.views.presentation.words import WAITS
from clew_gui.views.theme.icons import icon
from clew_gui.views.theme.parts import Appearance, Elided, IconButton, ProgressBar, column, label, native_keys, row
from clew_gui.views.theme.theme import font
from clew_shared.base.harmless import for_tooltip
from clew_shared.cards import Catalogue, ExerciseCard

Tick = Literal["todo", "part", "done", "broken", "reading"]
Index = QModelIndex | QPersistentModelIndex

_TICKS: Mapping[Tick, tuple[str, str, str]] = {
    "todo": ("s_todo", "border", "not started"),
    "part": ("s_part", "accent", "started"),
    "done": ("s_done", "ok", "goals reached"),
    "broken": ("s_failed", "bad", "cannot be loaded"),
    "reading": ("clock", "text3", "being read"),
}
_PROGRESS = Qt.ItemDataRole.UserRole + 1
_ID = Qt.ItemDataRole.UserRole + 2
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ExerciseProgress(msgspec.Struct, frozen=True):
    """Says how far someone is with an exercise: the tick's shape and the best value in words."""

    tick: Tick = "todo"
    best: str = ""


def unusable(card: ExerciseCard) -> Tick | None:
    """The tick of an exercise that cannot run, even if only for now; None if it can."""
    if card.problem is None:
        return None
    return "reading" if card.problem.code in WAITS else "broken"


class ExerciseTree(QTreeWidget):
    """Chapters and their exercises. Enter or a click opens one; the arrow keys fold chapters."""

    opened = Signal(str)

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self._opened = ""
        self.about: Mapping[str, str] = {}
        """What a course says of its lessons, by title."""
        self._arranged = False
        self._broken: set[str] = set()
        """The files that cannot be loaded."""
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setColumnCount(2)
        self.setHeaderHidden(True)
        self.header().setStretchLastSection(False)
        self.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.setIndentation(0)
        self.setIconSize(QSize(16, 16))
        self.setExpandsOnDoubleClick(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Exercises")
        self.itemClicked.connect(self._clicked)
        self.itemExpanded.connect(self._dress)
        self.itemCollapsed.connect(self._dress)
        self.currentItemChanged.connect(lambda item, _before: self._came_to(item))

    def fill(self, catalogue: Catalogue) -> None:
        """Show the cards of a catalogue, chapters in its order; those that were folded stay so, but for one in which a
        file has just broken."""
        folded = {head.text(0) for head in self._heads() if not head.isExpanded()}
        before, broken = self._broken, {card.file for card in catalogue.exercises if unusable(card) == "broken"}
        self._broken = broken
        self.clear()
        for title in _chapters(catalogue):
            head = QTreeWidgetItem([title])
            head.setTextAlignment(1, _RIGHT)
            head.setToolTip(0, for_tooltip(self.about.get(title, "")))
            self.addTopLevelItem(head)
            cards = [card for card in catalogue.exercises if (card.chapter or "Exercises") == title]
            for card in cards:
                head.addChild(_exercise_item(card))
            head.setExpanded(title not in folded or any(card.file in broken - before for card in cards))
        self.retheme()

    def exercise_ids(self) -> list[str]:
        """Returns all exercises in the order shown, folded or not, regardless of the search."""
        return [str(item.data(0, _ID)) for item in self._exercises()]

    def select(self, exercise: str) -> None:
        """Mark one as open; its chapter unfolds."""
        self._opened = exercise
        for item in self._exercises():
            if item.data(0, _ID) == exercise:
                self.expand(self.indexFromItem(item).parent())
                self.setCurrentItem(item)
            item.setSelected(item.data(0, _ID) == exercise)
            self._dress(item)
        self._arrange()

    def selectionCommand(self, _index: Index, _event: QEvent | None = None) -> QItemSelectionModel.SelectionFlag:
        """Leaves the open exercise marked, wherever the keyboard moves."""
        return QItemSelectionModel.SelectionFlag.NoUpdate

    def _dress(self, item: QTreeWidgetItem) -> None:
        """Gives a chapter its arrow, an exercise its tick, and both their fonts and colours."""
        theme, found = self._appearance.theme, item.data(0, _PROGRESS)
        if isinstance(found, ExerciseProgress):
            shape, ink, _ = _TICKS[found.tick]
            item.setIcon(0, self._appearance.icon(shape, theme.colour(ink)))
            item.setFont(0, font("strong" if item.isSelected() else "body"))
        else:
            item.setIcon(0, self._appearance.icon("down" if item.isExpanded() else "right", theme.text3))
            item.setFont(0, font("section"))
            item.setForeground(0, QColor(theme.text2))
        item.setFirstColumnSpanned(item.parent() is not None and not item.text(1))
        item.setFont(1, font("caption"))
        item.setForeground(1, QColor(theme.text2 if item.parent() is not None else theme.text3))

    def _arrange(self) -> None:
        """Folds the other chapters once, if not all exercises fit: later nothing moves under the pointer by itself."""
        if self._arranged or not self._opened or not self.isVisible():
            return
        self._arranged = True
        heads = self._heads()
        high = sum(self.sizeHintForIndex(self.indexFromItem(head)).height() for head in heads)
        high += sum(self.sizeHintForIndex(self.indexFromItem(one)).height() for one in self._exercises())
        if high > self.viewport().height():
            for head in heads:
                head.setExpanded(any(child.data(0, _ID) == self._opened for child in _children(head)))

    def showEvent(self, event: QShowEvent) -> None:
        """Folds other chapters, because the available space is known only now."""
        super().showEvent(event)
        self._arrange()

    def show_progress(self, progress: Mapping[str, ExerciseProgress]) -> None:
        """Shows ticks and best values; only what changed is painted."""
        for item in self._exercises():
            found = progress.get(str(item.data(0, _ID)))
            if found is None or item.data(0, _PROGRESS) == found:
                continue
            item.setData(0, _PROGRESS, found)
            item.setFirstColumnSpanned(not found.best)  # before its text, or the column does not make room for it
            item.setText(1, found.best)
            self._dress(item)
            words = ", ".join(part for part in (item.text(0), _TICKS[found.tick][2], found.best) if part)
            item.setData(0, Qt.ItemDataRole.AccessibleTextRole, words)
        for head in self._heads():
            self._count(head)

    def _count(self, head: QTreeWidgetItem) -> None:
        found = [item.data(0, _PROGRESS) for item in _children(head)]
        done = sum(isinstance(progress, ExerciseProgress) and progress.tick == "done" for progress in found)
        text = f"{done} of {len(found)}"
        if head.text(1) != text:
            head.setText(1, text)
            head.setData(0, Qt.ItemDataRole.AccessibleTextRole, f"Chapter {head.text(0)}, {text} done")

    def search(self, text: str) -> bool:
        """Show only the exercises in whose title, id or chapter all the words begin a word; where there is none, those
        that hold them anywhere. Returns whether there is one."""
        wanted, heads = [word.replace("-", " ") for word in text.lower().split()], self._heads()
        places = {
            item.data(0, _ID): f" {item.text(0)} {item.data(0, _ID)} {head.text(0)}".lower().replace("-", " ")
            for head in heads
            for item in _children(head)
        }
        begin = {name for name, place in places.items() if all(f" {word}" in place for word in wanted)}
        found = begin or {name for name, place in places.items() if all(word in place for word in wanted)}
        for head in heads:
            for item in _children(head):
                item.setHidden(item.data(0, _ID) not in found)
            head.setHidden(all(item.isHidden() for item in _children(head)))
            if wanted:
                head.setExpanded(True)
        return bool(found) or not wanted

    def open_first(self) -> None:
        """Open the first exercise that the search left."""
        for item in self._exercises():
            if not item.isHidden():
                self.setCurrentItem(item)
                return

    def _exercises(self) -> list[QTreeWidgetItem]:
        return [item for head in self._heads() for item in _children(head)]

    def _heads(self) -> list[QTreeWidgetItem]:
        found = (self.topLevelItem(number) for number in range(self.topLevelItemCount()))
        return [head for head in found if head is not None]

    def _clicked(self, item: QTreeWidgetItem) -> None:
        if item.data(0, _ID) is None:
            item.setExpanded(not item.isExpanded())

    def _came_to(self, item: QTreeWidgetItem | None) -> None:
        if item is not None and item.data(0, _ID) is not None:
            self.opened.emit(str(item.data(0, _ID)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Lets Enter fold a chapter as well."""
        item = self.currentItem()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and item is not None:
            self._clicked(item)
            return
        super().keyPressEvent(event)

    def retheme(self) -> None:
        """Gives every row the colours of the theme."""
        for item in (*self._heads(), *self._exercises()):
            self._dress(item)


def _children(head: QTreeWidgetItem) -> list[QTreeWidgetItem]:
    found = (head.child(number) for number in range(head.childCount()))
    return [item for item in found if item is not None]


def _exercise_item(card: ExerciseCard) -> QTreeWidgetItem:
    item = QTreeWidgetItem([card.title])
    item.setTextAlignment(1, _RIGHT)
    item.setData(0, _ID, card.id)
    item.setData(0, _PROGRESS, ExerciseProgress(unusable(card) or "todo"))
    item.setToolTip(0, for_tooltip(card.problem.text if card.problem is not None else card.summary or card.subtitle))
    item.setData(0, Qt.ItemDataRole.AccessibleTextRole, card.title)
    return item


def _chapters(catalogue: Catalogue) -> Sequence[str]:
    """The chapters that have exercises, in the catalogue's order, others after them."""
    used = dict.fromkeys(card.chapter or "Exercises" for card in catalogue.exercises)
    return [name for name in catalogue.chapters if name in used] + [n for n in used if n not in catalogue.chapters]


class SearchEdit(QLineEdit):
    """The search field; Escape clears it."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Clears the search with Escape; in an empty field Escape is left to others."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        else:
            super().keyPressEvent(event)


class LabPanel(QWidget):
    """Progress, search and tree."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._appearance = appearance
        self.tree = ExerciseTree(appearance)
        self.done = label("", "caption", "3")
        self._bar = ProgressBar("Exercises with all goals reached")
        self._bar.setProperty("role", "ok")
        self.search = SearchEdit()
        self.search.setProperty("role", "search")
        self.search.setPlaceholderText("Find an exercise")
        self.search.setAccessibleName("Find an exercise")
        self.search.setToolTip(native_keys("Find an exercise (Ctrl+K)"))
        self.search.setClearButtonEnabled(True)
        self._glass = self.search.addAction(
            icon("search", appearance.theme, appearance.theme.text3), QLineEdit.ActionPosition.LeadingPosition
        )
        for button in self.search.findChildren(QToolButton):  # Qt makes them, for the glass and for clearing
            button.setAccessibleName("Clear the search" if button.toolTip() else "Search")
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.search.textChanged.connect(self._search)
        self.none = label("", "body", "2", wrap=True)
        self.none.setContentsMargins(16, 4, 16, 4)
        self.none.hide()
        self.search.returnPressed.connect(self._open_found)
        self.fold = IconButton(appearance, "left", "Hide the exercises", "Hide the exercises (F9)", size=12)
        self._title = Elided("Deep learning lab", "strong")
        title = row(self._title, self.done, self.fold, gap=4)
        head = column(title, self._bar, 2, self.search, gap=8, margins=(16, 10, 10, 6))
        body = row(self.tree, margins=(8, 0, 8, 0))
        column(head, self.none, body, gap=0, grows=body, parent=self)

    def show_course(self, title: str) -> None:
        """Say which course is followed; empty for none."""
        self._title.set_text(title or "Deep learning lab")

    def _search(self, text: str) -> None:
        found = self.tree.search(text)
        self.none.setText("" if found else f"No exercise matches “{text.strip()}”. Esc shows all.")
        self.none.setVisible(not found)

    def _open_found(self) -> None:
        """Opens the first exercise that was found, and lists all again."""
        self.tree.open_first()
        self.search.clear()

    def fill(self, catalogue: Catalogue) -> None:
        """Show a catalogue."""
        self.tree.fill(catalogue)
        self._search(self.search.text())
        self.show_progress({})

    def show_progress(self, progress: Mapping[str, ExerciseProgress], loading: bool = False) -> None:
        """Shows ticks, best values and the lab's own progress, which nobody knows while earlier runs are
        ``loading``."""
        self.tree.show_progress(progress)
        total = len(self.tree.exercise_ids())
        done = sum(found.tick == "done" for found in progress.values())
        self.done.setText("Loading…" if loading else f"{done} of {total}")
        self._bar.show_share(done, total)

    def retheme(self) -> None:
        """Tint the magnifying glass."""
        self._glass.setIcon(icon("search", self._appearance.theme, self._appearance.theme.text3))
