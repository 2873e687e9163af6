"""A race from the window: put together, queued, drawn over each other, with places that follow the runs."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.tokens import LIGHT
from clew_gui.views.form.fields import LaneEdit
from clew_gui.views.form.form import FormDialog
from clew_gui.views.plots.pages import MeasuredView
from clew_gui.views.runs.study_bar import RaceEntry, StudyBar
from clew_gui.views.runs.study_dialogs import shared_words
from clew_gui.views.theme.parts import Appearance, Button
from clew_shared.cards import MetricSpec
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Attempt, Points, Schema, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import check
from clew_shared.study.study import StudySpec
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def program(open_window: Opener, session: FakeSession) -> Program:
    """The built-in exercises, linear regression open."""
    return open_window(session, exercise="linear-regression", catalogue=load_builtin())


@pytest.fixture
def dialog(program: Program) -> FormDialog:
    program.window.next_run.race.trigger()
    return opened(program)


def opened(program: Program) -> FormDialog:
    return [one for one in program.window.findChildren(FormDialog) if one.isVisible()][-1]


def lanes(dialog: FormDialog) -> list[LaneEdit]:
    found = [dialog.form.row(f"lane {place}").editor for place in range(1, 7)]
    return [one for one in found if isinstance(one, LaneEdit)]


def study(dialog: FormDialog) -> StudySpec:
    """What the dialog hands over."""
    found: list[StudySpec] = []
    dialog.asked.connect(found.append)
    dialog.go.click()
    return found[0]


def train(run: FakeRun, metrics: tuple[MetricSpec, ...], *losses: float) -> None:
    """These losses as the run's first steps; W and b fall with them."""
    values = np.array(losses, "<f8")
    run.feed(
        Attempt(format=1, run=run.id, attempt=1, exercise=run.spec.exercise, spec_sha256="", steps=400),
        Schema(id=1, metrics=metrics),
        State(state=RunState.RUNNING),
        Points(
            schema=1,
            first=0,
            count=len(losses),
            seconds=0.1,
            clock=0.1,
            values=tuple((values * (1 if metric.name == "loss" else 0.01)).tobytes() for metric in metrics),
        ),
    )


def test_the_dialog_says_who_runs_how_far_and_what_is_the_same(dialog: FormDialog) -> None:
    names = [dialog.form.row(f"lane {place}").label.text() for place in range(1, 7)]
    assert names == ["SGD", "Momentum", "Nesterov", "Adagrad", "RMSprop", "Adam"]
    assert all(lane.box.isChecked() for lane in lanes(dialog))
    assert dialog.focusWidget() is lanes(dialog)[0].box
    assert dialog.form.values()["steps"] == 400
    assert dialog.go.accessibleName() == "Start 6 runs"
    made = study(dialog)
    assert (made.steps, made.metric, made.target) == (400, "loss", 0.001)
    assert made.base.seed == 1


def test_what_all_lanes_share_is_told_from_the_form(open_window: Opener) -> None:
    program = open_window(catalogue=load_builtin())
    form = program.window.next_run
    form.form.row("order").editor.set_value("shuffle")
    form.form.row("batch_size").editor.set_value(50)
    form.data_choice.use("digits")
    card = program.controller.model.card
    shared = shared_words(card, form.spec())
    assert shared == "seed 1, Digits, built in, schedule constant, batch size 50, shuffled"
    form.race.trigger()
    dialog = opened(program)
    assert dialog.summary.text().startswith("25,000 images each. Everything else is as in the form: seed 1, Digits")
    assert study(dialog).base.data == "digits"


def test_lanes_rates_and_budget_may_be_changed_and_mistakes_are_told(dialog: FormDialog) -> None:
    for lane in lanes(dialog)[2:]:
        lane.box.setChecked(False)
        assert not lane.rate.isEnabled()
    rate, height = lanes(dialog)[1].rate, dialog.height()
    rate.setText("-1")
    assert dialog.height() > height
    assert not dialog.go.isEnabled()
    assert dialog.go.toolTip().startswith("Momentum: ")
    assert dialog.form.row("lane 2").error.text().startswith("Must be ")
    rate.setText("0.02")
    assert dialog.height() == height, "as high as before anything was wrong"
    for lane in lanes(dialog)[:2]:
        lane.box.setChecked(False)
    assert dialog.error.text() == "No lane is chosen."
    dialog.go.click()
    assert dialog.isVisible()
    for lane in lanes(dialog)[:2]:
        lane.box.setChecked(True)
    dialog.form.row("steps").editor.set_value(50)
    made = study(dialog)
    assert [lane.values["learning_rate"] for lane in made.lanes] == [0.01, 0.02]
    assert made.steps == 50


def test_the_runs_are_asked_for_one_after_the_other_and_drawn_alone(
    program: Program, session: FakeSession, qtbot: QtBot
) -> None:
    before = session.add("linear-regression", optimizer="sgd", learning_rate=0.03)
    session.tell(new=frozenset((before.id,)))
    qtbot.waitUntil(lambda: program.controller.model.run() is not None)
    program.window.next_run.race.trigger()
    opened(program).go.click()
    specs = [what[1] for what in session.asked if what[0] == "start"]
    assert len(specs) == 6
    assert len({spec.study for spec in specs}) == 1  # type: ignore[attr-defined]
    shown = program.controller.model.shown()
    optimizers = ["sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam"]
    assert [session.runs[run].spec.params["optimizer"] for run in shown] == optimizers
    assert before.id not in shown
    card = program.controller.model.card
    same = [{**check(card.params, session.runs[run].spec.params)[0]} for run in shown]
    for values in same:
        del values["optimizer"], values["learning_rate"]
    assert all(values == same[0] for values in same)


def test_enter_on_cancel_starts_nothing(program: Program, session: FakeSession) -> None:
    program.window.next_run.race.trigger()
    dialog = opened(program)
    cancel = next(one for one in dialog.findChildren(Button) if one.text() == "Cancel")
    cancel.setFocus()
    QTest.keyClick(cancel, Qt.Key.Key_Return)
    assert dialog.isHidden()
    assert not [what for what in session.asked if what[0] == "start"]


def test_places_follow_the_runs_and_a_click_selects_one(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    program.window.resize(1440, 1100)
    program.window.next_run.race.trigger()
    opened(program).go.click()
    bar, card = program.window.run_view.study, program.controller.model.card
    assert bar.isVisible()
    runs = list(session.runs.values())
    assert [entry.place for entry in bar.entries] == [0] * 6
    assert program.controller.model.run() is runs[0]
    assert program.window.bottom.table.current() == runs[0].id
    train(runs[2], card.metrics, 23.0, 0.1, 0.0009)
    train(runs[0], card.metrics, 23.0, 5.0, 4.0)
    runs[0].end()
    train(runs[5], card.metrics, 23.0, 0.0005)
    session.tell(states=frozenset(run.id for run in runs), points=frozenset((runs[0].id, runs[2].id, runs[5].id)))
    qtbot.waitUntil(lambda: bar.entries[0].place == 1)
    program.actions.studies.refresh()
    assert [entry.words for entry in bar.entries[:4]] == [
        "1 Adam 0.2, step 1",
        "2 Nesterov 0.01, step 2",
        "3 SGD 0.01, best loss 4",
        "Momentum 0.01, queued",
    ]
    assert program.controller.model.run() is runs[5], "the run at work is on the card"
    bar.chips[1].click()
    assert program.controller.model.run() is runs[2]
    assert bar.accessibleName().startswith("Optimizer race: 1 Adam 0.2, step 1; 2 Nesterov 0.01, step 2")
    bar.close_button.click()
    assert not bar.isVisible()


def test_without_a_race_there_is_no_button_and_no_strip(open_window: Opener) -> None:
    program = open_window()
    assert not program.window.next_run.race.isVisible()
    program.actions.studies.ask_race()
    assert program.window.findChildren(FormDialog) == []
    assert program.window.run_view.study.isHidden()
    assert program.window.run_view.controls.pages.isHidden()


def test_a_refused_race_starts_nothing_more(program: Program, session: FakeSession) -> None:
    from clew_shared.base.problem import problem

    session.refusal = problem("run.refused", "No room.")
    program.window.next_run.race.trigger()
    opened(program).go.click()
    assert len([what for what in session.asked if what[0] == "start"]) == 1
    assert program.window.messages.problems()[0].text == "No room."


def test_the_surface_is_a_page_of_the_run_tab_and_beside_the_curves_where_there_is_room(
    open_window: Opener, qtbot: QtBot
) -> None:
    program = open_window(exercise="linear-regression", catalogue=load_builtin(), size=(1280, 800))
    controls, plots = program.window.run_view.controls, program.window.run_view.plots
    program.window.show_tab(1)
    qtbot.waitUntil(lambda: controls.pages.isVisible())
    pages = [plots.page]
    for width, page in ((1920, "both"), (1280, "curves")):
        program.window.resize(width, 800)
        qtbot.waitUntil(lambda page=page: plots.page == page)  # type: ignore[misc]
    assert controls.pages.button("both").isHidden()
    controls.pages.button("surface").click()
    pages.append(plots.page)
    assert controls.units.isHidden()
    program.controller.open_exercise("imagenet-bench")
    qtbot.waitUntil(lambda: controls.pages.isHidden())
    pages.append(plots.page)
    assert not controls.units.isHidden()
    program.controller.open_exercise("linear-regression")
    qtbot.waitUntil(lambda: controls.pages.isVisible())
    assert [*pages, plots.page] == ["curves", "surface", "curves", "surface"], "what a person chose stays"


def test_a_measurement_has_the_page_of_its_measured_plots(open_window: Opener, qtbot: QtBot) -> None:
    program = open_window(exercise="vectorize", catalogue=load_builtin(), size=(1280, 800))
    controls, plots = program.window.run_view.controls, program.window.run_view.plots
    program.window.show_tab(1)
    qtbot.waitUntil(lambda: plots.page == "measured")
    assert controls.units.isHidden()
    assert controls.smoothing.isHidden()
    assert controls.pages.isHidden()
    controls.log.click()
    assert not plots.page_of(MeasuredView).view.log_y
    program.controller.open_exercise("linear-regression")
    qtbot.waitUntil(lambda: controls.pages.isVisible())
    assert (plots.page, controls.units.isHidden()) == ("curves", False)
    program.controller.open_exercise("vectorize")
    qtbot.waitUntil(lambda: plots.page == "measured")


def test_a_chip_is_as_wide_as_its_words(qtbot: QtBot) -> None:
    bar = StudyBar(Appearance(LIGHT))
    qtbot.addWidget(bar)
    lanes = [RaceEntry(place, str(place), place, "Momentum 0.0125", "best loss 0.0000123") for place in range(1, 7)]
    bar.show_study("Optimizer race", "", lanes)
    for width in (700, 830, 1140, 1400):
        bar.resize(width, 200)
        bar.show()
        assert all(chip.width() >= chip.sizeHint().width() for chip in bar.findChildren(Button)), width
