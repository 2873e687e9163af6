"""*Play*: each change is trained at once, one row for all tries, and runs that somebody asked for go first."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QSlider

from clew_gui.app import Program
from clew_gui.views.form.fields import NumberSlider
from clew_gui.views.plots.pictures import PicturesView
from clew_shared.catalogue import load_builtin
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener


@pytest.fixture
def program(open_window: Opener) -> Program:
    """A window on an exercise that plays, with one run of before."""
    session = fakes.FakeSession()
    session.add("perceptron").begin(100).train(100).end()
    return open_window(session, catalogue=load_builtin(), exercise="perceptron")


def asked(program: Program) -> list[tuple[object, ...]]:
    """What was asked of the session since the last call: what, and of which run or rate."""
    session = program.controller.model.session
    assert isinstance(session, fakes.FakeSession)
    found, session.asked = session.asked, []
    return [(what, more[0].params["learning_rate"] if what == "start" else more[0]) for what, *more in found]  # type: ignore[attr-defined]


def the_try(program: Program) -> fakes.FakeRun:
    run = [*program.controller.model.session.runs.values()][-1]
    assert isinstance(run, fakes.FakeRun)
    return run


def change(program: Program, name: str, value: float | int) -> None:
    program.window.next_run.form.row(name).editor.set_value(value)


def tick(program: Program) -> None:
    program.controller.bridge.tick()


def test_a_change_is_trained_at_once_in_the_one_row_of_all_tries(program: Program) -> None:
    window = program.window
    window.next_run.play.click()
    first = the_try(program)
    assert asked(program) == [("start", 0.03)]
    first.begin(2000).train(100)
    change(program, "units", 3)
    assert [what for what, _ in asked(program)] == ["discard", "start"]
    second = the_try(program)
    assert second.spec.params["units"] == 3
    assert window.bottom.model.rowCount() == 2, "the run of before, and one try"
    assert program.controller.model.selected == second.id
    assert first.id not in program.controller.model.shown()
    change(program, "units", 3)
    assert asked(program) == [], "the same again"


def test_while_a_knob_moves_a_try_follows_when_the_one_before_has_shown_something(program: Program) -> None:
    program.window.next_run.play.click()
    for units in (5, 6, 7):
        change(program, "units", units)
    assert asked(program) == [("start", 0.03)], "it has shown nothing so far"
    the_try(program).begin(2000).train(100)
    tick(program)
    assert [what for what, _ in asked(program)] == ["discard", "start"]
    assert the_try(program).spec.params["units"] == 7, "the last value, and none between"


def test_what_may_change_live_acts_on_the_running_try(program: Program) -> None:
    program.window.next_run.play.click()
    run = the_try(program)
    run.begin(2000).train(100)
    asked(program)
    change(program, "learning_rate", 0.1)
    assert asked(program) == [("live", run.id)]
    run.train(1900).end()
    change(program, "learning_rate", 0.2)
    assert asked(program) == [("discard", run.id), ("start", 0.2)], "it has ended"


def test_runs_that_somebody_asked_for_go_first(program: Program) -> None:
    session, form = program.controller.model.session, program.window.next_run
    assert isinstance(session, fakes.FakeSession)
    form.play.click()
    mine = the_try(program)
    mine.begin(2000).train(100)
    other = session.add("softmax")
    asked(program)
    tick(program)
    tick(program)
    assert asked(program) == [("stop", mine.id)]
    assert form.play.toolTip() == f"Run {other.number} goes first"
    mine.end(RunState.STOPPED)
    tick(program)
    assert asked(program) == []
    other.begin(10).train(10).end()
    tick(program)
    assert asked(program) == [("discard", mine.id), ("start", 0.03)]


def test_a_kept_try_stays_and_the_next_change_is_another_one(program: Program) -> None:
    form = program.window.next_run
    form.play.click()
    run = the_try(program)
    run.begin(2000).train(2000).end()
    asked(program)
    form.keep.click()
    assert asked(program) == [("keep", run.id)]
    tick(program)
    assert asked(program) == [], "nothing was changed"
    change(program, "units", 3)
    assert asked(program) == [("start", 0.03)]
    assert program.window.bottom.model.rowCount() == 3


@pytest.mark.parametrize("leave", ["switch", "tab", "exercise", "run"])
def test_it_stops_when_the_page_is_left_and_the_last_try_stays(program: Program, leave: str) -> None:
    form = program.window.next_run
    form.play.click()
    run = the_try(program)
    run.begin(2000).train(100)
    asked(program)
    assert form.form.findChildren(NumberSlider)
    if leave == "switch":
        form.play.click()
    elif leave == "tab":
        program.window.show_tab(0)
    elif leave == "exercise":
        program.controller.open_exercise("softmax")
    else:
        form.ask_run()
    assert asked(program)[:2] == [("stop", run.id), ("keep", run.id)]
    assert not form.play.isChecked()
    assert not [one for one in form.form.findChildren(NumberSlider) if one.isVisibleTo(form)]
    change(program, "learning_rate", 0.5)
    assert "discard" not in [what for what, _ in asked(program)]


def test_a_click_on_the_networks_drawing_is_trained_inside_the_limits(program: Program) -> None:
    form = program.window.next_run
    drawing = program.window.run_view.plots.page_of(PicturesView)
    form.play.click()
    the_try(program).begin(2000).train(100)
    drawing.picked.emit("units+")
    assert the_try(program).spec.params["units"] == 5
    form.form.row("layers").editor.set_value(0)
    drawing.picked.emit("layers-")
    assert form.form.row("layers").value == 0
    drawing.picked.emit("strangers+")


def test_only_small_exercises_play_and_a_wrong_value_starts_nothing(program: Program) -> None:
    form = program.window.next_run
    form.play.click()
    the_try(program).begin(2000).train(100)
    asked(program)
    field = form.form.row("units").editor
    assert isinstance(field, QLineEdit)
    field.setText("many")
    assert asked(program) == []
    program.controller.open_exercise("cnn")
    assert not form.play.isVisibleTo(form)


def test_a_slider_and_its_number_follow_each_other_inside_the_limits(program: Program) -> None:
    form = program.window.next_run
    form.play.click()
    for form_row in (form.form.row(name) for name in ("learning_rate", "units", "layers", "noise", "momentum")):
        slider = form_row._slider
        assert isinstance(slider, QSlider)
        for place in (slider.minimum(), slider.maximum()):
            slider.setValue(place)
            assert form_row.problem is None, form_row.spec.name
    row = form.form.row("learning_rate")
    assert row._slider is not None
    row.editor.set_value(0.03)
    assert row._slider.value() == 100, "the default is in the middle"
    QTest.keyClick(row._slider, Qt.Key.Key_Right)
    assert row.value == pytest.approx(0.031)
