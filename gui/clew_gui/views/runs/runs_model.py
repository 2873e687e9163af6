"""The runs of one exercise as a table model: a Python list that sorts itself, no proxy."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from clew_gui.views.theme.theme import font
from clew_shared.base.harmless import for_tooltip

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
_MANY = 100
"""More new rows than a study starts at once."""
ROW_HEIGHT = 30
HEAD_HEIGHT = 28


class RunRow(msgspec.Struct, frozen=True):
    """One run as the table shows it. Texts are ready to read; ``keys`` sort the columns."""

    id: str
    number: int
    index: int
    state: str
    word: str
    detail: str
    optimizer: str
    rate: str
    batch: str
    best: str
    reached: bool
    time: str
    where: str
    data: str = ""
    name: str = ""
    delta: str = ""
    more: tuple[tuple[str, str], ...] = ()
    """Texts of columns that a person added, by name."""
    shown: bool = False
    pinned: bool = False
    keys: tuple[tuple[str, float | str], ...] = ()


class TableColumn(msgspec.Struct, frozen=True):
    """A column: its key, heading, alignment and the width it wants, in characters of the table's font."""

    key: str
    title: str
    right: bool
    chars: int
    text: Callable[[RunRow], str]


COLUMNS = (
    TableColumn("run", "Run", False, 11, lambda r: f"{r.number}{' ' + r.name if r.name else ''}"),
    TableColumn("state", "State", False, 0, lambda r: f"{r.word} {r.detail}".strip()),
    TableColumn("optimizer", "Optimizer", False, 15, lambda r: r.optimizer),
    TableColumn("rate", "Rate", True, 10, lambda r: r.rate),
    TableColumn("batch", "Batch", True, 6, lambda r: r.batch),
    TableColumn("data", "Data", False, 9, lambda r: r.data),
    TableColumn("best", "Best", True, 13, lambda r: r.best),
    TableColumn("delta", "To baseline", True, 13, lambda r: r.delta),
    TableColumn("time", "Time", True, 6, lambda r: r.time),
    TableColumn("where", "Where", False, 13, lambda r: r.where),
)
ROW_ROLE = Qt.ItemDataRole.UserRole + 1


def added(key: str, title: str, number: bool) -> TableColumn:
    """A column that a person added."""
    chars = max(len(title) + 2, 8 if number else 12)
    return TableColumn(key, title, number, min(chars, 22), lambda row: dict(row.more).get(key, ""))


def row_height(line: int) -> int:
    """Pixels of a row whose text is ``line`` high."""
    return max(ROW_HEIGHT, line + 12)


def head_height(line: int) -> int:
    """Pixels of the table's head above such rows."""
    return max(HEAD_HEIGHT, line + 10)


def table_height(rows: int, line: int) -> int:
    """Pixels of a table that shows so many rows."""
    return head_height(line) + rows * row_height(line)


class RunsModel(QAbstractTableModel):
    """Newest run first until a heading is clicked. ``toggled`` asks to show or hide a run in the plots."""

    toggled = Signal(str, bool)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[RunRow] = []
        self.columns: tuple[TableColumn, ...] = COLUMNS
        self._sort = ("run", True)

    # --- Content ------------------------------------------------------------------------------------------------------

    def set_rows(self, rows: Iterable[RunRow]) -> None:
        """Replaces all rows, when another exercise is opened."""
        self.beginResetModel()
        self._rows = self._sorted(rows)
        self.endResetModel()

    def update_rows(self, rows: Iterable[RunRow]) -> None:
        """Put rows in the place of those with the same id; unknown ones are added where they sort. For many of them, as
        when a window begins, the table is filled again, and the owner of the runs selects again."""
        places = {row.id: place for place, row in enumerate(self._rows)}
        added = []
        for new in rows:
            place = places.get(new.id)
            if place is None:
                added.append(new)
            elif self._rows[place] != new:
                self._rows[place] = new
                self.dataChanged.emit(self.index(place, 0), self.index(place, len(self.columns) - 1))
        if len(added) > _MANY:
            self.set_rows([*self._rows, *added])
            return
        for new in added:
            self._insert(new)

    def set_columns(self, more: Sequence[TableColumn]) -> None:
        """Show these columns after the usual ones; rows that follow bring their texts."""
        columns = (*COLUMNS, *more)
        if [one.key for one in columns] != [one.key for one in self.columns]:
            self.beginResetModel()
            self.columns = columns
            if self._sort[0] not in {one.key for one in columns}:
                self._sort = ("run", True)
            self.endResetModel()

    def sorting(self) -> tuple[str, bool]:
        """The column that rows are sorted by, and whether downwards."""
        return self._sort

    def recall(self, sorting: tuple[str, bool]) -> None:
        """Sort as in the window before; for a table that is not made yet."""
        if sorting[0] in {column.key for column in COLUMNS}:
            self._sort = sorting

    def _insert(self, new: RunRow) -> None:
        key, down = self._sort
        place = bisect(
            self._rows[::-1] if down else self._rows, _sort_key(new, key), key=lambda row: _sort_key(row, key)
        )
        place = len(self._rows) - place if down else place
        self.beginInsertRows(_NOWHERE, place, place)
        self._rows.insert(place, new)
        self.endInsertRows()

    def remove(self, run: str) -> None:
        """Take a row away."""
        place = self.place(run)
        if place is not None:
            self.beginRemoveRows(_NOWHERE, place, place)
            del self._rows[place]
            self.endRemoveRows()

    def place(self, run: str) -> int | None:
        """The row number of a run."""
        return next((n for n, row in enumerate(self._rows) if row.id == run), None)

    def row_at(self, number: int) -> RunRow | None:
        """The row at a row number."""
        return self._rows[number] if 0 <= number < len(self._rows) else None

    def rows(self) -> Sequence[RunRow]:
        """Returns all rows as shown."""
        return tuple(self._rows)

    # --- Sorting ------------------------------------------------------------------------------------------------------

    def _sorted(self, rows: Iterable[RunRow]) -> list[RunRow]:
        key, down = self._sort
        return sorted(rows, key=lambda row: _sort_key(row, key), reverse=down)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; selections move with their rows."""
        if column < 0:
            return
        self._sort = (self.columns[column].key, order is Qt.SortOrder.DescendingOrder)
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        ids = [self._rows[index.row()].id for index in before]
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)
        self._rows = self._sorted(self._rows)
        places = {row.id: number for number, row in enumerate(self._rows)}
        after = [self.index(places[run], index.column()) for run, index in zip(ids, before, strict=True)]
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # --- Qt's side ----------------------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        """Returns the number of runs."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _NOWHERE) -> int:
        """Returns the number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns the headings."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._heading(section)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(self.columns[section])
        if role == Qt.ItemDataRole.FontRole:  # said by the model, because a style sheet takes a header's own font away
            return font("caption")
        return None

    def _heading(self, section: int) -> str:
        """The title, of the column that is sorted with an arrow: Qt's own is painted over text at the right."""
        (key, down), column = self._sort, self.columns[section]
        return f"{column.title} {'↓' if down else '↑'}" if column.key == key else column.title

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns the texts; the whole row for the painter; the check of the first column."""
        row = self.row_at(index.row())
        if row is None:
            return None
        column = self.columns[index.column()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return column.text(row)
        if role == Qt.ItemDataRole.ToolTipRole:
            if column.key == "run":
                return "Show or hide this run in the plots (Space)"
            text = column.text(row)
            return for_tooltip(f"{text}\nData: {row.data}" if column.key == "state" else text)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        if role == Qt.ItemDataRole.CheckStateRole and column.key == "run":
            return (Qt.CheckState.Checked if row.shown else Qt.CheckState.Unchecked).value
        return row if role == ROW_ROLE else None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        """The check: show or hide in the plots. The owner of the runs decides and updates the row."""
        row = self.row_at(index.row())
        if role != Qt.ItemDataRole.CheckStateRole or row is None:
            return False
        self.toggled.emit(row.id, Qt.CheckState(value) is Qt.CheckState.Checked)
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Rows can be selected; the first column can be checked."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return flags | Qt.ItemFlag.ItemIsUserCheckable if index.column() == 0 else flags


def _alignment(column: TableColumn) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.right else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def _sort_key(row: RunRow, key: str) -> tuple[int, float, str, int]:
    """Numbers before texts, missing values (NaN) first, the run's number when equal."""
    value = dict(row.keys).get(key, float(row.number) if key == "run" else "")
    if isinstance(value, str):
        return (1, 0.0, value.lower(), row.number)
    return (0, -math.inf if math.isnan(value) else value, "", row.number)
