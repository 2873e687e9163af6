"""A sweep from the window: many values in one dialog, its forecast, and what is left of one that was interrupted; and a
prediction."""

from __future__ import annotations

import re
import time

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.charts.kit.ticks import XUnit
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.session.kept_studies import kept_study, study_lock
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_gui.views.form.fields import ManyChoices
from clew_gui.views.form.form import FormDialog
from clew_gui.views.form.next_run import AGAIN_S
from clew_gui.views.theme.dialog import Question
from clew_gui.views.theme.parts import Button
from clew_shared.base.places import Places
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Predicted, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import Prediction, RateRange
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeSession


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def program(open_window: Opener, session: FakeSession) -> Program:
    return open_window(session, exercise="linear-regression", catalogue=load_builtin())


def opened(program: Program) -> FormDialog:
    program.window.next_run.sweep.trigger()
    return shown(program)


def shown(program: Program) -> FormDialog:
    """The dialog that was opened last."""
    return [one for one in program.window.findChildren(FormDialog) if one.isVisible()][-1]


def write(dialog: FormDialog, name: str, text: str) -> None:
    dialog.form.row(name).editor.set_value(text)


def test_several_values_become_runs_that_are_steered_together(program: Program, session: FakeSession) -> None:
    dialog = opened(program)
    assert not dialog.go.isEnabled()
    assert dialog.error.text() == "", "nothing is red before anything is typed"
    assert dialog.summary.text().startswith("No setting has several values yet.")
    write(dialog, "learning_rate", "0.01 to 10000 log 2")
    assert "at most" in dialog.form.row("learning_rate").error.text(), "the exercise's own limits hold for each value"
    write(dialog, "learning_rate", "0.001 to 0.1 log 3")
    write(dialog, ".seeds", "1, 2")
    assert dialog.go.text().strip() == "Start 6 runs"
    assert dialog.summary.text() == "6 runs. How long they take is known after the first run."
    dialog.go.click()
    runs = list(session.runs.values())
    assert [(run.spec.params["learning_rate"], run.spec.seed) for run in runs] == [
        (rate, seed) for seed in (1, 2) for rate in (0.001, 0.01, 0.1)
    ]
    assert runs[1].spec.name == "learning rate 0.01, seed 1"
    study = kept_study(program.places, runs[0].spec.study)
    assert study is not None, "it can be continued by another program as well"
    other = session.add("linear-regression")
    for place, run in enumerate([other, *runs[2:]], start=1):
        run.queue = place
    runs[0].begin(500)
    session.tell(states=frozenset(session.runs))
    program.controller.select(runs[3].id)
    program.controller.curves_changed.emit()
    bar = program.window.run_view.study
    assert bar.title.text() == "Sweep", "the exercise's title is above"
    assert bar.sentence.whole() == "0 of 6 runs finished, 1 under way, 5 waiting"
    assert bar.pause.text().strip() == "Pause"
    bar.pause.click()
    program.controller.curves_changed.emit()
    assert session.asked[-1] == ("pause", runs[0].id)
    assert bar.pause.text().strip() == "Resume"
    bar.pause.click()
    assert session.asked[-1] == ("unpause", runs[0].id)
    bar.first.trigger()
    assert [run.queue for run in runs[2:]] == [1, 2, 3, 4], "in their own order, before the other run"
    bar.last.trigger()
    assert (other.queue, [run.queue for run in runs[2:]]) == (1, [2, 3, 4, 5])


def test_choices_are_ticked_and_numbers_need_no_blanks(open_window: Opener, session: FakeSession) -> None:
    program = open_window(session)
    dialog = opened(program)
    optimizer = dialog.form.row("optimizer").editor
    assert isinstance(optimizer, ManyChoices)
    assert [entry.text() for entry in optimizer.entries.values()][:2] == ["SGD", "Momentum"]
    optimizer.entries["adam"].trigger()
    assert optimizer.raw() == "sgd, adam"
    assert optimizer.text().strip() == "SGD, Adam", "in words"
    write(dialog, "learning_rate", "0.01,0.1")
    write(dialog, "steps", "1,000")
    assert dialog.go.text().strip() == "Start 4 runs"
    dialog.go.click()
    assert {run.spec.params["optimizer"] for run in session.runs.values()} == {"sgd", "adam"}
    assert {run.spec.params["learning_rate"] for run in session.runs.values()} == {0.01, 0.1}
    assert {run.spec.params["steps"] for run in session.runs.values()} == {1000}
    names = [f"{optimizer} {rate}" for optimizer in ("sgd", "adam") for rate in (0.01, 0.1)]
    assert sorted(run.spec.name for run in session.runs.values()) == sorted(names), "what varies, and nothing else"


def test_a_range_is_put_together_from_its_ends(program: Program) -> None:
    dialog = opened(program)
    next(one for one in dialog.findChildren(Button) if one.accessibleName() == "Range of Learning rate").click()
    ends = shown(program)
    write(ends, "low", "0.001")
    assert not ends.go.isEnabled()
    write(ends, "high", "0.1")
    write(ends, "many", "3")
    assert ends.form.values()["log"], "a rate is best looked at by its logarithm"
    ends.go.click()
    assert dialog.form.row("learning_rate").editor.raw() == "0.001 to 0.1 log 3"
    assert dialog.go.text().strip() == "Start 3 runs"


def test_the_seeds_come_first_and_the_button_stays_where_it_is(program: Program) -> None:
    dialog = opened(program)
    QApplication.processEvents()
    before = dialog.go.mapTo(dialog, QPoint())
    write(dialog, ".seeds", "1,2,3")
    QApplication.processEvents()
    assert dialog.go.mapTo(dialog, QPoint()) == before
    fields = [one.accessibleName() for one in dialog.findChildren(QLineEdit)]
    assert fields[0] == "Seeds"


def test_a_sweep_on_a_site_says_where_and_at_what_cost(open_window: Opener, places: Places, qtbot: QtBot) -> None:
    asked = AllocationRequest(time="01:00:00", nodes=2)
    site_store(places).save("cave", Site(title="The Cave", host="login.invalid", scheduler="slurm", allocation=asked))
    program = open_window(FakeSession())
    program.window.next_run.where.choose("site:cave")
    dialog = opened(program)
    write(dialog, ".seeds", "1, 2")
    assert dialog.summary.text() == "2 runs in one job on The Cave: 2 nodes, at most 2 node-hours."


def test_what_is_left_of_a_sweep_is_continued_or_cancelled(program: Program, session: FakeSession) -> None:
    dialog = opened(program)
    write(dialog, "learning_rate", "0.001 to 0.1 log 3")
    write(dialog, ".seeds", "1, 2")
    dialog.go.click()
    runs = list(session.runs.values())
    bar = program.window.run_view.study
    assert not bar.go_on.isVisibleTo(bar), "all of them wait"
    runs[0].feed(State(state=RunState.FINISHED))
    bar.end.click()
    assert {ask[1] for ask in session.asked if ask[0] == "stop"} == {run.id for run in runs[1:]}
    for run in runs[2:]:
        del session.runs[run.id]
    session.tell(states=frozenset(session.runs))
    program.controller.select(runs[0].id)
    program.controller.curves_changed.emit()
    assert bar.sentence.whole() == "1 of 6 runs finished, 1 stopped or failed, 4 not started"
    assert not bar.end.isVisibleTo(bar)
    bar.go_on.click()
    name, again, missing, place = next(one for one in session.asked if one[0] == "continue_study")
    assert (name, again, place) == ("continue_study", (runs[1].id,), None)
    assert [spec.params["learning_rate"] for spec in missing] == [0.1, 0.001, 0.01, 0.1]  # type: ignore[attr-defined]


def test_a_sweep_that_is_done_says_which_run_is_the_best(open_window: Opener, session: FakeSession) -> None:
    program = open_window(session, exercise="softmax", catalogue=load_builtin())
    dialog = opened(program)
    write(dialog, "learning_rate", "0.01, 0.05, 0.1")
    dialog.go.click()
    bar = program.window.run_view.study
    for run, accuracy in zip(session.runs.values(), (0.5, 0.91, 0.8), strict=True):
        run.begin(2).train(2).evaluate(accuracy).end()
    session.tell(states=frozenset(session.runs))
    program.controller.select(next(iter(session.runs)))
    program.controller.curves_changed.emit()
    best = "best test accuracy 91.00 % in run 2, learning rate 0.05"
    assert bar.sentence.whole() == f"3 of 3 runs finished, {best}"
    assert bar.isVisible()
    bar.close_button.click()
    assert not bar.isVisible()


def test_a_sweep_that_a_terminal_is_doing_is_not_continued_here(program: Program, session: FakeSession) -> None:
    dialog = opened(program)
    write(dialog, "learning_rate", "0.001 to 0.1 log 3")
    dialog.go.click()
    runs = list(session.runs.values())
    runs[0].feed(State(state=RunState.FINISHED))
    for run in runs[1:]:
        del session.runs[run.id]
    lock = study_lock(program.places, runs[0].spec.study)
    assert lock.acquire()
    program.controller.select(runs[0].id)
    program.controller.curves_changed.emit()
    bar = program.window.run_view.study
    assert bar.sentence.whole() == "1 of 3 runs finished, 2 not started; another program is doing the rest"
    assert not bar.go_on.isVisibleTo(bar)
    program.actions.studies.go_on()
    assert not [ask for ask in session.asked if ask[0] == "continue_study"]
    lock.release()
    program.controller.curves_changed.emit()
    assert bar.go_on.isVisibleTo(bar), "that program has ended"


def test_what_is_left_of_a_sweep_asks_for_the_consent_that_its_site_needs(
    open_window: Opener, session: FakeSession, places: Places, qtbot: QtBot
) -> None:
    site_store(places).save("cave", Site(host="login.invalid", scheduler="slurm", prologue="true"))
    program = open_window(session, exercise="softmax", catalogue=load_builtin())
    dialog = opened(program)
    write(dialog, ".seeds", "1, 2")
    dialog.go.click()
    first, second = session.runs.values()
    first.feed(State(state=RunState.FINISHED))
    del session.runs[second.id]
    program.controller.select(first.id)
    program.window.next_run.where.choose("site:cave")
    program.actions.studies.go_on()
    qtbot.waitUntil(lambda: bool(program.window.findChildren(Question)))
    (asked,) = program.window.findChildren(Question)
    assert not [ask for ask in session.asked if ask[0] == "continue_study"]
    asked.accept()
    (ask,) = [ask for ask in session.asked if ask[0] == "continue_study"]
    assert ask[3].site == "cave"  # type: ignore[attr-defined]


def test_a_range_in_a_field_of_the_form_becomes_a_sweep(program: Program) -> None:
    form = program.window.next_run
    rate = form.form.row("learning_rate")
    for text, number in (("0.01..1", 5), ("0.1, 0.5, 1", 3), ("0.1,0.5,1", 3)):
        rate.editor.setText(text)  # type: ignore[union-attr]
        assert rate.offer.text().strip() == f"Sweep {number} values…"
        assert (form.run.isEnabled(), form.sweep.isEnabled()) == (False, True)
        assert form.run.toolTip() == f"Learning rate has {number} values: sweep them, or write one."
    rate.editor.setText("0.01..5000")  # type: ignore[union-attr]
    assert not form.sweep.isEnabled(), "a value that no run may have is no sweep either"
    assert "at most" in rate.error.text()
    rate.editor.setText("0.01..1")  # type: ignore[union-attr]
    rate.offer.click()
    dialog = shown(program)
    assert dialog.form.row("learning_rate").editor.raw() == "0.01 to 1 log 5", "rates differ by factors"
    assert dialog.go.text().strip() == "Start 5 runs"
    rate.editor.setText("0.2")  # type: ignore[union-attr]
    assert form.run.isEnabled()
    assert not rate.offer.isVisibleTo(form)


def test_several_seeds_in_the_form_become_a_sweep_with_just_these(program: Program) -> None:
    form = program.window.next_run
    seed = form.seed.row("seed")
    seed.editor.set_value("5,6,7")
    assert seed.offer.text().strip() == "Sweep 3 values…"
    assert (form.run.isEnabled(), form.sweep.isEnabled()) == (False, True)
    seed.offer.click()
    dialog = shown(program)
    assert dialog.form.row(".seeds").editor.raw() == "5, 6, 7"
    assert dialog.go.text().strip() == "Start 3 runs"


def test_no_sweep_is_offered_where_there_is_none(open_window: Opener, places: Places) -> None:
    """A sweep has the settings of the exercise and the seed, not how a run spreads and what a site gives it."""
    site_store(places).save("cave", Site(title="The Cave", host="login.invalid", scheduler="slurm"))
    form = open_window(FakeSession(), exercise="softmax", catalogue=load_builtin()).window.next_run
    form.spread.row("strategy").editor.set_value("multi-worker")
    form.where.choose("site:cave")
    assert form.where.form is not None
    for row in (form.where.form.form.row("nodes"), form.spread.row("nodes")):
        row.editor.set_value("1, 2")
        assert row.several is None
        assert "whole number" in row.error.text()
        assert not form.sweep.isEnabled()
        row.editor.set_value("2")
        assert form.sweep.isEnabled()


def test_a_range_test_says_at_which_rate_to_begin_and_puts_it_into_the_form(
    program: Program, session: FakeSession
) -> None:
    form = program.window.next_run
    form.range.trigger()
    dialog = shown(program)
    write(dialog, "low", "20")
    assert not dialog.go.isEnabled()
    assert "a higher highest one, got 20 and 10" in dialog.error.text()
    write(dialog, "low", "0.0001")
    dialog.go.click()
    (run,) = session.runs.values()
    assert run.spec.rate_range == RateRange(0.0001, 10.0)
    card = program.window.run_view.card
    run.begin(500)
    run.train(500)
    program.controller.curves_changed.emit()
    assert not card.take.isVisibleTo(card), "it has not ended"
    run.end()
    session.tell(states=frozenset(session.runs))
    program.controller.bridge.tick()
    found = re.fullmatch("The loss falls fastest at a learning rate of (.*) and is lowest at .*", card.found.whole())
    assert found is not None
    card.take.click()
    assert form.spec().params["learning_rate"] == float(found[1])
    form.use_spec(run.spec)
    assert form.spec().rate_range is None, "the next run is no test"
    view = program.window.run_view
    rate = view.controls.units.button(XUnit.RATE)
    assert rate.isVisible()
    rate.click()
    assert (view.plots.view.unit, view.plots.view.log_x) == (XUnit.RATE, True)
    assert view.plots.canvas.scene.grid.span.low == pytest.approx(-4, abs=0.1)
    program.controller.open_exercise("softmax")
    assert not rate.isVisible()
    assert (view.plots.view.unit, view.plots.view.log_x) == (XUnit.STEP, False)


def test_an_expected_value_goes_with_the_next_run_alone_and_is_shown_beside_its_result(
    program: Program, session: FakeSession, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = program.window.next_run
    form.predict.trigger()
    dialog = shown(program)
    assert dialog.focusWidget() is dialog.form.row("value").editor, "what a person types is the value"
    assert not dialog.go.isEnabled(), "nothing is expected"
    write(dialog, "metric", "loss")
    for wrong in ("much", "1e301"):
        write(dialog, "value", wrong)
        assert not dialog.go.isEnabled()
        assert dialog.error.text() or dialog.form.row("value").error.text()
    write(dialog, "value", "0.25")
    assert not dialog.error.text()
    assert not dialog.form.row("value").error.text()
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    expected = form.prediction
    assert expected is not None
    assert expected == Prediction("loss", (0, 1000), (0.25, 0.25))
    assert form._expected.text() == "Predicted: loss 0.25"
    form.run.click()
    form.clock = lambda: time.monotonic() + AGAIN_S  # a second click that is not one of a double click
    form.run.click()
    first, second = list(session.runs.values())[:2]
    assert (first.spec.prediction, second.spec.prediction) == (expected, None)
    first.begin(500)
    first.feed(Predicted(metric="loss", steps=expected.steps, values=expected.values))
    program.controller.select(first.id)
    plots = program.window.run_view.plots
    qtbot.waitUntil(lambda: any(one.ghost is not None and one.ghost.stays for one in plots.canvas.drawn_setups))
    found = program.window.run_view.card.found
    assert not found.isVisible(), "the run has not ended"
    first.train(500)
    first.end()
    session.tell(states=frozenset(session.runs))
    program.controller.bridge.tick()
    assert found.whole().startswith("Training loss: you predicted ")
    asked: list[object] = []
    monkeypatch.setattr("clew_gui.views.actions.panel_updater.prediction_words", asked.append)
    program.controller.panels.card()
    assert not asked, "it is worked out when something is new, not with each look at the card"


def test_the_dialog_says_which_seeds_change_nothing(open_window: Opener) -> None:
    program = open_window(FakeSession(), catalogue=load_builtin(), size=(1280, 800))
    program.window.next_run.sweep.trigger()
    dialog = opened(program)
    write(dialog, ".seeds", "1, 2")
    assert "The seed changes nothing here (Order: File order)" in dialog.summary.text()
    write(dialog, "order", "shuffle")
    assert "The seed" not in dialog.summary.text()
