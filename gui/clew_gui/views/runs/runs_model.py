"""The runs of one exercise as a table model: a Python list that sorts itself, no proxy."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QIcon

from clew_gui.base.state_words import NONE, STATE_WORDS
from clew_gui.session.runs import RunModel
from clew_gui.study.ranking import headline_metric
from clew_gui.study.usage import USAGE, usage_results
from clew_gui.views.presentation import words
from clew_gui.views.theme.icons import state_style
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import font
from clew_shared.base.harmless import for_tooltip
from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.params import BATCH_SIZE, HEADLINE, LEARNING_RATE, Value
from clew_shared.run_settings import Facts, label_of, setting_words, settings_of

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
_MANY = 100
"""More new rows than a study starts at once."""
ROW_HEIGHT = 30
HEAD_HEIGHT = 28


Cell = tuple[str, float | str]
"""A text that is ready to read, and what the column is sorted by."""


class RunRow(msgspec.Struct, frozen=True):
    """One run as the table shows it, with a cell for each column by its key."""

    id: str
    number: int
    index: int
    state: str
    cells: dict[str, Cell]
    reached: bool = False
    data: str = ""
    shown: bool = False
    pinned: bool = False

    def text(self, key: str) -> str:
        """The text in a column; empty for one that was added since."""
        return self.cells[key][0] if key in self.cells else ""


class TableColumn(msgspec.Struct, frozen=True):
    """A column: its key, heading, alignment and the width it wants, in characters of the table's font."""

    key: str
    title: str
    right: bool
    chars: int


COLUMNS = (
    TableColumn("run", "Run", False, 0),
    TableColumn("state", "State", False, 28),
    TableColumn("optimizer", "Optimizer", False, 10),
    TableColumn("rate", "Rate", True, 8),
    TableColumn("best", "Best", True, 11),
    TableColumn("batch", "Batch", True, 6),
    TableColumn("data", "Data", False, 9),
    TableColumn("delta", "To baseline", True, 11),
    TableColumn("time", "Time", True, 6),
    TableColumn("where", "Where", False, 13),
)


def added(key: str, title: str, number: bool) -> TableColumn:
    """A column that a person added."""
    return TableColumn(key, title, number, min(max(len(title) + 2, 8 if number else 12), 22))


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

    def __init__(self, appearance: Appearance, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._appearance = appearance
        self._rows: list[RunRow] = []
        self.columns: tuple[TableColumn, ...] = COLUMNS
        self.sorting = ("run", True)
        """The column that rows are sorted by, and whether downwards."""

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
            if self.sorting[0] not in {one.key for one in columns}:
                self.sorting = ("run", True)
            self.endResetModel()

    def _insert(self, new: RunRow) -> None:
        key, down = self.sorting
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
        key, down = self.sorting
        return sorted(rows, key=lambda row: _sort_key(row, key), reverse=down)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; selections move with their rows."""
        if column < 0:
            return
        self.sorting = (self.columns[column].key, order is Qt.SortOrder.DescendingOrder)
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
        (key, down), column = self.sorting, self.columns[section]
        return f"{column.title} {'↓' if down else '↑'}" if column.key == key else column.title

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns what the cell says and looks like; the check of the first column."""
        row = self.row_at(index.row())
        if row is None:
            return None
        column = self.columns[index.column()]
        key, text = column.key, row.text(column.key)
        match Qt.ItemDataRole(role):
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return text
            case Qt.ItemDataRole.ToolTipRole if key == "run":
                return "Show or hide this run in the plots (Space)"
            case Qt.ItemDataRole.ToolTipRole:
                return for_tooltip(f"{text}\nData: {row.data}" if key == "state" else text)
            case Qt.ItemDataRole.TextAlignmentRole:
                return _alignment(column)
            case Qt.ItemDataRole.CheckStateRole if key == "run":
                return (Qt.CheckState.Checked if row.shown else Qt.CheckState.Unchecked).value
            case Qt.ItemDataRole.FontRole if key == "run":
                return font("strong")
            case Qt.ItemDataRole.ForegroundRole if key == "state" or text == NONE:
                return QColor(self._appearance.theme.colour(state_style(row.state).ink if text != NONE else "text3"))
            case Qt.ItemDataRole.DecorationRole:
                return self._icon(key, row)
        return None

    def _icon(self, key: str, row: RunRow) -> QIcon | None:
        if key == "run":
            return self._appearance.swatch(row.index, row.pinned)
        if key == "state":
            style = state_style(row.state)
            return self._appearance.icon(style.icon, self._appearance.theme.colour(style.ink))
        return self._appearance.icon("check", self._appearance.theme.ok) if key == "best" and row.reached else None

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
    value = row.cells[key][1] if key in row.cells else ""
    if isinstance(value, str):
        return (1, 0.0, value.lower(), row.number)
    return (0, -math.inf if math.isnan(value) else value, "", row.number)


# --- Added columns ----------------------------------------------------------------------------------------------------


NOTED = {"tags": "Tags", "note": "Note"}
_PLACED = ("seed", "preset", "strategy", "devices", "nodes", "precision")
_USUAL = (*HEADLINE, BATCH_SIZE)
"""Settings that have a column anyway."""
Best = Callable[[MetricSpec, RunModel], float | None]


def more_columns(card: ExerciseCard) -> dict[str, str]:
    """Columns that may be added for runs of this exercise: names, and headings."""
    params = {param.name: param.label for param in card.params if param.name not in _USUAL}
    placed = {name: label_of(name) for name in _PLACED}
    metrics = {metric.name: metric.label for metric in card.metrics}
    return NOTED | params | placed | metrics | {name: one.heading for name, one in USAGE.items()}


def unused_columns(card: ExerciseCard) -> dict[str, bool]:
    """The usual columns that would be empty for every run of this exercise, as ones that nobody shows."""
    params = {param.name for param in card.params}
    there = dict(zip(("optimizer", "rate", "batch"), (name in params for name in _USUAL), strict=True))
    return {name: False for name, has in (there | {"data": bool(card.datasets)}).items() if not has}


def is_number(card: ExerciseCard, name: str) -> bool:
    """Whether a column's values are numbers, which are aligned to the right."""
    numbers = {"seed", "devices", "nodes", *(param.name for param in card.params if param.type.number)}
    return name in numbers or name in USAGE or words.metric_of(card, name) is not None


def number(value: object) -> float:
    """What a column of numbers is sorted by: NaN for what is missing."""
    return float(value) if isinstance(value, int | float) else math.nan


def cells(card: ExerciseCard, run: RunModel, names: Iterable[str], best: Best) -> dict[str, Cell]:
    """What added columns say of a run, by name."""
    values = settings_of(run.spec, card)
    return {name: _cell(card, run, name, values, best) for name in names}


def _cell(card: ExerciseCard, run: RunModel, name: str, values: Mapping[str, Value], best: Best) -> Cell:
    metric = words.metric_of(card, name)
    if metric is not None:
        result = _result(metric, run, best)
        return words.metric_value(metric, result), number(result)
    if name in USAGE:
        used = usage_results(run.history).get(name)
        return USAGE[name].words(used) if used is not None else NONE, number(used)
    noted = {"tags": " ".join(f"#{tag}" for tag in run.note.tags), "note": run.note.note.replace("\n", " ")}
    text = noted[name] if name in noted else setting_words(name, values.get(name), card) or NONE
    return text, number(values.get(name)) if is_number(card, name) else text


def _result(metric: MetricSpec, run: RunModel, best: Best) -> float | None:
    """The best value, the last one where neither side is better."""
    return best(metric, run) if metric.better != "none" else run.history.last(metric.name)


# --- Filter -----------------------------------------------------------------------------------------------------------


_TITLED = {"rate": LEARNING_RATE, "batch": BATCH_SIZE}
"""Settings by the titles of their columns; those of other columns are written like their names."""


def known_names(card: ExerciseCard) -> set[str]:
    """Returns the names that a filter over runs of this exercise may use."""
    strategies = {option.name for one in card.strategies for option in one.params}
    own = {param.name for param in card.params} | {metric.name for metric in card.metrics}
    return own | strategies | USAGE.keys() | {*_PLACED, "data", *_TITLED, "run", "best", "time", "where"}


def facts(card: ExerciseCard, run: RunModel, best: Best) -> Facts:
    """A run as the filter sees it."""
    values = settings_of(run.spec, card)
    results: dict[str, Value] = {}
    for metric in card.metrics:
        value = _result(metric, run, best)
        if value is not None:
            results[metric.name] = value
    name, state, note = words.name_of(run), STATE_WORDS[run.state], run.note
    shown = (setting_words(param.name, values.get(param.name), card) for param in card.params if param.choices)
    texts = [str(run.number), name, note.note, *note.tags, state, run.where, *shown, *map(str, values.values())]
    known: dict[str, Value] = {"name": name, "note": note.note, "state": state, "number": run.number}
    known |= {"study": run.spec.study, "exercise": run.spec.exercise}
    headline = headline_metric(card)
    titled = {title: values[key] for title, key in _TITLED.items() if key in values}
    titled |= {"run": run.number, "time": run.history.fold.seconds, "where": run.where}
    titled |= {"best": results[headline.name]} if headline is not None and headline.name in results else {}
    found = titled | values | usage_results(run.history) | results | known
    return Facts(words=" ".join(texts), values=found, tags=note.tags)
