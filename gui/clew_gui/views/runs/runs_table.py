"""The table of runs: selects, ticks and removes them, with mouse and keyboard."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableView

from clew_gui.views.runs.runs_model import Index, RunRow, RunsModel, head_height, row_height

_CHECK, _BEFORE = 30, 96
"""Pixels at the left of a row that belong to its check, and to all that is around its number and name."""


class RunsTable(QTableView):
    """The runs of the open exercise. Space shows or hides one in the plots, Delete removes it."""

    chosen = Signal(str)
    columns_asked = Signal(QPointF)
    """Asks to choose columns, from a menu at this place of the screen."""
    remove_asked = Signal()
    menu_asked = Signal(QPointF)

    def __init__(self, model: RunsModel) -> None:
        super().__init__()
        self._runs = model  # PySide keeps no reference to a model
        self.setModel(model)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Runs of this exercise")
        self.setAccessibleDescription(
            "Space shows or hides the selected runs in the plots, Delete removes them. Control and Shift with Up or"
            " Down move a run that waits in the queue."
        )
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setIconSize(QSize(38, 16))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(
            lambda at: self.menu_asked.emit(QPointF(self.viewport().mapToGlobal(at)))
        )
        self._by_hand: dict[str, bool] = {}
        self._on_check = False
        """Whether the mouse was pressed on a check."""
        self._dress_heads()
        self.sortByColumn(0, Qt.SortOrder.DescendingOrder)
        self.setSortingEnabled(True)
        self.horizontalHeader().setSortIndicatorShown(False)  # the heading has the arrow
        model.modelReset.connect(self._size_columns)
        self.selectionModel().currentRowChanged.connect(self._came_to)

    def _dress_heads(self) -> None:
        side, head = self.verticalHeader(), self.horizontalHeader()
        side.hide()
        side.setDefaultSectionSize(row_height(self.fontMetrics().height()))
        side.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        head.setFixedHeight(head_height(self.fontMetrics().height()))
        head.setHighlightSections(False)
        head.setMinimumSectionSize(30)
        head.setStretchLastSection(True)
        head.setAccessibleName("Columns of the runs table")
        head.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        head.customContextMenuRequested.connect(lambda at: self.columns_asked.emit(QPointF(head.mapToGlobal(at))))
        self._size_columns()

    def _size_columns(self) -> None:
        digit = self.fontMetrics().horizontalAdvance("0")
        longest = max((len(row.text("run")) for row in self._runs.rows()), default=0)
        for number, column in enumerate(self._runs.columns):
            chars = column.chars or min(max(longest, 4), 34)
            self.setColumnWidth(number, digit * chars + (16 if number else _BEFORE))
            self.setColumnHidden(number, not self._by_hand.get(column.key, True))

    def choose_columns(self, by_hand: dict[str, bool]) -> None:
        """Sets which usual columns a person showed or hid."""
        self._by_hand = dict(by_hand)
        self._size_columns()

    def chosen_runs(self) -> list[str]:
        """The selected runs, from the top down."""
        places = sorted({index.row() for index in self.selectedIndexes()})
        return [row.id for place in places if (row := self._runs.row_at(place)) is not None]

    def select(self, run: str) -> None:
        """Put the cursor on a run, and select it alone, whatever keys are held: Ctrl+Enter starts runs."""
        place = self._runs.place(run)
        if place is not None and place != self.currentIndex().row():
            only = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
            self.selectionModel().setCurrentIndex(self._runs.index(place, 0), only)

    def current(self) -> str:
        """The run the cursor is on; empty for none."""
        row = self._runs.row_at(self.currentIndex().row())
        return row.id if row is not None else ""

    def _came_to(self, now: Index, _before: Index) -> None:
        row = self._runs.row_at(now.row())
        if row is not None:
            self.chosen.emit(row.id)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Shows or hides a run by a click on its check, and leaves the cursor where it is; elsewhere chooses the
        run."""
        row = self._ticked(event)
        self._on_check = row is not None
        if row is not None:
            self._runs.toggled.emit(row.id, not row.shown)
        else:
            super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Treats two quick clicks on a check as two clicks."""
        if self._ticked(event) is not None:
            self.mousePressEvent(event)
        else:
            super().mouseDoubleClickEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Keeps a check that was clicked from being clicked again by the delegate."""
        if not self._on_check:
            super().mouseReleaseEvent(event)

    def _ticked(self, event: QMouseEvent) -> RunRow | None:
        """The row whose check is under the pointer."""
        at = event.position().toPoint()
        index = self.indexAt(at)
        hit = index.column() == 0 and at.x() < self.visualRect(index).left() + _CHECK
        return self._runs.row_at(index.row()) if hit and event.button() == Qt.MouseButton.LeftButton else None

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Checks with Space from any column, all selected runs as the one at the cursor; Delete removes."""
        row = self._runs.row_at(self.currentIndex().row())
        if event.key() == Qt.Key.Key_Space and row is not None:
            for run in dict.fromkeys([row.id, *self.chosen_runs()]):
                self._runs.toggled.emit(run, not row.shown)
        elif event.key() == Qt.Key.Key_Delete and row is not None:
            self.remove_asked.emit()
        else:
            super().keyPressEvent(event)
