"""*Play*: each change is trained at once, one row for all tries, and runs that somebody asked for go first."""

from __future__ import annotations

from typing import Literal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QSlider

from clew_gui.app import Program
from clew_gui.views.form.fields import NumberEdit, NumberSlider, slider_ends
from clew_gui.views.plots.pictures import PicturesView
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Evaluation
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import ParamSpec, Value, convert
from clew_shared.run_settings import RunNote
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
    return [(what, more[0].params["learning_rate"] if what in ("start", "play") else more[0]) for what, *more in found]  # type: ignore[attr-defined]


def the_try(program: Program) -> fakes.FakeRun:
    run = [*program.controller.model.session.runs.values()][-1]
    assert isinstance(run, fakes.FakeRun)
    return run


def change(program: Program, name: str, value: Value) -> None:
    program.window.next_run.form.row(name).editor.set_value(value)


def tick(program: Program) -> None:
    program.controller.bridge.tick()


def test_a_change_is_trained_at_once_in_the_one_row_of_all_tries(program: Program) -> None:
    window = program.window
    window.next_run.play.click()
    first = the_try(program)
    assert asked(program) == [("play", 0.03)]
    first.begin(2000).train(100)
    change(program, "units", 3)
    assert [what for what, _ in asked(program)] == ["discard", "play"]
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
    assert asked(program) == [("play", 0.03)], "it has shown nothing so far"
    the_try(program).begin(2000).train(100)
    tick(program)
    assert [what for what, _ in asked(program)] == ["discard", "play"]
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
    assert asked(program) == [("discard", run.id), ("play", 0.2)], "it has ended"


def test_a_change_that_came_too_late_is_trained_again(program: Program) -> None:
    session = program.controller.model.session
    assert isinstance(session, fakes.FakeSession)
    program.window.next_run.play.click()
    run = the_try(program)
    run.begin(2000).train(100)
    session.set_live = lambda run, *_: session._ask("live", run)  # type: ignore[method-assign]  # it never acts
    asked(program)
    change(program, "learning_rate", 0.1)
    session.tell(problems=[Problem("run.not_running", "This run is not running.")])
    run.train(1900).end()
    tick(program)
    assert asked(program) == [("live", run.id), ("discard", run.id), ("play", 0.1)]
    assert not program.window.messages.isVisible()


def test_a_try_that_somebody_used_or_that_reached_a_goal_is_kept(program: Program) -> None:
    form = program.window.next_run
    form.play.click()
    run = the_try(program)
    run.begin(2000).train(2000).end()
    run.note = RunNote(name="the best one")
    asked(program)
    change(program, "units", 5)
    assert asked(program) == [("keep", run.id), ("play", 0.03)]
    the_try(program).begin(2000).train(2000).end()
    change(program, "shape", "spirals")
    for became, units, why in (("keep", 6, "the first one that reaches this goal"), ("discard", 7, "another run does")):
        run = the_try(program)
        run.begin(2000).train(2000)
        run.feed(Evaluation(step=2000, values={"test_accuracy": 0.99}, time=1.0))
        run.end()
        asked(program)
        change(program, "units", units)
        assert asked(program) == [(became, run.id), ("play", 0.03)], why
    chosen, run = program.controller.model.choices, the_try(program)
    run.begin(2000).train(2000).end()
    chosen.report.add(run.id)
    asked(program)
    change(program, "units", 8)
    assert asked(program)[0] == ("discard", run.id), "the report took it by itself"
    run = the_try(program)
    run.begin(2000).train(2000).end()
    program.controller.model.choose_report((run.id,))
    change(program, "units", 9)
    assert ("keep", run.id) in asked(program), "a person ticked it for the report"


def test_a_refusal_leaves_no_try_behind_and_another_change_begins_one(program: Program) -> None:
    session, form = program.controller.model.session, program.window.next_run
    assert isinstance(session, fakes.FakeSession)
    form.play.click()
    the_try(program).begin(2000).train(2000).end()
    session.refusal = ProblemError(Problem("session.disk", "The disk is full."))
    change(program, "units", 5)
    assert program.window.messages.isVisible()
    session.refusal = None
    asked(program)
    change(program, "units", 6)
    assert [what for what, _ in asked(program)][-1] == "play"
    assert the_try(program).spec.params["units"] == 6


def test_values_of_another_exercise_are_never_trained(program: Program) -> None:
    form = program.window.next_run
    form.play.click()
    the_try(program).begin(2000).train(2000).end()
    form.play.click()
    program.controller.open_exercise("linear-regression")
    field = form.form.row("steps").editor
    assert isinstance(field, QLineEdit)
    field.setText("many")
    assert not form.play.isEnabled()
    asked(program)
    form.play.setChecked(True)
    tick(program)
    assert asked(program) == []


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
    assert asked(program) == [("discard", mine.id), ("play", 0.03)]


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
    assert asked(program) == [("play", 0.03)]
    assert program.window.bottom.model.rowCount() == 3


@pytest.mark.parametrize("leave", ["switch", "exercise", "run"])
def test_it_stops_with_its_exercise_or_a_run_and_the_last_try_stays(program: Program, leave: str) -> None:
    form = program.window.next_run
    form.play.click()
    run = the_try(program)
    run.begin(2000).train(100)
    asked(program)
    assert form.form.findChildren(NumberSlider)
    if leave == "switch":
        form.play.click()
    elif leave == "exercise":
        program.controller.open_exercise("softmax")
    else:
        form.ask_run()
    assert asked(program)[:2] == [("stop", run.id), ("keep", run.id)]
    assert not form.play.isChecked()
    assert not [one for one in form.form.findChildren(NumberSlider) if one.isVisibleTo(form)]
    change(program, "learning_rate", 0.5)
    assert "discard" not in [what for what, _ in asked(program)]


def test_it_goes_on_while_the_guide_is_read_and_a_change_shows_its_curve(program: Program) -> None:
    window = program.window
    window.next_run.play.click()
    the_try(program).begin(2000).train(100)
    asked(program)
    window.head.goal.click()
    assert (window.head.tabs.currentIndex(), window.next_run.play.isChecked(), asked(program)) == (0, True, [])
    change(program, "units", 3)
    assert [what for what, _ in asked(program)] == ["discard", "play"]
    assert window.head.tabs.currentIndex() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_one_button_called_play_looks_like_a_switch(program: Program, theme: Literal["light", "dark"]) -> None:
    program.actions.choose_theme(theme)
    QTest.qWait(1)
    buttons = program.window.findChildren(QAbstractButton)
    play = program.window.next_run.play
    assert [one for one in buttons if "Play" in (one.text().strip(), *one.accessibleName().split())] == [play]

    def picture() -> QImage:
        return play.icon().pixmap(16).toImage()

    off = picture()
    assert not off.isNull()
    play.click()
    assert picture() != off
    play.click()
    assert picture() == off


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


def test_a_try_that_has_shown_nothing_leaves_no_row(program: Program) -> None:
    program.window.next_run.play.click()
    run = the_try(program)
    asked(program)
    program.window.next_run.play.click()
    assert asked(program) == [("discard", run.id)]
    assert program.window.bottom.model.rowCount() == 1


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

    def slider_of(name: str) -> QSlider:
        found = form.form.row(name)._slider
        assert isinstance(found, QSlider)
        return found

    def pressed(name: str, key: Qt.Key, times: int = 1) -> object:
        for _ in range(times):
            QTest.keyClick(slider_of(name), key)
        return form.form.row(name).value

    form.form.row("learning_rate").editor.set_value(0.03)
    assert slider_of("learning_rate").value() == 100, "the default is in the middle"
    assert pressed("learning_rate", Qt.Key.Key_Right) == pytest.approx(0.031)
    assert slider_of("learning_rate").accessibleDescription() == "0.031"
    assert pressed("layers", Qt.Key.Key_Right) == 2
    assert pressed("layers", Qt.Key.Key_End) == 6
    assert pressed("units", Qt.Key.Key_Right, 40) == 8
    assert pressed("noise", Qt.Key.Key_Home) == 0
    assert pressed("noise", Qt.Key.Key_Right, 2) == pytest.approx(0.01)
    assert pressed("l2", Qt.Key.Key_Right) > 0  # type: ignore[operator]
    assert pressed("l2", Qt.Key.Key_Home) == 0, "which has no logarithm"


BUILT_IN = [spec for card in load_builtin().exercises for spec in card.params if slider_ends(spec) is not None]
ODD = [
    ParamSpec(name="a", kind="float", label="A", default=0.5, gt=0.0, lt=1.0),
    ParamSpec(name="a", kind="float", label="A", default=0.7, ge=0.5, lt=1.0),
    ParamSpec(name="a", kind="float", label="A", default=-2.0),
    ParamSpec(name="a", kind="float", label="A", default=-2.0, log=True),
    ParamSpec(name="a", kind="int", label="A", default=0, ge=0, log=True),
    ParamSpec(name="a", kind="int", label="A", default=0),
]


@pytest.mark.usefixtures("qtbot")
def test_every_place_of_a_slider_is_a_value_that_runs() -> None:
    for spec in (*BUILT_IN, *ODD):
        ends = slider_ends(spec)
        assert ends is not None
        editor = NumberEdit(spec)
        editor.set_value(spec.default)
        slider = NumberSlider(spec, editor, ends)
        for place in range(slider.maximum() + 1):
            value, problem = convert(spec, slider.value_at(place))
            assert problem is None, (spec.name, place, value)
        assert len({slider.value_at(place) for place in range(slider.maximum() + 1)}) > 1
    fixed = ParamSpec(name="a", kind="int", label="A", default=2, ge=2, le=2)
    assert slider_ends(fixed) is None
