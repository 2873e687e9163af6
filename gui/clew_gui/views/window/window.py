"""The main window: puts the panels in their places, folds and sizes them, and remembers how it was left."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMainWindow, QSplitter, QStackedWidget, QWidget

from clew_gui.views.form.next_run import COMPARISONS, NextRun
from clew_gui.views.lab.guide_page import GuideView
from clew_gui.views.lab.lab_panel import LabPanel
from clew_gui.views.presentation.menu_entries import MenuActions, Menus, Reasons, RemedyButtons
from clew_gui.views.runs.bottom_panel import HEAD, BottomPanel
from clew_gui.views.runs.run_view import RunView
from clew_gui.views.runs.runs_model import table_height
from clew_gui.views.theme.parts import Appearance, IconButton, Panel, column, frame, native_keys, tab_in_order
from clew_gui.views.window.bars import ExerciseHead, TopBar
from clew_gui.views.window.message_bar import MessageBar
from clew_gui.views.window.window_state import WindowState

NARROW = 1200
LOW = 810
WIDE = 1400
TALL = 860
FIRST_SIZE = (1440, 900)
SMALLEST = (1000, 640)
STRIP = 40
_NO_BOUND = 16_777_215  # Qt's own word for "no maximum"


class Strip(Panel):
    """A strip in place of a folded panel, with the button that brings it back."""

    def __init__(self, appearance: Appearance, glyph: str, name: str, keys: str) -> None:
        super().__init__()
        self.setFixedWidth(STRIP)
        self.button = IconButton(appearance, glyph, name, f"{name} ({keys})")
        column(self.button, None, margins=(6, 10, 6, 0), parent=self)


class MainWindow(QMainWindow):
    """Shows the top bar, and three columns with messages over them. ``may_close`` is asked before
    it closes."""

    painted = Signal()
    """The first frame is on the screen; emitted once."""

    def __init__(self, appearance: Appearance, state: WindowState, menus: Menus, why_not: Reasons) -> None:
        super().__init__()
        self.appearance = appearance
        self.setWindowTitle("Clew")
        self.actions_ = MenuActions(self, menus, why_not)
        self.top = TopBar(appearance, self.actions_)
        self.messages = MessageBar(appearance)
        self.remedies = RemedyButtons()
        self.lab = LabPanel(appearance)
        self.head = ExerciseHead(appearance, self.actions_["guide"])
        self.guide = GuideView(appearance, self.actions_["code"].trigger)
        self.run_view = RunView(appearance, self.actions_)
        self.bottom = BottomPanel(appearance, self.actions_)
        self.next_run = NextRun(appearance, [self.actions_[name] for name in COMPARISONS])
        self.may_close: Callable[[], bool] = lambda: True
        self._folds = dict(state.folds)
        self._sizes = state
        self._runs_height = state.runs_height
        self._was_painted = False
        self._build()
        self.setMinimumSize(*SMALLEST)
        self._restore(state)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.pages = QStackedWidget()
        self._tab_folds: list[str] = []
        """The name of the fold of the runs for each tab that needs their height, else empty."""
        self.add_tab(self.guide, "Guide", "What to do and what to watch (Ctrl+1)", "guide")
        self.add_tab(self.run_view, "Run", "The run and its curves (Ctrl+2)")
        work = QWidget()
        column(self.head, frame("hline"), self.pages, gap=0, grows=self.pages, parent=work)
        self._rows = QSplitter(Qt.Orientation.Vertical)
        self._rows.addWidget(work)
        self._rows.addWidget(self.bottom)
        self._lab_strip = Strip(self.appearance, "right", "Show the exercises", "F9")
        self._form_strip = Strip(self.appearance, "left", "Show the next run", "F10")
        self._columns = QSplitter(Qt.Orientation.Horizontal)
        for widget in (self._lab_strip, self.lab, self._rows, self._form_strip, self.next_run):
            self._columns.addWidget(widget)
        for splitter, grows in ((self._rows, 0), (self._columns, 2)):
            splitter.setHandleWidth(1)
            splitter.setChildrenCollapsible(False)
            splitter.setStretchFactor(grows, 1)
        self.lab.setMinimumWidth(196)
        self.next_run.setMinimumWidth(290)
        work.setMinimumHeight(320)
        whole = Panel()
        column(self.top, frame("hline"), self._columns, gap=0, grows=self._columns, parent=whole)
        self.messages.lie_over(work, whole)  # the table below stays free
        self.setCentralWidget(whole)
        self.head.tabs.currentChanged.connect(self._show_tab)
        self.bottom.filled.connect(self._apply_folds)
        self.bottom.tabs.currentChanged.connect(lambda _tab: self._apply_folds())
        for name, button in (
            ("lab", self.lab.fold),
            ("lab", self._lab_strip.button),
            ("form", self._form_strip.button),
            ("runs", self.bottom.fold),
        ):
            button.clicked.connect(self.actions_[f"{name}_panel"].trigger)

    # --- Folding ------------------------------------------------------------------------------------------------------

    def _small(self, name: str) -> bool:
        return self.height() < LOW if name == "runs" else self.width() < NARROW

    def _key(self, name: str) -> str:
        tab = self.head.tabs.currentIndex()
        if name == "runs" and self._tab_folds[tab]:
            return f"runs:{self._tab_folds[tab]}"
        return f"{name}:{'small' if self._small(name) else 'large'}"

    def folded(self, name: str) -> bool:
        """Whether a panel (lab, form, runs) is folded at this size: by hand, else by the rules for small windows."""
        key = self._key(name)
        rule = key in map("runs:{}".format, filter(None, self._tab_folds)) or (self._small(name) and name != "form")
        return self._folds.get(key, rule)

    def fold(self, name: str, folded: bool) -> None:
        """Fold or unfold by hand; remembered for windows of this size."""
        self._folds[self._key(name)] = folded
        self._apply_folds()

    def _apply_folds(self) -> None:
        lab, form, runs = (self.folded(name) for name in ("lab", "form", "runs"))
        self.lab.setVisible(not lab)
        self._lab_strip.setVisible(lab)
        self.next_run.setVisible(not form)
        self._form_strip.setVisible(form)
        if self.bottom.pages.isHidden() != runs or runs:
            self.bottom.set_folded(runs)
        self._bound_runs(runs)
        for name, folded in (("lab", lab), ("form", form), ("runs", runs)):
            self.actions_[f"{name}_panel"].setChecked(not folded)

    def _bound_runs(self, folded: bool) -> None:
        """Limits the height of the runs: folded they are a head, empty a sentence; else as high as someone made
        them."""
        head = max(HEAD, self.bottom.tabs.sizeHint().height() + 6)
        bounds = (head, head) if folded else (head + 44, head + 44) if self.bottom.bare() else (110, _NO_BOUND)
        if bounds != (self.bottom.minimumHeight(), self.bottom.maximumHeight()):
            self._keep_runs_height()
            self.bottom.setMinimumHeight(bounds[0])
            self.bottom.setMaximumHeight(bounds[1])
            self._lay_out_rows()

    def _keep_runs_height(self) -> None:
        height = self._rows.sizes()[1]
        if self.bottom.maximumHeight() == _NO_BOUND and self.isVisible() and height:
            self._runs_height = height

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Folds panels if the window is small."""
        super().resizeEvent(event)
        self._apply_folds()

    # --- Sizes --------------------------------------------------------------------------------------------------------

    def _restore(self, state: WindowState) -> None:
        self.resize(state.width or FIRST_SIZE[0], state.height or FIRST_SIZE[1])
        if state.maximized:
            self.setWindowState(Qt.WindowState.WindowMaximized)
        self.show_tab(1)
        self._apply_folds()

    def raise_window(self) -> None:
        """Brings this window to the front, because someone started Clew again."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        self.activateWindow()

    def toggle_full_screen(self) -> None:
        """Switches between the whole screen and the window as it was."""
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)
        self.actions_["full_screen"].setChecked(self.isFullScreen())

    def order_tabs(self) -> None:
        """Orders the widgets for Tab as the eye reads them; messages come last but for the form: they lie over the
        lower end of the centre."""
        whole = self.centralWidget()
        if whole is not None:
            tab_in_order(whole)

    def fit_into(self, room: QRect) -> None:
        """Keeps the window, with the system's title bar, inside ``room``, the free part of the screen, and no larger
        than it."""
        border = self.frameGeometry().size() - self.size()
        size = self.size().boundedTo(room.size() - border)
        self.resize(size)
        whole = size + border
        self.move(
            min(max(self.x(), room.left()), room.right() + 1 - whole.width()),
            min(max(self.y(), room.top()), room.bottom() + 1 - whole.height()),
        )

    def fit_screen(self) -> None:
        """Fits the window to the screen once it is shown and the size of the title bar is known."""
        if not self.isMaximized() and not self.isFullScreen():
            self.fit_into(self.screen().availableGeometry())

    def showEvent(self, event: QShowEvent) -> None:
        """The splitters know their room only now."""
        super().showEvent(event)
        self._lay_out(self._sizes)
        self.setFocus()  # else the first control in the chain has it, and a ring nobody asked for

    def _lay_out(self, state: WindowState) -> None:
        lab = state.lab_width or (260 if self.width() >= WIDE else 252)
        form = state.form_width or (328 if self.width() >= WIDE else 324)
        self._columns.setSizes([STRIP, lab, max(400, self.width() - lab - form - 4), STRIP, form])
        self._runs_height = state.runs_height
        self._lay_out_rows()

    def _lay_out_rows(self) -> None:
        rows = 5 if self.height() >= TALL else 3
        table = table_height(rows, self.bottom.fontMetrics().height())
        runs = self._runs_height or table + self.bottom.tabs.sizeHint().height() + 8
        runs = min(runs, self.bottom.maximumHeight())  # the splitter itself forgets a bound that changes
        self._rows.setSizes([max(300, self._rows.height() - runs), runs])

    def reset_layout(self) -> None:
        """Resets the layout to that of the first start."""
        self._folds.clear()
        self._sizes = WindowState()
        self._apply_folds()
        self._lay_out(self._sizes)

    def save_into(self, state: WindowState) -> None:
        """Writes the present sizes, folds and tab into the state."""
        normal = self.normalGeometry() if self.isMaximized() else self.geometry()
        columns = self._columns.sizes()
        self._keep_runs_height()
        state.width, state.height, state.maximized = normal.width(), normal.height(), self.isMaximized()
        state.lab_width = columns[1] or self._sizes.lab_width
        state.form_width = columns[4] or self._sizes.form_width
        state.runs_height, state.folds = self._runs_height, self._folds
        state.tab = self.head.tabs.currentIndex()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Reports the first painting: the children are painted after this and before the next event."""
        super().paintEvent(event)
        if not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self, self.painted.emit)

    # --- Tabs and closing ---------------------------------------------------------------------------------------------

    def add_tab(self, page: QWidget, title: str, tip: str, fold: str = "") -> int:
        """Adds a tab and returns its number; ``fold`` names how the runs below it are folded, if it needs their
        height."""
        self._tab_folds.append(fold)
        self.pages.addWidget(page)
        self.head.tabs.setTabToolTip(self.head.tabs.addTab(title), native_keys(tip))
        return len(self._tab_folds) - 1

    def show_tab(self, tab: int) -> None:
        """Shows a tab, if it is there: Guide is 0, Run is 1."""
        if self.head.tabs.isTabVisible(tab):
            self.head.tabs.setCurrentIndex(tab)

    def _show_tab(self, tab: int) -> None:
        self.pages.setCurrentIndex(tab)
        self._apply_folds()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask first; runs go on either way."""
        if self.may_close():
            event.accept()
        else:
            event.ignore()
