"""How long the window takes for one thing a person does in an exercise of a thousand runs: the table and Compare.

1,000 runs of 500 steps and ten evaluations in one exercise: 5 optimizers, 50 rates, 4 seeds.
The real window without a display, with a session that answers at once; milliseconds of processor time of its thread,
from the click to the painted widget, median of the rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import msgspec
from PySide6.QtCore import Qt

from clew_gui.app import Program, build_app
from clew_gui.views.tabs.compare import CompareTab
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from tests.bench.measure import Measured, Table, machine
from tests.gui import fakes

RUNS, STEPS, SEEDS = 1000, 500, 4


def session(runs: int) -> fakes.FakeSession:
    """Runs that ended."""
    found = fakes.FakeSession()
    for number in range(runs):
        optimizer = ("sgd", "momentum", "rmsprop", "adam", "nadam")[number // SEEDS % 5]
        run = found.add("softmax", optimizer=optimizer, learning_rate=0.001 * 1.2 ** (number // (5 * SEEDS)))
        run.spec = msgspec.structs.replace(run.spec, seed=number % SEEDS + 1)
        run.begin(STEPS)
        for part in range(10):
            run.train(STEPS // 10)
            run.evaluate(0.8 + 0.01 * part - 0.0001 * (number % 97))
        run.end()
    return found


def opened(runs: int) -> Program:
    """The window with these runs."""
    folder = Path(tempfile.mkdtemp())
    places = Places(folder / "home", folder / "private")
    memory = NoMemory(WindowState(width=1280, height=800, told_runs_go_on=True))
    program = build_app(
        places, catalogue=fakes.catalogue(), session=session(runs), memory=memory, theme="light", exercise="softmax"
    )
    program.window.show()
    return program


def actions(program: Program) -> dict[str, Callable[[int], object]]:
    """What a person does, by name; the number of the round makes each another one."""
    window, runs = program.window, list(program.controller.model.runs())
    program.tab(CompareTab).open()
    view = program.tab(CompareTab)
    view.sets.button("listed").click()

    def hover(k: int) -> None:
        view.canvas.lift(view.canvas.chart.pick(200 + 10 * k, 150) if view.canvas.chart is not None else "")

    return {
        "type in the filter": lambda k: window.bottom.filter.setText(f"learning_rate > 0.0{k + 1}"),
        "clear the filter": lambda _k: window.bottom.filter.clear(),
        "select a run": lambda k: window.bottom.select(runs[7 * k + 3].id),
        "sort by a column": lambda k: window.bottom.table.sortByColumn(5 - k % 2, Qt.SortOrder.DescendingOrder),
        "compare all, colour by rate": lambda k: view.colour.setCurrentIndex(1 + k % 2),
        "one line for each run": lambda k: view.repeats.setChecked(bool(k % 2)),
        "parallel coordinates": lambda k: view.pages.button(("parallel", "scatter")[k % 2]).click(),
        "point at a line": hover,
    }


def measured(program: Program, act: Callable[[int], object], rounds: int) -> float:
    """Median milliseconds of processor time."""
    found = []
    for k in range(rounds):
        begun = time.process_time()
        act(k)
        program.app.processEvents()
        program.window.repaint()
        found.append(1e3 * (time.process_time() - begun))
    return median(found)


def report(rounds: int, quick: bool) -> Measured:
    """Does each thing in one window."""
    runs = 100 if quick else RUNS
    program = opened(runs)
    rows = [(name, f"{measured(program, act, max(rounds, 3)):.0f}") for name, act in actions(program).items()]
    program.close()
    return Measured(machine(), (Table("", ("what", "ms"), rows),))
