"""The list of exercises where not all of them fit: what someone has found stays where it is."""

from __future__ import annotations

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTreeWidgetItem
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import LIGHT
from clew_gui.views.lab.lab_panel import ExerciseProgress, LabPanel
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import stylesheet
from clew_shared.base.problem import Problem
from clew_shared.catalogue import load_builtin


@pytest.fixture
def panel(qtbot: QtBot) -> LabPanel:
    made = LabPanel(Appearance(LIGHT))
    qtbot.addWidget(made)
    made.tree.opened.connect(made.tree.select)
    made.fill(load_builtin())
    made.resize(250, 420)
    made.tree.select("softmax")
    made.show()
    return made


def heads(panel: LabPanel) -> list[QTreeWidgetItem]:
    found = (panel.tree.topLevelItem(number) for number in range(panel.tree.topLevelItemCount()))
    return [head for head in found if head is not None]


def exercises(head: QTreeWidgetItem) -> list[QTreeWidgetItem]:
    return [child for number in range(head.childCount()) if (child := head.child(number)) is not None]


def click(panel: LabPanel, item: QTreeWidgetItem) -> QPoint:
    at = panel.tree.visualItemRect(item).center()
    QTest.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=at)
    return at


def test_only_the_chapter_of_the_open_exercise_begins_unfolded(panel: LabPanel) -> None:
    assert [head.isExpanded() for head in heads(panel)] == [True] + [False] * (len(heads(panel)) - 1)


def test_nothing_moves_under_the_pointer_when_an_exercise_is_opened(panel: LabPanel) -> None:
    first, second = heads(panel)[:2]
    click(panel, second)
    chosen = exercises(second)[1]
    at = click(panel, chosen)
    assert panel.tree.itemAt(at) is chosen
    assert first.isExpanded()
    assert chosen.isSelected()


def test_the_first_best_value_of_an_exercise_has_its_room(panel: LabPanel, qtbot: QtBot) -> None:
    panel.show_progress({"linear-regression": ExerciseProgress("part", "5.72e-11")})
    qtbot.wait(10)
    assert panel.tree.columnWidth(1) >= panel.tree.sizeHintForColumn(1)


def test_a_click_on_a_chapter_leaves_the_open_exercise_marked(panel: LabPanel) -> None:
    click(panel, heads(panel)[-1])
    assert [item.isSelected() for item in exercises(heads(panel)[0])] == [False, True, False]


def test_chapters_that_were_folded_stay_so_when_the_catalogue_is_read_again(panel: LabPanel) -> None:
    click(panel, heads(panel)[0])
    panel.fill(load_builtin())
    assert not any(head.isExpanded() for head in heads(panel))


def test_a_search_prefers_words_that_begin_so_and_is_over_with_enter(panel: LabPanel) -> None:
    before = load_builtin()
    own = msgspec.structs.replace(before.exercises[0], id="two-layers", title="My own", chapter="Own")
    panel.fill(msgspec.structs.replace(before, exercises=(*before.exercises, own)))
    opened: list[str] = []
    panel.tree.opened.connect(opened.append)
    for words in ("two", "two-la"):
        QTest.keyClicks(panel.search, words)
        shown = [item.text(0) for head in heads(panel) for item in exercises(head) if not item.isHidden()]
        assert shown == ["My own"], "not those of the chapter Networks"
        QTest.keyClick(panel.search, Qt.Key.Key_Return)
        assert (opened[-1], panel.search.text()) == ("two-layers", "")
        panel.tree.select("softmax")


def test_a_file_that_breaks_unfolds_its_chapter_once(panel: LabPanel) -> None:
    before = load_builtin()
    last, found = heads(panel)[-1], Problem("exercise.broken", "own.py, line 3: SyntaxError.")
    own = msgspec.structs.replace(before.exercises[0], id="own", chapter=last.text(0), file="own.py", problem=found)
    broken = msgspec.structs.replace(before, exercises=(*before.exercises, own))
    assert not last.isExpanded()
    panel.fill(broken)
    assert [head.isExpanded() for head in heads(panel)] == [True, *[False] * (len(heads(panel)) - 2), True]
    click(panel, heads(panel)[-1])
    panel.fill(broken)
    assert not heads(panel)[-1].isExpanded(), "as a person folded it"


def test_a_row_is_as_high_as_its_letters(panel: LabPanel) -> None:
    panel.setStyleSheet(stylesheet(LIGHT))
    larger = panel.tree.font()
    larger.setPointSizeF(3 * larger.pointSizeF())
    for item in (heads(panel)[0], exercises(heads(panel)[0])[0]):
        item.setFont(0, larger)
        assert panel.tree.visualItemRect(item).height() >= QFontMetrics(larger).height()
