"""Below the work: the runs table, the log and the details, folded to its head on request."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path

from PySide6.QtCore import QPoint, QPointF, Qt, Signal
from PySide6.QtWidgets import QMenu, QPlainTextEdit, QSizePolicy, QStackedWidget, QTabBar

from clew_gui.views.form.fields import text_field
from clew_gui.views.presentation.menu_entries import QUEUE_ACTIONS, MenuActions
from clew_gui.views.runs.details_panel import DetailsPanel
from clew_gui.views.runs.runs_model import COLUMNS, RunsModel
from clew_gui.views.runs.runs_table import RunsTable
from clew_gui.views.theme.parts import (
    Appearance,
    CodeText,
    Elided,
    IconButton,
    Panel,
    column,
    label,
    native_keys,
    row,
    set_role,
)
from clew_gui.views.theme.theme import font
from clew_shared.journal.events import Log

HEAD = 42
DETAILS = 2
FILTER_TIP = "Words, comparisons and tags; all must fit. For example: adam learning_rate > 0.01 #good -failed"
_EMPTY = "Your runs will be listed here, each with its settings, so that any two can be compared."


class BottomPanel(Panel):
    """Tabs *Runs* and *Log*, the actions on the selected run, and a fold."""

    column_toggled = Signal(str, bool)
    """Show or hide a column."""
    filled = Signal()
    """Emitted when runs came, or the last one went."""

    def __init__(self, appearance: Appearance, actions: MenuActions) -> None:
        super().__init__()
        self._actions = actions
        self.model = RunsModel(appearance, self)
        self._all = 0
        self.table, self.log, self.details = RunsTable(self.model), LogPanel(), DetailsPanel(appearance)
        self.table.menu_asked.connect(self._menu_at)
        self.table.columns_asked.connect(self._columns_at)
        self.table.selectionModel().selectionChanged.connect(lambda: actions.count(len(self.table.chosen_runs())))
        self.details.note.clicked.connect(actions["note"].trigger)
        self.tabs = QTabBar()
        self.tabs.setFont(font("strong"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setAccessibleName("Runs or log")
        self.tabs.addTab("Runs")
        self.tabs.setTabToolTip(self.tabs.addTab("Log"), native_keys("The log of the selected run (Ctrl+7)"))
        self.tabs.setTabToolTip(
            self.tabs.addTab("Details"), native_keys("Settings, data, node, software, hashes (Ctrl+Shift+I)")
        )
        self._offered: dict[str, str] = {}
        self._columns: dict[str, bool] = {}
        self._count = Elided("", "caption", "3")
        self._count.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._problem = ""
        self.filter = text_field("Filter the runs", "Filter the runs", FILTER_TIP)
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(300)
        self._choose = IconButton(appearance, "gear", "Choose columns")
        self._choose.clicked.connect(lambda: self._columns_at(_below(self._choose)))
        self.export = IconButton(appearance, "export", "Export the table as CSV")
        self._more = IconButton(appearance, "dots", "Actions on the selected run")
        self._more.clicked.connect(lambda: self._menu_at(_below(self._more)))
        self.fold = IconButton(appearance, "down", "Collapse the runs", "Collapse the runs to their header (F8)")
        buttons = (self._choose, self.export, self._more, self.fold)
        head = row(self.tabs, self._count, 4, self.filter, None, *buttons, gap=8, margins=(16, 3, 10, 0))
        self.empty = label(_EMPTY, "body", "2", wrap=True)
        self.empty.setContentsMargins(16, 10, 16, 10)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.pages = QStackedWidget()
        for page in (self.empty, self.table, self.log, self.details):
            self.pages.addWidget(page)
        column(head, self.pages, gap=0, grows=self.pages, parent=self)
        self.tabs.currentChanged.connect(self._show_page)

    def show_details(self) -> None:
        """Bring the details to the front."""
        self.tabs.setCurrentIndex(DETAILS)
        self.details.table.setFocus()

    # --- Columns and filter -------------------------------------------------------------------------------------------

    def offer_columns(self, more: dict[str, str], chosen: dict[str, bool]) -> None:
        """The columns that may be added, and which columns a person showed or hid."""
        self._offered, self._columns = dict(more), dict(chosen)
        self.table.choose_columns(self._columns)

    def _columns_at(self, where: QPointF) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for usual in COLUMNS[2:]:
            self._column_entry(menu, usual.key, usual.title, self._columns.get(usual.key, True))
        menu.addSeparator()
        for key, title in self._offered.items():
            self._column_entry(menu, key, title, self._columns.get(key, False))
        menu.popup(where.toPoint())

    def _column_entry(self, menu: QMenu, key: str, title: str, on: bool) -> None:
        entry = menu.addAction(title)
        entry.setCheckable(True)
        entry.setChecked(on)
        entry.toggled.connect(lambda on: self.column_toggled.emit(key, on))

    def refuse_filter(self, problem: str) -> None:
        """Say that the filter is not understood, and why, in place of the number of runs; empty: it is."""
        self._problem = problem
        set_role(self.filter, "bad" if problem else "", "state")
        set_role(self._count, "bad" if problem else "3", "tone")
        self.show_count(self._all)
        self.filter.setToolTip(problem or FILTER_TIP)
        self.filter.setAccessibleDescription(problem)

    def beside(self, runs: Collection[str]) -> str:
        """The run that follows the last of these in the table, else the one before the first; empty without any."""
        listed = [row.id for row in self.model.rows()]
        places = [place for place, run in enumerate(listed) if run in runs]
        after = listed[places[-1] + 1 :] if places else []
        return next(iter(after or listed[: places[0]][-1:]), "") if places else ""

    def select(self, run: str) -> None:
        """Put the table's cursor on a run; nothing happens while there is none."""
        if self.model.rowCount():
            self.table.select(run)

    def _show_page(self, _tab: int = 0) -> None:
        place = self.tabs.currentIndex()
        for widget in (self.filter, self._choose):
            widget.setVisible(place == 0 and not self.bare())
        if place == 1:
            self.pages.setCurrentWidget(self.log)
        elif place == DETAILS:
            self.pages.setCurrentWidget(self.details)
        else:
            self.pages.setCurrentWidget(self.empty if self.bare() else self.table)

    def show_count(self, of: int = 0) -> None:
        """Shows how many runs are listed, after rows were added or removed; ``of`` is their number without the
        filter."""
        self._all = of or self.model.rowCount()
        number = self.model.rowCount()
        words = f"{number} of {self._all} match" if number < self._all else f"{number} run{'' if number == 1 else 's'}"
        words = self._problem or (words if number else "")
        if self._count.whole() != words:
            self._count.set_text(words)
            self.filled.emit()
        self.export.setEnabled(bool(number))
        self._more.setEnabled(bool(number))
        self._show_page()

    def recall(self, sorting: tuple[str, bool], log: bool) -> None:
        """Restores the state that the last window left."""
        order = Qt.SortOrder.DescendingOrder if sorting[1] else Qt.SortOrder.AscendingOrder
        self.table.sortByColumn(next((n for n, one in enumerate(COLUMNS) if one.key == sorting[0]), 0), order)
        self.tabs.setCurrentIndex(int(log))

    def show_loading(self, loading: bool) -> None:
        """Shows that earlier runs are being loaded, or no longer: until then nobody knows that there are none."""
        self.empty.setText("Loading earlier runs…" if loading else _EMPTY)

    def bare(self) -> bool:
        """Whether there is nothing but the sentence about what will be here."""
        return not self.model.rowCount() and self.tabs.currentIndex() == 0 and not self.filter.text()

    def show_log(self) -> None:
        """Bring the log to the front."""
        self.tabs.setCurrentIndex(1)
        self.log.setFocus()

    def set_folded(self, folded: bool) -> None:
        """Folds the panel to its head, or unfolds it."""
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
            menu.addActions([self._actions[name] for name in QUEUE_ACTIONS])
            menu.addSeparator()
        for name in ("show", "pin", "note", "reuse", "continue", "try", "export_run", "export_board", "remove"):
            menu.addAction(self._actions[name])
        menu.popup(where.toPoint())


def _below(button: IconButton) -> QPointF:
    """The place of the screen where the menu of a button begins."""
    return QPointF(button.mapToGlobal(QPoint(0, button.height())))


# --- Log --------------------------------------------------------------------------------------------------------------


MOST_LINES = 5000
TAIL_BYTES = 64 * 1024
_LEVELS = {"warning": "warning: ", "error": "error: ", "debug": "", "info": ""}


def log_line(event: Log) -> str:
    """Returns one event as a line: "09:41:07  step 120  Learning rate is 0.1"."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.time)) if event.time else "        "
    step = f"step {event.step:,}  " if event.step else ""
    text = event.text or f"{event.stage}, {event.seconds:.2f} s"
    return f"{clock}  {step}{_LEVELS[event.level]}{text}"


def read_tail(path: Path, most: int = TAIL_BYTES) -> str:
    """The last ``most`` bytes of a text file, from the first whole line on; empty when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return ""
    text = data.decode("utf-8", errors="replace")
    return text if size <= most else text.partition("\n")[2]


class LogPanel(CodeText):
    """Read-only text: the journal's sentences, below them what the run's processes printed.

    It begins at its top for another run, and follows its end while someone looks at that.
    """

    def __init__(self) -> None:
        super().__init__("Log of the selected run")
        self.setMaximumBlockCount(MOST_LINES)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setPlaceholderText("The log of the selected run appears here.")
        self._run = ""
        self._shown = 0
        self._output: str | None = ""

    def show_run(self, run: str, events: Sequence[Log], output: str | None = "") -> None:
        """Show what is new; another run starts at the top. ``output`` is what its processes printed so far, None when
        that is not on this computer."""
        state = (run, len(events), output)
        if state == (self._run, self._shown, self._output):
            return
        bar = self.verticalScrollBar()
        place = bar.value() if run == self._run else 0
        follows = run == self._run and bar.maximum() > 0 and bar.value() == bar.maximum()
        self._run, self._shown, self._output = state
        self.setPlainText("\n".join((*map(log_line, events[-MOST_LINES // 2 :]), *_printed(run, output))))
        bar.setValue(bar.maximum() if follows else place)


def _printed(run: str, output: str | None) -> Sequence[str]:
    if not run or output == "":
        return ()
    if output is None:
        return ("", "The output of its processes is on the node, in log.txt in the run's folder.")
    return ("", "Output of its processes:", output.rstrip("\n"))
