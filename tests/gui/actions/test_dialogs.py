"""Small windows show all of what they say."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from clew_gui.views.actions.dialogs import live_dialog
from clew_gui.views.theme.parts import Appearance
from clew_shared.params import ParamSpec


def test_the_rate_dialog_grows_with_its_error(qtbot: QtBot) -> None:
    rate = ParamSpec(name="learning_rate", label="Learning rate", help="", kind="float", default=0.5, gt=0, live=True)
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = live_dialog(parent, Appearance(), 3, ((rate, 0.5),))
    with qtbot.waitExposed(dialog):
        dialog.show()
    before = dialog.height()
    dialog.form.row("learning_rate").editor.set_value("abc")
    assert dialog.form.row("learning_rate").error.isVisible()
    assert dialog.height() > before
    layout = dialog.layout()
    assert layout is not None
    assert dialog.height() >= layout.totalHeightForWidth(dialog.width())
    dialog.close()
