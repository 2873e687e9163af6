"""The Speed-up tab: the runs that its button asks for, and what it shows of them as they finish."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QAbstractButton, QBoxLayout, QLabel
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.views.tabs.speedup import SpeedupTab, Spread, spread_over
from clew_shared.cards import StrategyCard
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Attempt, Points, Schema, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.study.study import scaling_study, study_runs
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession

BASE = RunSpec(exercise="softmax", strategy="mirrored", params={"steps": 60, "batch_size": 100})


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def program(open_window: Opener, session: FakeSession) -> Program:
    """The built-in exercises, softmax open, the Speed-up tab shown."""
    found = open_window(session, exercise="softmax", catalogue=load_builtin())
    found.tab(SpeedupTab).open()
    return found


def train(run: FakeRun, serial: float, jitter: float = 1.0, cores: int = 0) -> None:
    """A finished run on as many GPUs as its spec says, or on logical devices that share ``cores``."""
    count, size = run.spec.devices, run.spec.params["batch_size"]
    assert isinstance(size, int)
    seconds = 0.1 * (serial + (1 - serial) / count) * jitter
    metrics = tuple(one for one in load_builtin().exercises[1].metrics if one.per_step)[:1]
    values, now = (np.zeros(20, "<f4").tobytes(),), time.time()
    names = tuple(f"GPU ({k})" for k in range(count)) if not cores else ("CPU",)
    shared = cores if count > 1 else 0
    run.feed(
        Attempt(
            format=1, run=run.id, attempt=1, exercise="softmax", spec_sha256="", steps=60, devices=names, time=now - 60
        ),
        Schema(id=1, metrics=metrics, batch_size=size, replicas=count, shared_cores=shared, time=now - 60),
        State(state=RunState.RUNNING, time=now - 59),
        *(
            Points(schema=1, first=20 * k, count=20, seconds=20 * seconds, clock=0.0, values=values, time=now - 50)
            for k in range(3)
        ),
        State(state=RunState.FINISHED, step=60, time=now),
    )


def add_study(session: FakeSession, *counts: int, weak: bool = False) -> list[FakeRun]:
    """The runs of a study, twice each, all waiting."""
    found = []
    for one in study_runs(scaling_study(BASE, counts, repeats=2, warm_up=15, weak=weak)):
        run = session.add("softmax")
        run.spec = msgspec.structs.replace(one.spec, run=run.id)
        found.append(run)
    return found


def shown(program: Program, session: FakeSession, qtbot: QtBot, words: str) -> SpeedupTab:
    """The tab once its sentence has these words."""
    session.tell(new=frozenset(session.runs), states=frozenset(session.runs))
    view = program.tab(SpeedupTab)
    qtbot.waitUntil(lambda: words in view.sentence.text())
    return view


def test_the_button_queues_every_number_of_devices_as_often_as_asked(program: Program, session: FakeSession) -> None:
    view = program.tab(SpeedupTab)
    assert view.sentence.text() == "Nothing has been measured yet."
    assert view.measure.accessibleName() == "Measure 1, 2, 4 devices"
    assert view.table.isHidden() or not view.table.isVisible()
    view.repeats.setText("2")
    view.measure.click()
    specs = [what[1] for what in session.asked if what[0] == "start"]
    assert [(spec.devices, spec.strategy) for spec in specs] == [  # type: ignore[attr-defined]
        (count, "mirrored") for count in (1, 2, 4, 1, 2, 4)
    ]
    assert program.tab(SpeedupTab).in_sight()
    assert view.progress.whole() == "0 of 6 done"
    assert view.sentence.text() == "Measuring…"
    assert set(program.controller.model.shown()) == set(session.runs)


def test_a_study_can_be_cancelled_while_it_measures(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    view = program.tab(SpeedupTab)
    program.window.resize(1280, 800)
    named = {one.text(): one for one in view.findChildren(QLabel) if one.buddy() in (view.counts, view.repeats)}
    assert set(named) == {"Devices", "Repeats"}
    assert view.counts.isVisible()
    for part in (*named.values(), view.measure, *view.kinds.findChildren(QAbstractButton)):
        assert part.isVisible(), "fields are named also in a small window"
        assert part.width() >= part.minimumSizeHint().width()
    assert not view.cancel.isVisible()
    runs = add_study(session, 1, 2)
    train(runs[0], 0.05)
    view = shown(program, session, qtbot, "1 GPU trains")
    assert not view.counts.isVisible()
    view.cancel.click()
    assert session.asked[-3:] == [("stop", run.id, False) for run in runs[1:]]


def test_the_numbers_of_devices_are_those_that_someone_typed(program: Program, session: FakeSession) -> None:
    view = program.tab(SpeedupTab)
    assert view.counts.placeholderText() == "1, 2, 4"
    for text, words in (("2", "two numbers of devices or more"), ("1, x", "got 'x'"), ("0, 2", "must be at least 1")):
        view.counts.setText(text)
        assert not view.measure.isEnabled(), text
        assert words in view.measure.toolTip(), view.measure.toolTip()
    view.counts.setText("8, 2, 1")
    assert view.measure.accessibleName() == "Measure 1, 2, 8 devices"
    view.repeats.setText("1")
    view.measure.click()
    specs = [what[1] for what in session.asked if what[0] == "start"]
    assert [spec.devices for spec in specs] == [1, 2, 8]  # type: ignore[attr-defined]


def test_what_has_finished_is_shown_as_it_comes(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    runs = add_study(session, 1, 2, 8)
    train(runs[0], 0.05)
    view = shown(program, session, qtbot, "1 GPU trains 1,000 images/s")
    assert view.progress.whole() == "1 of 6 done"
    for number, run in enumerate(runs[1:], 1):
        train(run, 0.05, 1.002 if number % 2 else 0.998)
    view = shown(program, session, qtbot, "8 GPUs train 5.9 times as fast as one")
    assert "About 5.0 % of each step does not get faster" in view.detail.text()
    assert view.progress.whole() == ""
    assert list(view.table.texts[0][:2]) == ["GPUs", "60 steps"]
    assert [row[0] for row in view.table.texts[1:]] == ["1", "2", "8"]
    assert view.canvases[0].isVisible()
    assert "8 devices, 5.9" in view.canvases[0].accessibleDescription()
    view.table.copy()
    assert QGuiApplication.clipboard().text().splitlines()[3].startswith("8\t1.01 s\t5,926\t")


def test_devices_that_share_cores_are_said_to_do_so(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    for run in add_study(session, 1, 2):
        train(run, 1.0, cores=2)
    view = shown(program, session, qtbot, "Two devices share two cores here: no speed-up is to be expected.")
    assert view.note.property("role") == "warnNote"
    assert view.table.texts[0][0] == "Devices"


def test_strong_and_weak_scaling_are_studies_of_their_own(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    for run in add_study(session, 1, 2):
        train(run, 0.0)
    for run in add_study(session, 1, 4, weak=True):
        train(run, 1.0)
    view = shown(program, session, qtbot, "4 GPUs train 4.0 times as fast as one")
    assert view.kinds.current() == "weak", "the newest study decides"
    view.kinds.button("strong").click()
    assert view.sentence.text() == "2 GPUs train 2.0 times as fast as one."
    view.kinds.button("weak").click()
    view.measure.click()
    specs = [what[1] for what in session.asked if what[0] == "start"]
    assert [spec.params["batch_size"] for spec in specs[:3]] == [100, 200, 400]  # type: ignore[attr-defined]


def test_a_race_is_no_scaling_study(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    run = session.add("softmax")
    run.spec = msgspec.structs.replace(BASE, run=run.id, study="optimizers-123456", params=dict(BASE.params))
    train(run, 0.0)
    view = shown(program, session, qtbot, "Nothing has been measured yet.")
    assert view.progress.whole() == ""


def test_the_button_says_why_it_cannot_measure(program: Program) -> None:
    view = program.tab(SpeedupTab)
    view.repeats.setText("0")
    assert not view.measure.isEnabled()
    assert "Repeats" in view.measure.toolTip()
    view.repeats.setText("1")
    assert view.measure.isEnabled()
    program.window.next_run.form.row("steps").editor.set_value(0)
    assert "Steps" in view.measure.toolTip()
    program.controller.open_exercise("linear-regression")
    assert view.measure.toolTip() == "Linear regression runs on one device only"
    program.controller.open_exercise("vectorize")
    assert view.measure.toolTip().endswith("has no training steps to time")


def test_exports(program: Program, session: FakeSession, qtbot: QtBot, tmp_path: Path) -> None:
    for run in add_study(session, 1, 2):
        train(run, 0.1)
    view = shown(program, session, qtbot, "2 GPUs train 1.8")
    assert view.files.isEnabled()
    files = {kind: tmp_path / f"speed-up.{kind}" for kind in ("png", "svg", "csv")}
    for kind, path in files.items():
        program.tab(SpeedupTab).export(kind, path)
    assert not QImage(str(files["png"])).isNull()
    drawing = files["svg"].read_text()
    assert "Softmax on MNIST: Strong scaling, batch 100" in drawing
    assert "2 GPUs train 1.8" in drawing
    assert len(files["csv"].read_text().splitlines()) == 3
    for kind in files:
        program.tab(SpeedupTab).export(kind, tmp_path / "none" / "file")
        assert "could not be written" in program.window.messages.problems()[0].text


def test_a_point_says_its_value_and_plots_make_room(program: Program, session: FakeSession, qtbot: QtBot) -> None:
    for run in add_study(session, 1, 2, 4):
        train(run, 0.1)
    view = shown(program, session, qtbot, "4 GPUs train 3.1")
    canvas = view.canvases[1]
    chart = canvas.chart
    assert chart is not None
    spots = [chart.read(x, y) for x in range(0, canvas.width(), 6) for y in range(0, canvas.height(), 6)]
    assert "Slides' table: JURECA, Simple Image Benchmark, 4 devices, 80.9 %\nMeasured: 4 devices, 76.9 %" in spots
    assert "" in spots
    view.setMinimumWidth(0)
    view.resize(500, 700)
    assert view.box.direction() is QBoxLayout.Direction.TopToBottom
    qtbot.waitUntil(lambda: view.table.horizontalScrollBar().maximum() > 0)


def test_the_strategy_of_the_form_is_measured_over_what_it_spreads(program: Program) -> None:
    card = program.controller.model.card
    assert [spread_over(card, name) for name in ("single", "local-sgd")] == [
        Spread("mirrored", "devices", (1, 2, 4)),
        Spread("local-sgd", "devices", (1, 2, 4)),
    ]
    several = StrategyCard(id="multi-worker", title="Several nodes", devices=(1,), nodes=True)
    over = spread_over(msgspec.structs.replace(card, strategies=(*card.strategies, several)), "multi-worker")
    assert over is not None
    assert over.words == "1, 2, 4 nodes"
