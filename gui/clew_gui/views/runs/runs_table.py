"""The runs table: paints state shapes, swatches and checks; folds columns away when it is narrow."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from clew_gui.views.runs.runs_model import ROW_ROLE, Index, RunRow, RunsModel, head_height, row_height
from clew_gui.views.theme.icons import pixmap, state_style
from clew_gui.views.theme.parts import Appearance, draw_swatch
from clew_gui.views.theme.theme import FontKind, font

_FIRST_TO_GO = ("batch", "where", "time", "data", "delta")
"""The columns to hide first, in this order. Optimizer and rate stay: they distinguish most runs."""
_PAD = 10


class RunsTable(QTableView):
    """The runs of the open exercise. Space shows or hides one in the plots, Delete removes it."""

    chosen = Signal(str)
    columns_asked = Signal(QPointF)
    """Asks to choose columns, from a menu at this place of the screen."""
    remove_asked = Signal()
    menu_asked = Signal(QPointF)

    def __init__(self, appearance: Appearance, model: RunsModel) -> None:
        super().__init__()
        self._appearance, self._runs = appearance, model  # PySide keeps no reference to a model
        self.setModel(model)
        self.setItemDelegate(_CellPainter(self, appearance, model))
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
        self.setMouseTracking(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(
            lambda at: self.menu_asked.emit(QPointF(self.viewport().mapToGlobal(at)))
        )
        self._by_hand: dict[str, bool] = {}
        self._dress_heads()
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
        key, down = self._runs.sorting()
        order = Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder
        head.setSortIndicator(next((n for n, one in enumerate(self._runs.columns) if one.key == key), 0), order)
        head.setAccessibleName("Columns of the runs table")
        head.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        head.customContextMenuRequested.connect(lambda at: self.columns_asked.emit(QPointF(head.mapToGlobal(at))))
        self._size_columns()

    def _size_columns(self) -> None:
        head = self.horizontalHeader()
        for number, column in enumerate(self._runs.columns):
            if column.key == "state":
                head.setSectionResizeMode(number, QHeaderView.ResizeMode.Stretch)
            else:
                head.setSectionResizeMode(number, QHeaderView.ResizeMode.Interactive)
                self.setColumnWidth(number, self._width_of(column.chars))
        self._fold_columns()

    def choose_columns(self, by_hand: dict[str, bool]) -> None:
        """Sets which usual columns a person showed or hid; the others are shown while there is room."""
        self._by_hand = dict(by_hand)
        self._fold_columns()

    def chosen_runs(self) -> list[str]:
        """The selected runs, from the top down."""
        places = sorted({index.row() for index in self.selectedIndexes()})
        return [row.id for place in places if (row := self._runs.row_at(place)) is not None]

    def _width_of(self, chars: int) -> int:
        return round(QFontMetricsF(font()).horizontalAdvance("0") * chars) + 2 * _PAD - 6

    def _widest_name(self) -> int:
        """Returns the width that the names in the first column need, for at most 30 characters."""
        rows = (self._runs.row_at(place) for place in range(self._runs.rowCount()))
        names = max((len(row.name) for row in rows if row is not None), default=0)
        return self._width_of(11 + min(names, 30)) if names else 0

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

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hides the least important columns first if the state would be cut."""
        super().resizeEvent(event)
        self._fold_columns()

    def _fold_columns(self) -> None:
        room = self.viewport().width() - self._width_of(30)
        columns = [one for one in self._runs.columns if one.chars and self._by_hand.get(one.key, True)]
        keep = {column.key: self._width_of(column.chars) for column in columns}
        for key in _FIRST_TO_GO:
            if sum(keep.values()) > room and not self._by_hand.get(key):
                keep.pop(key, None)
        keep["run"] += max(0, min(self._widest_name() - keep["run"], round(room - sum(keep.values()))))
        self.setColumnWidth(0, keep["run"])
        for number, column in enumerate(self._runs.columns):
            if column.chars:
                self.setColumnHidden(number, column.key not in keep)
            elif column.key == "state":  # what does not fit is reached with the scroll bar
                narrow = sum(keep.values()) > room
                mode = QHeaderView.ResizeMode.Interactive if narrow else QHeaderView.ResizeMode.Stretch
                self.horizontalHeader().setSectionResizeMode(number, mode)
                if narrow:
                    self.setColumnWidth(number, self._width_of(26))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Shows or hides a run by a click on its check, and leaves the cursor where it is; elsewhere chooses the
        run."""
        row = self._ticked(event)
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

    def _ticked(self, event: QMouseEvent) -> RunRow | None:
        """The row whose check is under the pointer."""
        index = self.indexAt(event.position().toPoint())
        if event.button() != Qt.MouseButton.LeftButton or not index.isValid() or index.column() != 0:
            return None
        hit = _check_box(QRectF(self.visualRect(index))).adjusted(-8, -8, 8, 8)
        return self._runs.row_at(index.row()) if hit.contains(event.position()) else None

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

    def retheme(self) -> None:
        """Paint again."""
        self.viewport().update()


class _CellPainter(QStyledItemDelegate):
    """Paints ground, hairline and text itself: mixing with style sheet rules for items misaligns the padding."""

    def __init__(self, table: RunsTable, appearance: Appearance, model: RunsModel) -> None:
        super().__init__(table)
        self._appearance, self._table, self._runs_model = appearance, table, model

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints one cell."""
        row = index.data(ROW_ROLE)
        if not isinstance(row, RunRow):
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(option.rect)
        self._ground(painter, area, option, index)
        inner = area.adjusted(_PAD, 0, -_PAD, 0)
        column = self._runs_model.columns[index.column()]
        if column.key == "run":
            self._run(painter, area, row)
        elif column.key == "state":
            self._state(painter, inner, row, self._back(option))
        elif column.key == "best":
            self._best(painter, inner, row, self._back(option))
        else:
            self._text(painter, inner, column.text(row), "body", right=column.right)
        painter.restore()

    def _back(self, option: QStyleOptionViewItem) -> str:
        selected = option.state & QStyle.StateFlag.State_Selected
        return self._appearance.theme.accent_soft if selected else self._appearance.theme.surface

    def _ground(self, painter: QPainter, area: QRectF, option: QStyleOptionViewItem, index: Index) -> None:
        theme = self._appearance.theme
        painter.fillRect(area, QColor(self._back(option)))
        painter.setPen(QColor(theme.grid))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        here = self._table.currentIndex()
        if self._table.hasFocus() and here.isValid() and here.row() == index.row():
            painter.fillRect(QRectF(area.left(), area.top(), area.width(), 2), QColor(theme.accent))
            painter.fillRect(QRectF(area.left(), area.bottom() - 1, area.width(), 2), QColor(theme.accent))

    def _run(self, painter: QPainter, area: QRectF, row: RunRow) -> None:
        theme = self._appearance.theme
        self._check(painter, _check_box(area), row.shown)
        swatch = QRectF(area.left() + 32, area.top(), 20, area.height())
        if row.index >= 0:
            draw_swatch(painter, swatch, theme.curve(row.index))
        left = area.adjusted(59, 0, -4, 0)
        used = self._text(painter, left, str(row.number), "strong")
        if row.pinned:
            painter.drawPixmap(QPointF(left.left() + used + 6, left.center().y() - 7), pixmap("pin", theme.text2, 14))
            used += 20
        if row.name:
            self._text(painter, left.adjusted(used + 6, 0, 0, 0), row.name, "body")

    def _check(self, painter: QPainter, box: QRectF, on: bool) -> None:
        theme = self._appearance.theme
        painter.setPen(QPen(QColor(theme.accent if on else theme.border), 1))
        painter.setBrush(QColor(theme.accent if on else theme.surface))
        painter.drawRoundedRect(box, 4, 4)
        if on:
            painter.drawPixmap(box.topLeft(), pixmap("check", theme.on_accent, 14))

    def _state(self, painter: QPainter, area: QRectF, row: RunRow, back: str) -> None:
        theme, style = self._appearance.theme, state_style(row.state)
        shape = pixmap(style.icon, theme.colour(style.ink), 14, back)
        painter.drawPixmap(QPointF(area.left(), area.center().y() - 7), shape)
        used = self._text(painter, area.adjusted(21, 0, 0, 0), row.word, "strong", theme.colour(style.ink))
        self._text(painter, area.adjusted(29 + used, 0, 4, 0), row.detail, "body", theme.text2)

    def _best(self, painter: QPainter, area: QRectF, row: RunRow, back: str) -> None:
        self._text(painter, area.adjusted(0, 0, -19, 0), row.best, "body", right=True)
        if row.reached:
            mark = pixmap("check", self._appearance.theme.ok, 14, back)
            painter.drawPixmap(QPointF(area.right() - 14, area.center().y() - 7), mark)

    def _text(
        self, painter: QPainter, area: QRectF, text: str, kind: FontKind, ink: str = "", right: bool = False
    ) -> float:
        theme = self._appearance.theme
        used: QFont = font(kind)
        painter.setFont(used)
        painter.setPen(QColor(ink or (theme.text3 if text == "–" else theme.text)))
        metrics = QFontMetricsF(used)
        short = metrics.elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
        painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter, short)
        return metrics.horizontalAdvance(short)


def _check_box(area: QRectF) -> QRectF:
    return QRectF(area.left() + 11.5, area.center().y() - 7, 14, 14)
