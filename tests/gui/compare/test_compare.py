"""Names, filter, columns and details of runs, and the Compare tab, in the real window."""

from __future__ import annotations

import csv
import dataclasses
import math
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import optuna
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.tokens import LIGHT
from clew_gui.charts.compare import ALIKE, CompareChart, CompareScene
from clew_gui.charts.kit.drawing import Drawing, UsualSizes, Words
from clew_gui.charts.kit.layout import Box
from clew_gui.views.form.form import FormDialog
from clew_gui.views.presentation.words import preset_values
from clew_gui.views.tabs.compare import CompareTab
from clew_gui.views.theme.parts import Elided
from clew_gui.views.window.window_state import NoMemory
from clew_shared.journal.events import Points
from clew_shared.spec import RateRange
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession

BESTS = {("sgd", 0.5, 1): 0.80, ("sgd", 0.5, 2): 0.84, ("adam", 0.1, 1): 0.90, ("adam", 0.01, 1): 0.70}


def trained(session: FakeSession, optimizer: str, rate: float, seed: int, best: float) -> FakeRun:
    run = session.add("softmax", optimizer=optimizer, learning_rate=rate)
    run.spec = msgspec.structs.replace(run.spec, seed=seed)
    run.begin(100)
    for part in (0.5, 1.0):
        run.train(50)
        run.evaluate(best * part)
    run.end()
    return run


@pytest.fixture
def session() -> FakeSession:
    """Four runs that ended: two repeats with SGD, two rates with Adam."""
    found = FakeSession()
    for (optimizer, rate, seed), best in BESTS.items():
        trained(found, optimizer, rate, seed, best)
    return found


@pytest.fixture
def program(open_window: Opener, session: FakeSession) -> Program:
    return open_window(session, size=(1280, 800))


def numbers(program: Program) -> list[int]:
    return [row.number for row in program.window.bottom.model.rows()]


def note(program: Program, **values: str) -> None:
    """Write this about the selected runs."""
    program.window.actions_["note"].trigger()
    dialog = program.window.findChild(FormDialog)
    assert dialog is not None
    dialog.form.set_values(values)
    dialog.go.click()


def test_runs_are_filtered_by_what_was_set_measured_and_written(program: Program, session: FakeSession) -> None:
    bottom, runs = program.window.bottom, list(session.runs)
    program.window.bottom.select(runs[2])
    note(program, name="Warm start", tags="good, fast")
    assert session.runs[runs[2]].note.tags == ("good", "fast")
    assert program.window.run_view.card.title.whole() == "Run 3, Warm start"
    for text, kept in (
        ("learning_rate < 0.2", [4, 3]),
        ("test_accuracy > 80% sgd", [2]),
        ("#good", [3]),
        ("Rate < 0.2", [4, 3]),
        ("Best > 80 %, batch = 100, time >= 0, run < 3", [2]),
        ("Optimizer = adam, State = finished", [4, 3]),
        ("warm", [3]),
        ("nothing has this", []),
    ):
        bottom.filter.setText(text)
        assert numbers(program) == kept, text
    assert not bottom.bare(), "the filter stays in sight"
    bottom.filter.setText("learning_rat > 1")
    assert bottom.filter.accessibleDescription().endswith("Did you mean learning_rate?")
    assert [one.whole() for one in bottom.findChildren(Elided) if "learning_rat" in one.whole()], "seen, not only heard"
    assert numbers(program) == [], "the filter before holds"
    bottom.filter.clear()
    assert numbers(program) == [4, 3, 2, 1]


def test_columns_are_chosen_and_kept_and_deltas_are_to_the_baseline(
    program: Program, session: FakeSession, tmp_path: Path, open_window: Opener
) -> None:
    program.window.bottom.column_toggled.emit("tags", True)
    program.window.bottom.column_toggled.emit("loss", True)
    program.window.bottom.column_toggled.emit("batch", False)
    program.controller.select(next(iter(session.runs)))
    program.controller.pin(True)
    program.actions.write_table(tmp_path / "runs.csv")
    table = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert [row["To baseline"] for row in table] == ["-10.00 points", "+10.00 points", "+4.00 points", ""]
    assert all(float(row["Training loss"]) > 0 for row in table)
    columns = program.window.bottom.model.columns
    hidden = {one.key for place, one in enumerate(columns) if program.window.bottom.table.isColumnHidden(place)}
    assert "batch" in hidden
    assert not {"optimizer", "rate", "tags", "loss"} & hidden
    program.close()
    again = open_window(session, memory=NoMemory(program.memory.load()))
    assert [one.key for one in again.window.bottom.model.columns][-2:] == ["tags", "loss"]
    assert again.controller.model.pinned() == next(iter(session.runs))


def test_several_selected_runs_are_ticked_tagged_and_removed_together(program: Program, session: FakeSession) -> None:
    table, runs = program.window.bottom.table, list(session.runs)
    table.selectRow(0)
    table.selectionModel().select(table.model().index(1, 0), table.selectionCommand(table.model().index(1, 0)))
    QTest.keyClick(table, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert len(table.chosen_runs()) == 4
    assert program.window.actions_["remove"].text() == "Re&move 4 runs from the list"
    QTest.keyClick(table, Qt.Key.Key_Space)
    first = {row.shown for row in program.window.bottom.model.rows()}
    assert len(first) == 1, "all as the one at the cursor"
    note(program, tags="old")
    assert {session.runs[run].note.tags for run in runs} == {("old",)}
    program.window.actions_["remove"].trigger()
    assert numbers(program) == []
    program.window.messages.undo()
    assert numbers(program) == [4, 3, 2, 1]


def test_a_removed_run_leaves_the_cursor_at_its_place_of_the_list(program: Program, session: FakeSession) -> None:
    table, runs = program.window.bottom.table, list(session.runs)
    program.controller.select(runs[1])
    program.window.actions_["remove"].trigger()
    assert numbers(program) == [4, 3, 1]
    assert table.current() == runs[0], "the next one below"
    assert program.window.run_view.card.title.whole() == "Run 1"
    program.window.actions_["remove"].trigger()
    assert table.current() == runs[2], "at the end the one above"
    assert program.window.actions_["remove"].text() == "Re&move from the list"


def test_details_stand_beside_the_baseline_or_another_run(program: Program, session: FakeSession) -> None:
    runs = list(session.runs)
    program.controller.select(runs[0])
    program.controller.pin(True)
    program.controller.select(runs[2])
    program.window.actions_["details"].trigger()
    panel = program.window.bottom.details
    assert panel.difference.text() == "2 settings differ"
    model = panel.table.model()
    texts = [[model.index(row, place).data() for place in range(3)] for row in range(model.rowCount())]
    assert ["Learning rate", "0.1", "0.5"] in texts
    assert ["Run", runs[2], runs[0]] in texts
    panel.others.setCurrentIndex(panel.others.findData(runs[1]))
    panel.others.activated.emit(panel.others.currentIndex())
    assert panel.difference.text() == "3 settings differ", "the seed as well"


def shown(program: Program, qtbot: QtBot) -> CompareScene:
    """The scene of all listed runs."""
    program.tab(CompareTab).open()
    view = program.tab(CompareTab)
    view.sets.button("listed").click()
    qtbot.waitUntil(lambda: view.scene is not None and len(view.scene.groups) > 0)
    assert view.scene is not None
    return view.scene


def test_parallel_axes_say_how_much_each_setting_matters(open_window: Opener, qtbot: QtBot) -> None:
    session = FakeSession()
    for number in range(24):
        trained(session, ("sgd", "adam")[number // 12], 2.0 ** -(number % 12), 1, 0.9 - 0.05 * abs(number % 12 - 6))
    program = open_window(session, size=(1280, 800))
    view = program.tab(CompareTab)
    view.pages.choose("parallel")
    shown(program, qtbot)
    qtbot.waitUntil(lambda: view.scene is not None and bool(view.scene.shares))
    scene = shown(program, qtbot)
    assert scene.told.startswith("What mattered for test accuracy, from 24 results. Optuna says so")
    assert int(scene.shares["learning_rate"].split()[0]) > int(scene.shares["optimizer"].split()[0])
    assert view.canvas.chart is not None
    assert scene.told in view.canvas.chart.description()


def test_importances_are_worked_out_once_for_the_same_results_and_never_in_the_windows_thread(
    open_window: Opener, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = FakeSession()
    for number in range(24):
        trained(session, ("sgd", "adam")[number // 12], 2.0 ** -(number % 12), 1, 0.9 - 0.05 * abs(number % 12 - 6))
    usual, threads = optuna.importance.get_param_importances, []

    def judged(*given: Any, **named: Any) -> dict[str, float]:
        threads.append(threading.current_thread())
        return usual(*given, **named)

    monkeypatch.setattr(optuna.importance, "get_param_importances", judged)
    program = open_window(session, size=(1280, 800))
    compare = program.tab(CompareTab)
    compare.pages.choose("parallel")
    shown(program, qtbot)
    qtbot.waitUntil(lambda: compare.scene is not None and bool(compare.scene.shares))
    run = next(iter(session.runs.values()))

    def news(best: float) -> CompareScene:
        before = compare.scene
        run.train(10)
        run.evaluate(best)
        program.controller.curves_changed.emit()
        qtbot.waitUntil(lambda: compare.scene is not before)
        assert compare.scene is not None
        return compare.scene

    assert news(0.0).shares, "its best is still the same"
    assert len(threads) == 1
    assert news(0.99).shares, "what was known before stays until more is known"
    qtbot.waitUntil(lambda: len(threads) == 2)  # what it finds may be shown already
    assert threading.main_thread() not in threads


def test_repeats_are_one_line_with_a_band_and_deltas(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    program.controller.select(next(iter(session.runs)))
    program.controller.pin(True)
    scene = shown(program, qtbot)
    view = program.tab(CompareTab)
    assert [row[:3] for row in scene.table] == [
        ("Run", "Optimizer", "Learning rate"),
        ("1, 2 (baseline)", "SGD", "0.5"),
        ("3", "Adam", "0.1"),
        ("4", "Adam", "0.01"),
    ]
    assert [row[-2] for row in scene.table] == ["To baseline", "", "+8.00 points", "-12.00 points"]
    assert scene.groups[0].band is not None
    assert scene.groups[0].band.deviation[-1] == pytest.approx(0.04 / math.sqrt(2), rel=1e-4)
    view.target.setText("0.75")
    scene = shown(program, qtbot)
    assert [row[-3] for row in scene.table] == ["Steps to 75.00 %", "100", "100", "–"]
    view.colour.setCurrentIndex(view.colour.findData("learning_rate"))
    scene = shown(program, qtbot)
    assert [text for _, text in scene.legend] == ["0.01", "0.1", "0.5"]
    assert scene.groups[2].ink.place == 0.0
    assert 0.0 < (scene.groups[1].ink.place or 0) < 1.0, "rates that span a factor of 50 lie on a logarithmic scale"
    program.window.bottom.filter.setText("adam")
    qtbot.waitUntil(lambda: len(program.tab(CompareTab).scene.groups) == 2)  # type: ignore[union-attr]


def test_each_picture_answers_to_the_pointer_and_leaves_as_files(
    program: Program, session: FakeSession, qtbot: QtBot, tmp_path: Path
) -> None:
    shown(program, qtbot)
    view = compare = program.tab(CompareTab)
    for page in ("scatter", "parallel", "curves"):
        view.pages.button(page).click()
        scene = shown(program, qtbot)
        chart = view.canvas.chart
        assert isinstance(chart, CompareChart)
        spot = QPointF(*chart.line(2)[-1])
        assert chart.pick(spot.x(), spot.y()) == "2"
        assert chart.words_of(2)[0].startswith("Run 4")
        compare.export("png", tmp_path / f"{page}.png")
        assert not QImage(str(tmp_path / f"{page}.png")).isNull()
        compare.export("svg", tmp_path / f"{page}.svg")
    drawing, box = Drawing(LIGHT, UsualSizes()), Box(0, 0, 600, 300)
    lacking = scene.paths.copy()
    lacking[2, 0] = math.nan
    without = CompareChart(dataclasses.replace(scene, paths=lacking), "parallel", box, UsualSizes())
    without.draw(drawing)
    nones = [item for item in drawing.items if isinstance(item, Words) and item.text == "none"]
    named = Drawing(LIGHT, UsualSizes())
    CompareChart(scene, "curves", box, UsualSizes()).draw(named)
    assert "best 90.00 %" in {item.text for item in named.items if isinstance(item, Words)}, "it may not be the last"
    assert [item.y for item in nones] == [without.line(2)[0, 1]], "not at the value of another one"
    assert without.line(2)[0, 1] > max(without.line(number)[0, 1] for number in (0, 1)) + 20
    drawing.items.clear()
    alike = dataclasses.replace(scene, parallel=scene.parallel[-1:])
    CompareChart(alike, "parallel", Box(0, 0, 600, 300), UsualSizes()).draw(drawing)
    assert [item.text for item in drawing.items if isinstance(item, Words)] == [ALIKE], "no lone axis"
    for page in ("curves", "scatter"):
        assert "SGD 0.5" in (tmp_path / f"{page}.svg").read_text(), page
    QTest.mouseClick(view.canvas, Qt.MouseButton.LeftButton, pos=spot.toPoint())
    assert program.controller.model.run() is session.runs[list(session.runs)[3]]
    compare.export("csv", tmp_path / "table.csv")
    assert (
        (tmp_path / "table.csv")
        .read_text()
        .startswith("Run,Optimizer,Learning rate,Best test accuracy,To baseline,Samples/s\n")
    )


def test_a_range_test_is_no_baseline_and_is_compared_with_none(
    program: Program, session: FakeSession, qtbot: QtBot
) -> None:
    model, values = program.controller.model, preset_values(fakes.card(), fakes.card().baseline)
    usual, test = (session.add("softmax") for _ in range(2))
    usual.spec = msgspec.structs.replace(usual.spec, params=values)
    test.spec = msgspec.structs.replace(test.spec, params=values, rate_range=RateRange(0.001, 10.0))
    for run in (usual, test):
        run.begin(100)
        run.train(100)
        run.evaluate(0.99)
        run.end()
    session.tell(new=frozenset((usual.id, test.id)))
    first = next(iter(session.runs))
    assert model.pinned() == first, "the first with the values of that preset"
    program.controller.select(test.id)
    assert not program.window.actions_["pin"].isEnabled()
    row = next(row for row in program.window.bottom.model.rows() if row.id == test.id)
    assert (row.text("rate"), row.text("delta"), row.reached) == ("0.001 to 10", "", False)
    model.pin(test.id)
    assert model.pinned() == first, "pinned by an earlier version"
    compared = {run.number for group in shown(program, qtbot).groups for run in group.runs}
    assert compared == {1, 2, 3, 4, usual.number}


def test_a_run_that_diverges_does_not_flatten_the_others(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    bad = session.add("softmax", optimizer="sgd", learning_rate=900.0).begin(100)
    wild = np.full(100, 1e30, "<f4").tobytes()
    bad.feed(Points(schema=1, first=0, count=100, seconds=1.0, clock=1.0, values=(wild, wild)))
    session.tell(new=frozenset((bad.id,)))
    program.tab(CompareTab).open()
    view = program.tab(CompareTab)
    view.value.setCurrentIndex(view.value.findData("loss"))
    view.sets.button("listed").click()
    qtbot.waitUntil(lambda: len(view.scene.groups) == 4)  # type: ignore[union-attr]
    assert view.scene is not None
    assert view.scene.y.span.high < 100


def test_curve_styles_begin_anew_for_what_is_shown(program: Program, session: FakeSession) -> None:
    runs = list(session.runs)
    for run in runs:
        program.controller.show_curve(run, False)
    assert program.controller.model.styles() == {}
    for run in (runs[3], runs[1]):
        program.controller.show_curve(run, True)
    assert program.controller.model.styles() == {runs[3]: 0, runs[1]: 1}
    program.controller.show_curve(runs[3], False)
    program.controller.show_curve(runs[0], True)
    assert program.controller.model.styles() == {runs[1]: 1, runs[0]: 0}, "who stays keeps its style"
    swatches = {row.id: row.index for row in program.window.bottom.model.rows()}
    assert swatches == {runs[0]: 0, runs[1]: 1, runs[2]: -1, runs[3]: -1}


def test_a_run_that_diverged_says_so_in_the_colour_of_a_warning(program: Program, session: FakeSession) -> None:
    run = session.add("softmax", learning_rate=900.0).begin(100)
    wild = np.full(60, np.nan, "<f4").tobytes()
    run.feed(Points(schema=1, first=0, count=60, seconds=1.0, clock=1.0, values=(wild, wild)))
    run.end()
    session.tell(new=frozenset((run.id,)))
    program.controller.bridge.tick()
    program.controller.select(run.id)
    card = program.window.run_view.card
    assert card.pill.accessibleName() == "State: Diverged"
    row = next(row for row in program.window.bottom.model.rows() if row.id == run.id)
    assert (row.text("state"), row.state) == ("Diverged at step 0", "Diverged")


def test_each_value_has_the_scale_of_its_plot_until_a_person_chooses_another(open_window: Opener) -> None:
    program = open_window(fakes.example_session(), size=(1440, 900))
    program.tab(CompareTab).open()
    view = program.tab(CompareTab)

    def choose(metric: str) -> None:
        view.value.setCurrentIndex(view.value.findData(metric))

    choose("loss")
    assert view.log.isChecked(), "as in the Run tab"
    assert view.options().log
    choose("test_accuracy")
    assert not view.log.isChecked()
    view.log.click()
    choose("loss")
    view.log.click()
    choose("test_accuracy")
    assert view.log.isChecked()
    choose("loss")
    assert not view.log.isChecked()
    program.controller.open_exercise("linear-regression")
    assert view.scales == {"softmax test_accuracy": True, "softmax loss": False}
