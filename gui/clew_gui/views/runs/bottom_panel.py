"""Below the work: the runs table and the log, folded to its head on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QPointF, Qt, Signal
from PySide6.QtWidgets import QMenu, QStackedWidget, QTabBar, QWidget

from clew_gui.views.presentation.menu_entries import QUEUE_DEEDS, MenuActions
from clew_gui.views.runs.runs_model import RunsModel
from clew_gui.views.theme.parts import Appearance, IconButton, column, label, row, tab_from
from clew_gui.views.theme.theme import font

if TYPE_CHECKING:
    from clew_gui.views.runs.log_panel import LogPanel
    from clew_gui.views.runs.runs_table import RunsTable

HEAD = 42
_EMPTY = "Your runs will be listed here, each with its settings, so that any two can be compared."


class BottomPanel(QWidget):
    """Tabs *Runs* and *Log*, the actions on the selected run, and a fold."""

    chosen = Signal(str)
    """This run is to be looked at."""
    remove_asked = Signal()
    fold_asked = Signal()
    export_asked = Signal()
    log_shown = Signal()
    filled = Signal()
    """Runs came, or the last one went."""

    def __init__(self, look: Appearance, actions: MenuActions) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._actions, self._look = actions, look
        self.model = RunsModel(self)
        self._table: RunsTable | None = None
        self._log: LogPanel | None = None
        self.tabs = QTabBar()
        self.tabs.setFont(font("strong"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setAccessibleName("Runs or log")
        self.tabs.addTab("Runs")
        self.tabs.setTabToolTip(self.tabs.addTab("Log"), "The log of the selected run (Ctrl+3)")
        self._count = label("", "caption", "3")
        self._export = IconButton(look, "export", "Export the table as CSV")
        self._export.clicked.connect(self.export_asked)
        self._more = IconButton(look, "dots", "Actions on the selected run")
        self._more.clicked.connect(
            lambda: self._menu_at(QPointF(self._more.mapToGlobal(QPoint(0, self._more.height()))))
        )
        self.fold = IconButton(look, "down", "Collapse the runs", "Collapse the runs to their header (F8)")
        self.fold.clicked.connect(self.fold_asked)
        head = row(self.tabs, self._count, None, self._export, self._more, self.fold, gap=8, margins=(16, 3, 10, 0))
        self._empty = label(_EMPTY, "body", "2", wrap=True)
        self._empty.setContentsMargins(16, 10, 16, 10)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.pages = QStackedWidget()
        self.pages.addWidget(self._empty)
        column(head, self.pages, gap=0, parent=self).setStretchFactor(self.pages, 1)
        self.tabs.currentChanged.connect(self._show_page)

    @property
    def table(self) -> RunsTable:
        """The page of the runs, made for the first of them."""
        if self._table is None:
            from clew_gui.views.runs.runs_table import RunsTable

            table = self._table = RunsTable(self._look, self.model)
            table.menu_asked.connect(self._menu_at)
            table.chosen.connect(self.chosen)
            table.remove_asked.connect(self.remove_asked)
            self.pages.addWidget(table)
            tab_from(self.fold, table)
        return self._table

    @property
    def log(self) -> LogPanel:
        """The log's page, made when it is looked at."""
        if self._log is None:
            from clew_gui.views.runs.log_panel import LogPanel

            self._log = LogPanel()
            self.pages.addWidget(self._log)
            tab_from(self._table or self.fold, self._log)
        return self._log

    def select(self, run: str) -> None:
        """Put the table's cursor on a run; nothing happens while there is none."""
        if self.model.rowCount():
            self.table.select(run)

    def shows_log(self) -> bool:
        """Whether the log can be seen."""
        return self._log is not None and self._log.isVisible()

    def _show_page(self, _tab: int = 0) -> None:
        if self.tabs.currentIndex() == 1:
            self.pages.setCurrentWidget(self.log)
            self.log_shown.emit()
        else:
            self.pages.setCurrentWidget(self.table if self.model.rowCount() else self._empty)

    def show_count(self) -> None:
        """How many runs there are, after rows came or went."""
        number = self.model.rowCount()
        words = f"{number} of this exercise" if number else ""
        if self._count.text() != words:
            self._count.setText(words)
            self.filled.emit()
        self._export.setEnabled(bool(number))
        self._more.setEnabled(bool(number))
        self._show_page()

    def recall(self, sorting: tuple[str, bool], log: bool) -> None:
        """As the window before was left."""
        self.model.recall(sorting)
        self.tabs.setCurrentIndex(int(log))

    def show_loading(self, loading: bool) -> None:
        """Earlier runs are being read, or no longer: until then nobody knows that there are none."""
        self._empty.setText("Loading earlier runs…" if loading else _EMPTY)

    def bare(self) -> bool:
        """Whether there is nothing but the sentence about what will be here."""
        return not self.model.rowCount() and self.tabs.currentIndex() == 0

    def show_log(self) -> None:
        """Bring the log to the front."""
        self.tabs.setCurrentIndex(1)
        self.log.setFocus()

    def set_folded(self, folded: bool) -> None:
        """Only the head is left."""
        self.pages.setVisible(not folded)
        self.fold.set_glyph("up" if folded else "down")
        name = "Expand the runs" if folded else "Collapse the runs"
        self.fold.setAccessibleName(name)
        self.fold.setToolTip(f"{name} (F8)")

    def _menu_at(self, where: QPointF) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        if self._actions["unqueue"].isEnabled():
            menu.addActions([self._actions[name] for name in QUEUE_DEEDS])
            menu.addSeparator()
        for name in ("show", "pin", "reuse", "continue", "export_run", "remove"):
            menu.addAction(self._actions[name])
        menu.popup(where.toPoint())
