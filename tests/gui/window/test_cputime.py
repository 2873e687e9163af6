"""No event burns more than 50 ms of the GUI thread's own CPU time while runs train and a person looks around."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer
from pytestqt.qtbot import QtBot

from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.cputime import measured, worst_event

LIMIT_S = 0.050


def test_the_measure_sees_a_slot_that_burns_time(qtbot: QtBot, open_window: Opener) -> None:
    program = open_window()

    def burn() -> None:
        until = time.thread_time() + 0.06
        while time.thread_time() < until:
            pass

    with measured() as spent:
        QTimer.singleShot(0, program.window, burn)
        qtbot.waitUntil(lambda: bool(spent.events))
    assert spent.worst[0] >= 0.055


def test_a_live_run_leaves_the_thread_free(qtbot: QtBot, open_window: Opener) -> None:
    """Two runs at 20,000 steps a second among 400 others, while the table, the log and the axes are used."""
    session = fakes.example_session()
    for _ in range(400):
        old = session.add("softmax", optimizer="adam", learning_rate=0.01)
        old.begin(500)
        old.train(500)
        old.end()
    live = [session.add("softmax", learning_rate=rate, steps=1_000_000) for rate in (0.1, 0.2)]
    for run in live:
        run.begin(1_000_000)
        run.train(200_000, 10.0)
    program = open_window(session)
    program.controller.select(live[0].id)
    program.controller.show_curve(live[1].id, True)
    qtbot.wait(200)
    window = program.window
    acts = [
        lambda: window.actions_["log"].trigger(),
        lambda: window.run_view.controls.units.button("seconds").click(),
        lambda: window.bottom.tabs.setCurrentIndex(0),
        lambda: window.run_view.controls.smoothing.setValue(20),
        lambda: window.bottom.table.sortByColumn(5, window.bottom.table.horizontalHeader().sortIndicatorOrder()),
        lambda: program.actions.runs.pause_or_resume(),
        lambda: program.actions.runs.pause_or_resume(),
        lambda: window.run_view.controls.units.button("step").click(),
    ]

    def acts_in_turn() -> None:
        for number in range(48):
            for run in live:
                run.train(660, 0.033)
                if number % 12 == 0:
                    run.evaluate(0.9)
            session.tell(points=frozenset(run.id for run in live))
            if number % 6 == 0:
                QTimer.singleShot(0, window, acts[number // 6])
            qtbot.wait(33)

    worst = worst_event(acts_in_turn, LIMIT_S)
    assert worst[0] < LIMIT_S, f"{worst[1]} took {1000 * worst[0]:.0f} ms"
