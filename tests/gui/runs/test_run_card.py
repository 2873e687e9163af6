"""The card of the selected run: why it failed, and what is said before anybody knows how it stands."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication

from clew_gui.app import Program
from clew_gui.base.settings import local_settings
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.dialogs import SettingsDialog
from clew_gui.views.runs.bottom_panel import LogPanel
from clew_shared.cards import Catalogue, MetricSpec
from clew_shared.journal.events import Log, Points, Schema
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import RunStatus
from tests.gui import fakes
from tests.gui.conftest import Opener

WHY = "The loss is NaN at step 212: " + "the rate of 0.5 is far too long for this optimizer, " * 6


def failed(open_window: Opener) -> Program:
    """A window on a run that failed for a reason longer than any line."""
    session = fakes.FakeSession()
    session.add().begin(500).train(20).end(RunState.FAILED, WHY)
    return open_window(session)


def test_a_long_reason_unfolds_in_full_and_can_be_copied(open_window: Opener) -> None:
    card = failed(open_window).window.run_view.card
    assert card.why.isVisible()
    assert not card.reason.isVisible()
    card.why.click()
    assert card.reason.isVisible()
    assert card.reason.text.text() == WHY
    assert "NaN" not in card.sentence.whole()
    card.reason.copy()
    assert QGuiApplication.clipboard().text() == f"{WHY}\nTake a smaller rate."


def test_a_short_reason_is_said_at_once(open_window: Opener) -> None:
    session = fakes.FakeSession()
    session.add().begin(500).train(20).end(RunState.FAILED, "The file weights.npy is missing.")
    card = open_window(session).window.run_view.card
    assert card.reason.isVisible()
    assert card.reason.text.text() == "The file weights.npy is missing."
    assert card.title.text() == "Run 1"


def test_a_name_has_room_before_the_sentence_and_in_the_table(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add()
    run.spec = msgspec.structs.replace(run.spec, name="adam 0.1, seed 1")
    run.begin(500)
    run.train(20)
    run.end(RunState.STOPPED, "on request, and with a sentence that is longer than the card is wide")
    window = open_window(session, size=(1280, 800)).window
    card = window.run_view.card
    assert card.title.text() == "Run 1, adam 0.1, seed 1"
    assert card.sentence.text().endswith("…")
    assert card.reuse.accessibleName() == "Reuse", "beside Continue"
    table = window.bottom.table
    assert table.columnWidth(0) >= table.sizeHintForColumn(0), "with its check, its swatch and its number"


def test_another_run_begins_folded_and_one_without_trouble_has_no_reason(open_window: Opener) -> None:
    program = failed(open_window)
    assert isinstance(program.session, fakes.FakeSession)
    card = program.window.run_view.card
    card.why.click()
    other = program.session.add()
    other.begin(500)
    program.session.tell(new=frozenset({other.id}))
    program.controller.bridge.tick()
    program.controller.select(other.id)
    assert not card.why.isVisible()
    assert not card.reason.isVisible()


def test_advice_belongs_to_its_run_and_can_be_switched_off(open_window: Opener) -> None:
    session = fakes.FakeSession()
    healthy, stuck = session.add(), session.add()
    for run, fall in ((healthy, 0.01), (stuck, 0.0)):
        run.begin(100)
        run.history.feed(1, Schema(id=1, metrics=(MetricSpec(name="loss", label="Loss"),), steps=100))
        losses = 2.3 * np.exp(-fall * np.arange(100) * 10).astype("<f4")
        run.history.feed(1, Points(schema=1, first=0, count=100, seconds=1.0, clock=1.0, values=(losses.tobytes(),)))
        run.end(RunState.FINISHED)
    program = open_window(session)
    card = program.window.run_view.card
    program.controller.select(stuck.id)
    assert "hardly come down from where it began" in card.advice.text()
    assert card.advice.isVisible()
    program.controller.select(healthy.id)
    assert not card.advice.isVisible()
    program.controller.select(stuck.id)
    program.actions.show_settings()
    (dialog,) = program.window.findChildren(SettingsDialog)
    dialog.switches["advice"].setChecked(False)
    assert not card.advice.isVisible()
    assert not local_settings(program.places).load().advice


def test_a_script_has_no_pause(open_window: Opener) -> None:
    session = fakes.FakeSession()
    cards = tuple(msgspec.structs.replace(card, kind="script") for card in fakes.catalogue().exercises)
    session.add().begin(500).train(20)
    program = open_window(session, catalogue=Catalogue(chapters=fakes.catalogue().chapters, exercises=cards))
    assert program.window.run_view.card.stop.isVisible()
    assert not program.window.run_view.card.pause.isVisible()
    assert not program.window.actions_["pause"].isEnabled()


def test_a_run_whose_copy_is_still_read_is_neither_running_nor_ended(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add().begin(500).train(20)
    run.reading = 0.14
    card = open_window(session).window.run_view.card
    assert card.pill.accessibleName() == "State: Reading …"
    assert card.sentence.whole() == "14 %"
    assert not card.pause.isVisible()
    assert not card.stop.isVisible()


@pytest.mark.parametrize(
    ("said", "have", "share"), [(False, 0, 0.0), (False, 50, 0.5), (False, 100, None), (True, 0, None)]
)
def test_reading_ends_with_the_copy_or_with_the_agents_word(said: bool, have: int, share: float | None) -> None:
    model = RunModel(RunSpec(exercise="toy", run="r"), 1, Path("nowhere"), "here")
    model.copied = 100
    model.took(1, have, 100)
    model.status = RunStatus(run="r", exercise="toy", state=RunState.RUNNING, attempt=1, size=100) if said else None
    assert model.reading == share


LOGS = (Log(text="Learning rate is 0.1", step=120), Log(text="compiled", stage="compile", seconds=1.0))


def test_the_log_begins_with_the_journals_sentences_and_ends_with_what_was_printed(softmax: Program) -> None:
    panel = LogPanel()
    panel.show_run("r", LOGS, "oneDNN custom operations are on\n")
    lines = panel.toPlainText().splitlines()
    assert "Learning rate is 0.1" in lines[0]
    assert "compiled" in lines[1]
    assert lines[2:] == ["", "Output of its processes:", "oneDNN custom operations are on"]


def test_output_that_is_not_here_is_said_to_be_on_the_node(softmax: Program) -> None:
    panel = LogPanel()
    panel.show_run("r", LOGS, None)
    assert panel.toPlainText().endswith("is on the node, in log.txt in the run's folder.")
    panel.show_run("", ())
    assert panel.toPlainText() == ""


def test_the_log_stays_where_it_is_read_and_follows_its_end_only_from_there(softmax: Program) -> None:
    panel = softmax.window.bottom.log
    softmax.window.actions_["log"].setEnabled(True)
    softmax.window.actions_["log"].trigger()
    panel.show_run("r", LOGS * 100, "line\n" * 100)
    assert panel.verticalScrollBar().value() == 0, "another run is read from its beginning"
    panel.show_run("r", LOGS * 110, "line\n" * 100)
    assert panel.verticalScrollBar().value() == 0
    panel.verticalScrollBar().setValue(panel.verticalScrollBar().maximum())
    panel.show_run("r", LOGS * 110, "line\n" * 200)
    assert panel.verticalScrollBar().value() == panel.verticalScrollBar().maximum()
