"""The Report tab makes what the commands make, and the guide keeps the answers that go into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PySide6.QtWidgets import QFileDialog, QLabel
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.student import student_name
from clew_gui.reports.check import check_handin
from clew_gui.reports.facts import read_answers
from clew_gui.reports.handin import open_handin
from clew_gui.session.run_record import run_record
from clew_gui.session.runs import demonstrations, read_heads, read_runs
from clew_gui.session.session import Session
from clew_gui.views.actions import run_actions
from clew_gui.views.actions.files import ask_and_write
from clew_gui.views.lab.guide_page import AnswerEdit, GoalRow
from clew_gui.views.tabs.cluster import ClusterTab
from clew_gui.views.tabs.report import ReportTab, lacks
from clew_gui.views.theme.dialog import Question
from clew_gui.views.theme.parts import Button
from clew_shared.base.places import Places
from clew_shared.catalogue import load_builtin
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.unit.reports.test_handin import CARDS, made_run


def test_the_tab_shows_the_report_and_writes_page_pdf_and_hand_in(
    open_window: Opener, places: Places, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(places.runs / "5f2b8c1e-0000-4000-8000-000000000001")
    cards = msgspec.structs.replace(load_builtin(), exercises=tuple(CARDS.values()))
    session = Session(places, cards, recorded=read_runs(read_heads([run]), run_record(places)))
    program = open_window(session, size=(1280, 800), catalogue=cards)
    reports = program.tab(ReportTab)
    program.tab(ReportTab).open()
    assert reports.page.toPlainText() == "The report is being made…"
    qtbot.waitUntil(lambda: reports.made is not None)
    view = reports
    assert view.sentence.whole().startswith("1 of 2 goals reached in 1 run.")
    assert "Test accuracy: 90.79 %; the goal is" in view.page.toPlainText()
    assert not view.pack.isEnabled()

    view.name.setText("  Anna   Example ")
    view.name.editingFinished.emit()
    qtbot.waitUntil(view.pack.isEnabled)
    assert student_name(places) == "Anna Example"
    for kind in ("html", "pdf"):
        reports.export(kind, tmp_path / f"report.{kind}")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
    assert "<svg" in (tmp_path / "report.html").read_text()
    reports.hand_in(tmp_path / "anna.clew.zip")
    (tmp_path / "in").mkdir()
    assert check_handin(open_handin(tmp_path / "anna.clew.zip", tmp_path / "in"), CARDS).problems == ()

    reports.hand_in()
    (question,) = program.window.findChildren(Question)
    assert question.sentence.text() == "0 of 2 questions of the guide are answered."
    assert view.made is not None
    facts = view.made[0].facts
    nameless = msgspec.structs.replace(facts.runs[0], student="")
    said = "Runs that were started without your name: 1 of 1."
    assert lacks(msgspec.structs.replace(facts, exercises=(), runs=(nameless,))) == said
    question.accept()
    qtbot.waitUntil(lambda: bool(program.window.findChildren(QFileDialog)))
    program.window.findChildren(QFileDialog)[0].reject()

    asked: list[Callable[[Path], None]] = []
    monkeypatch.setattr("clew_gui.views.tabs.report.ask_and_write", lambda *words: asked.append(words[4]))
    reports.export("html")
    view.runs.item(0).setCheckState(view.runs.item(0).checkState().Unchecked)
    asked[0](tmp_path / "asked.html")
    assert (tmp_path / "asked.html").read_text() == (tmp_path / "report.html").read_text()
    assert view.sentence.whole() == "Tick the runs that belong in it."
    assert not view.pack.isEnabled()


def test_a_file_is_written_when_its_dialog_is_gone_and_the_window_says_so(softmax: Program, qtbot: QtBot) -> None:
    window, seen = softmax.window, list[tuple[bool, bool]]()

    def write(path: Path) -> None:
        said = any("Writing report.pdf…" in one.text() for one in window.messages.findChildren(QLabel))
        seen.append((bool(window.findChildren(QFileDialog)), said))

    ask_and_write(window, "Save the report", "report.pdf", "PDF (*.pdf)", write)
    (dialog,) = window.findChildren(QFileDialog)
    dialog.accept()
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [(False, True)]


def test_an_answer_in_the_guide_is_kept_and_there_again(open_window: Opener, places: Places, qtbot: QtBot) -> None:
    program = open_window(size=(1280, 800), catalogue=load_builtin(), exercise="rnn")
    program.window.show_tab(0)
    first = program.window.guide.findChildren(AnswerEdit)[0]
    first.setPlainText("Four times as many.")
    question = "How many weights does each cell have? Is the comparison fair with the same number of units?"
    qtbot.waitUntil(lambda: read_answers(places, "rnn") == {question: "Four times as many."})
    program.controller.open_exercise("softmax")
    assert {box.toPlainText() for box in program.window.guide.findChildren(AnswerEdit)} == {""}
    program.controller.open_exercise("rnn")
    assert program.window.guide.findChildren(AnswerEdit)[0].toPlainText() == "Four times as many."


def test_an_answer_in_the_guide_ticks_the_goal_that_asks_for_it(
    open_window: Opener, places: Places, qtbot: QtBot
) -> None:
    session = fakes.FakeSession()
    session.add("softmax").begin(100).train(100).evaluate(0.95).end()
    guide = "## Questions\n\n- Why is it so?\n"
    goals = (msgspec.structs.replace(fakes.GOAL, question="Why is it so?"),)
    known = msgspec.structs.replace(fakes.catalogue(), exercises=(fakes.card(guide=guide, goals=goals),))
    program = open_window(session, catalogue=known)
    program.window.show_tab(0)
    program.controller.panels.goals()

    def row() -> str:
        return str(program.window.guide.findChildren(GoalRow)[0].accessibleName())

    why = "Run 1 does not count: the question has no answer yet."
    assert row().endswith(f"{why} The goal counts only with an answer to “Why is it so?”.")
    program.window.guide.findChildren(AnswerEdit)[0].setPlainText("It must be.")
    qtbot.waitUntil(lambda: row() == "Goal: 90.79 %, reached. Reached in run 1.")


def test_a_recording_is_offered_and_played_by_the_slider(open_window: Opener, places: Places, qtbot: QtBot) -> None:
    session = Session(places, load_builtin(), recorded={})
    program = open_window(session, size=(1280, 800), catalogue=load_builtin(), exercise="softmax")
    dialog = program.actions.recordings.ask()
    buttons = {button.accessibleName(): button for button in dialog.findChildren(Button)}
    assert set(buttons) >= {"Show the recording parameter-servers", "Show the recording two-nodes"}
    buttons["Show the recording parameter-servers"].click()
    model, replay = program.controller.model, program.window.run_view.plots.replay
    assert model.card is not None
    assert model.card.id == "ps-lab"
    run = model.run()
    assert run is not None
    assert (run.spec.name, run.state, run.history.fold.replay_of) == (
        "Recorded: Parameter servers",
        RunState.FINISHED,
        "a1dd96b9-449c-452b-afdd-27f278337585",
    )
    qtbot.waitUntil(lambda: (replay.chosen or 0) > 50)
    program.tab(ClusterTab).open()
    cluster = program.tab(ClusterTab)
    replay.go_to(100)
    assert cluster.scene is not None
    assert cluster.scene.timeline.whole.high < 0.5 * run.history.updates.columns.ended[-1]
    cluster.replay.go_to(None)
    assert replay.chosen is None
    assert cluster.scene.timeline.whole.high > run.history.updates.columns.ended[-1]
    program.actions.recordings.show_recording(run.folder)
    assert [one.id for one in model.runs()] == [run.id], "it is listed once"


def test_a_recording_plays_when_it_is_opened_while_one_does(open_window: Opener, places: Places) -> None:
    session = Session(places, load_builtin(), recorded={})
    program = open_window(session, size=(1280, 800), catalogue=load_builtin(), exercise="ps-lab")
    recordings, folders = program.actions.recordings, demonstrations()
    play = program.window.run_view.plots.replay.play
    for name in ("two-nodes", "parameter-servers", "parameter-servers"):
        recordings.show_recording(folders[name])
        assert play.timer.isActive()


def test_a_removed_recording_is_listed_when_it_is_opened_again(open_window: Opener, places: Places) -> None:
    session = Session(places, load_builtin(), recorded={})
    program = open_window(session, size=(1280, 800), catalogue=load_builtin(), exercise="ps-lab")
    folder = demonstrations()["parameter-servers"]
    program.actions.recordings.show_recording(folder)
    session._acts = True  # it may forget runs
    for lapsed in (True, False):
        program.actions.runs.remove()
        assert program.controller.model.runs() == []
        if lapsed:
            program.window.messages.lapse()
        program.actions.recordings.show_recording(folder)
        assert [one.folder for one in program.controller.model.runs()] == [folder]
        assert program.controller.model.run() is not None
    assert folder.exists()


def test_a_recording_that_cannot_be_read_is_offered_by_the_name_of_its_folder(
    softmax: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_actions, "demonstrations", lambda: {"torn": tmp_path / "torn"})
    dialog = softmax.actions.recordings.ask()
    assert "torn" in [one.text() for one in dialog.findChildren(QLabel)]
    next(one for one in dialog.findChildren(Button) if one.accessibleName() == "Show the recording torn").click()
    assert softmax.window.messages.isVisible()
    assert softmax.controller.model.runs() == []
