"""The page *By hand*: the numbers of a training step, one after the other, by *Step*, *Back* and *Play*."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.by_hand import ByHandChart
from clew_gui.charts.kit.drawing import Drawing, Group, UsualSizes, Words
from clew_gui.charts.kit.layout import Box
from clew_gui.study.by_hand import TURNS, StepsByHand, said
from clew_gui.views.plots.pages import ByHandView
from clew_gui.views.plots.panel import ConvergencePlots
from clew_shared.catalogue import find_card, load_builtin
from tests.gui.plots.test_plots import open_panel

CARD = find_card(load_builtin().exercises, "perceptron")


@pytest.fixture
def panel(qtbot: QtBot) -> ConvergencePlots:
    return open_panel(qtbot, CARD, "by_hand", (700, 420))


def test_each_press_computes_what_comes_next(panel: ConvergencePlots) -> None:
    view = panel.page_of(ByHandView)
    assert view.accessibleDescription() == "Step 1, point −1, −1 of class 0"
    QTest.mouseClick(view.step, Qt.MouseButton.LeftButton)
    assert view.accessibleDescription().endswith(
        f"{TURNS[0]}. s₁ = w₁·x + w₂·y + w₃ = 0.700·(−1) + 0.100·(−1) + 0.300 = −0.500."
        " h₁ = tanh s₁ = tanh (−0.500) = −0.462"
    )
    for _ in TURNS:
        QTest.mouseClick(view.step, Qt.MouseButton.LeftButton)
    assert view.accessibleDescription().startswith("Step 2, point 1, −1 of class 1. Forward")
    QTest.mouseClick(view.back, Qt.MouseButton.LeftButton)
    assert TURNS[-1] in view.accessibleDescription()
    QTest.mouseClick(view.again, Qt.MouseButton.LeftButton)
    assert view.accessibleDescription() == "Step 1, point −1, −1 of class 0"
    assert not view.back.isEnabled()


def test_playing_goes_on_until_it_is_paused_or_hidden(panel: ConvergencePlots, qtbot: QtBot) -> None:
    view = panel.page_of(ByHandView)
    view.timer.setInterval(1)
    QTest.mouseClick(view.play, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not view.accessibleDescription().startswith("Step 1,"))
    assert view.play.text() == "Pause"
    QTest.mouseClick(view.play, Qt.MouseButton.LeftButton)
    assert not view.timer.isActive()
    QTest.mouseClick(view.play, Qt.MouseButton.LeftButton)
    panel.show_page("curves")
    assert not view.timer.isActive()
    assert view.play.text() == "All steps"


@pytest.mark.parametrize("width", [420, 640, 900])
@pytest.mark.parametrize("turns", range(1, len(TURNS) + 1))
def test_all_known_numbers_are_to_be_seen_and_inside_of_the_chart(width: int, turns: int) -> None:
    assert CARD.by_hand is not None
    moment = StepsByHand(CARD.by_hand).at(turns)
    chart, drawing = ByHandChart(moment, Box(0, 0, width, 420), UsualSizes()), Drawing(LIGHT, UsualSizes())
    chart.draw(drawing)
    assert not any(isinstance(item, Group) for item in drawing.items)
    words = [item for item in drawing.items if isinstance(item, Words)]
    shown = " ".join(item.text for item in words)
    missing = [line.name for line in moment.lines if said(line.value) not in shown]
    assert missing == []
    assert [item.text for item in words if "…" in item.text and "=" in item.text] == [], "no sum is cut"
    assert [item.text for item in words if not (0 <= item.x <= width and 0 <= item.y <= 420)] == []
