"""Everything can be reached with the keyboard, everything has a name, and one sees where one is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QApplication,
    QButtonGroup,
    QComboBox,
    QDialog,
    QHeaderView,
    QLineEdit,
    QMenuBar,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.tokens import DARK, LIGHT
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.sites.site import Site
from clew_gui.sites.store import SiteStore
from clew_gui.ssh.prompts import Prompt, PromptKind
from clew_gui.views.sites.prompts import ScriptDialog, hold_question, prompt_dialog
from clew_gui.views.sites.sites_dialog import SitesDialog
from clew_gui.views.tabs.cluster import ClusterTab
from clew_gui.views.theme.parts import Appearance
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.simulated_cluster import SimulatedCluster

CONTROLS = (QAbstractButton, QAbstractItemView, QAbstractSlider, QComboBox, QLineEdit, QPlainTextEdit, QTabBar)
NOT_FOR_THE_KEYBOARD = (QScrollBar, QHeaderView, QMenuBar)
"""Scroll bars follow the cursor, headings have the sort menu's place in the table, menus have Alt."""
NAMED = {
    QAccessible.Role.Button,
    QAccessible.Role.ButtonMenu,
    QAccessible.Role.CheckBox,
    QAccessible.Role.ComboBox,
    QAccessible.Role.EditableText,
    QAccessible.Role.PageTab,
    QAccessible.Role.PageTabList,
    QAccessible.Role.RadioButton,
    QAccessible.Role.Slider,
    QAccessible.Role.Table,
    QAccessible.Role.Tree,
    QAccessible.Role.ProgressBar,
    QAccessible.Role.MenuItem,
}
"""What must say what it is."""
SPOKEN_BY_THEIR_PARENT = (QAccessible.Role.ScrollBar, QAccessible.Role.Separator, QAccessible.Role.Grip)


def controls(window: QWidget) -> list[QWidget]:
    """Every visible, enabled control of the window that a person can act on."""
    return [
        widget
        for widget in window.findChildren(QWidget)
        if isinstance(widget, CONTROLS)
        and not isinstance(widget, NOT_FOR_THE_KEYBOARD)
        and not _is_part(widget)
        and widget.isVisible()
        and widget.isEnabled()
        and widget.window() is window
    ]


def _is_part(widget: QWidget) -> bool:
    """Whether Qt made this widget as a part of another one: a clear button, a combo's list."""
    parent = widget.parentWidget()
    return isinstance(parent, QLineEdit | QComboBox | QTabBar | QMenuBar) or widget.objectName().startswith("qt_")


def focus_chain(window: QWidget) -> Iterator[QWidget]:
    """The widgets that Tab visits, in order."""
    here = window.nextInFocusChain()
    while here is not None and here is not window:
        if here.focusPolicy() & Qt.FocusPolicy.TabFocus and here.isVisible() and here.isEnabled():
            yield here
        here = here.nextInFocusChain()


def names(interface: QAccessibleInterface) -> Iterator[tuple[QAccessible.Role, str, str]]:
    """(role, name, class) of everything visible in the accessibility tree."""
    state = interface.state()
    if state.invisible == 1:
        return
    found = interface.object()
    kind = f"{type(found).__name__} {getattr(found, 'objectName', str)()}"  # parts of a widget have no object
    yield interface.role(), interface.text(QAccessible.Text.Name), kind
    children: Iterable[QAccessibleInterface | None] = map(interface.child, range(interface.childCount()))
    for child in children:
        if child is not None:
            yield from names(child)


@pytest.fixture(params=["first start", "busy", "guide", "narrow", "empty exercise", "cluster"])
def program(request: pytest.FixtureRequest, open_window: Opener) -> Program:
    """The window in the situations that differ."""
    if request.param == "first start":
        return open_window(exercise="linear-regression")
    if request.param == "narrow":
        return open_window(fakes.example_session(), size=(1024, 700))
    if request.param == "empty exercise":
        return open_window(exercise="mine")
    session = fakes.example_session()
    if request.param == "cluster":
        run, cluster = session.add("softmax"), SimulatedCluster(workers=3)
        run.spec = msgspec.structs.replace(run.spec, strategy="parameter-server", options={"workers": 3})
        run.begin()
        run.feed(*cluster.join(), *cluster.train(4, 20))
    result = open_window(session)
    result.window.show_tab({"guide": 0, "cluster": result.tab(ClusterTab).number}.get(request.param, 1))
    return result


def test_every_control_is_reached_by_tab(program: Program) -> None:
    chain = set(focus_chain(program.window))
    missed = [
        f"{type(widget).__name__} {widget.accessibleName()!r}"
        for widget in controls(program.window)
        if widget not in chain and widget.focusProxy() not in chain
    ]
    assert missed == []


def test_tab_really_walks_the_chain(program: Program, qtbot: QtBot) -> None:
    window = program.window
    window.activateWindow()
    window.next_run.run.setFocus()
    visited = []
    for _ in range(200):
        here = QApplication.focusWidget()
        assert here is not None
        if here in visited:
            break
        visited.append(here)
        QTest.keyClick(here, Qt.Key.Key_Tab)
    arrows = [button for w in visited if isinstance(w, QAbstractButton) for button in _of_group(w)]
    unreached = [w for w in controls(window) if w not in visited + arrows and w.focusProxy() not in visited]
    assert [f"{type(w).__name__} {w.accessibleName()!r}" for w in unreached] == []


def _of_group(button: QAbstractButton) -> list[QAbstractButton]:
    """The buttons that arrow keys reach from this one."""
    groups = [group.buttons() for group in button.window().findChildren(QButtonGroup) if group.exclusive()]
    return next((buttons for buttons in groups if button in buttons), [])


def test_arrow_keys_choose_within_segments(open_window: Opener, qtbot: QtBot) -> None:
    program = open_window(fakes.example_session())
    units = program.window.run_view.controls.units
    units.button("step").setFocus()
    QTest.keyClick(units.button("step"), Qt.Key.Key_Right)
    assert units.current() == "epoch"
    assert program.window.run_view.plots.view.unit.value == "epoch"


def test_every_control_has_a_name(program: Program) -> None:
    nameless = [
        f"{type(widget).__name__} {widget.objectName()!r}"
        for widget in controls(program.window)
        if not widget.accessibleName().strip()
    ]
    assert nameless == []


def test_the_accessibility_tree_has_no_nameless_control(program: Program) -> None:
    root = QAccessible.queryAccessibleInterface(program.window)
    assert root is not None
    seen = list(names(root))
    assert {QAccessible.Role.Button, QAccessible.Role.PageTab, QAccessible.Role.EditableText} <= {s[0] for s in seen}
    assert [f"{role.name}: {kind}" for role, name, kind in seen if role in NAMED and not name.strip()] == []


def test_the_focus_can_be_seen_on_every_control(open_window: Opener, qtbot: QtBot) -> None:
    """A control with the focus looks different from the same control without it."""
    window = open_window(fakes.example_session()).window
    window.activateWindow()
    alike = []
    for widget in controls(window):
        window.setFocus()
        QApplication.processEvents()
        before = widget.grab().toImage()
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        QApplication.processEvents()
        if widget.grab().toImage() == before:
            alike.append(f"{type(widget).__name__} {widget.accessibleName()!r}")
    assert alike == []


def test_every_dialog_is_named_and_reachable(open_window: Opener) -> None:
    program = open_window(fakes.example_session())
    for name in ("settings", "shortcuts", "code", "computer", "about", "rate", "note", "sweep", "predict"):
        program.window.actions_[name].trigger()
        (dialog,) = [d for d in program.window.findChildren(QDialog) if d.isVisible()]
        chain = set(focus_chain(dialog))
        for widget in controls(dialog):
            assert widget in chain, f"{name}: {widget}"
            assert widget.accessibleName().strip(), f"{name}: {widget}"
        dialog.close()
        QApplication.processEvents()


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_states_keep_their_words_in_both_themes(open_window: Opener, theme: object) -> None:
    program = open_window(fakes.example_session())
    program.actions.choose_theme("dark" if theme is DARK else "light")
    assert program.window.run_view.card.pill.accessibleName() == "State: Running"
    program.actions.choose_theme("light")


FINGERPRINT = "SHA256:" + "a" * 43
DETAILS = ("The server at login was not seen before.", "Its key has the fingerprint", FINGERPRINT)


def _dialogs(parent: QWidget, folder: Path) -> Iterator[QDialog]:
    """What concerns sites, each as a person meets it first."""
    appearance, store = Appearance(), SiteStore(folder)
    store.save("cave", Site(title="The Cave", host="login", scheduler="slurm"))
    sites = SitesDialog(parent, appearance, store, ("login",))
    sites.choose("cave")
    yield sites
    yield prompt_dialog(parent, appearance, Prompt(kind=PromptKind.PASSWORD, title="login", text="Password:"))
    yield prompt_dialog(parent, appearance, Prompt(kind=PromptKind.CODE, title="login", text="Code:"))
    yield prompt_dialog(
        parent, appearance, Prompt(kind=PromptKind.CONFIRM, title="login", text="The same?", details=DETAILS)
    )
    yield ScriptDialog(parent, appearance, "The Cave")
    yield hold_question(parent, appearance, "The Cave", AllocationRequest(time="1h"))


def test_dialogs_of_sites_are_spoken_and_walked_with_the_keyboard(qtbot: QtBot, tmp_path: Path) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.show()
    for dialog in _dialogs(parent, tmp_path):
        with qtbot.waitExposed(dialog):
            dialog.show()
        interface = QAccessible.queryAccessibleInterface(dialog)
        assert interface is not None
        silent = [
            f"{kind} ({role.name})" for role, name, kind in names(interface) if role in NAMED and not name.strip()
        ]
        assert silent == [], dialog.windowTitle()
        chain = set(focus_chain(dialog))
        missed = [f"{type(w).__name__} {w.accessibleName()!r}" for w in controls(dialog) if w not in chain]
        assert missed == [], dialog.windowTitle()
        dialog.close()
