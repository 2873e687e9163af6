"""Frame times of the plots while points arrive and while panning, beside pyqtgraph's own and matplotlib.

Twenty runs of a noisy decaying loss. Times are medians over the frames of one process, from the new points or the new
range to the painted picture, without a display. The processor's own time is printed as well, because it suffers less
from other load.

1,000,000 samples a run, 1000 × 700 pixels, logarithmic y; medians of 15 frames
(3 of matplotlib's) after a first one, in one process. *Live*: each frame brings 50 new points to each
live run. *Panned*: a quarter of the curves is in sight and moves by 0.2 % of their length from frame to frame.
pyqtgraph's own: `setDownsampling(auto=True, mode="peak")`, when panned with `setClipToView(True)`, which is its
fastest. matplotlib draws into memory (Agg) with its default simplification. *× Clew's* are processor times, which
suffer less from other load. Limits: without a display, so nothing reaches a screen, and without OpenGL.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QApplication, QWidget

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.curves.model import RunStyle
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import MetricSpec, PlotSpec
from clew_shared.journal.events import Points, Schema
from clew_shared.journal.history import History
from tests.bench.measure import Measured, Table, machine
from tests.bench.others import HOW, python_with, version_of
from tests.bench.samples import HEIGHT, RUNS, STEP, VISIBLE, WIDTH, losses, timed

_LIMIT_S = 600
SAMPLES, NEW, FRAMES, SLOW_FRAMES = 1_000_000, 50, 15, 3


def repainted(widget: QWidget, step: Callable[[int], None]) -> tuple[float, float]:
    """Milliseconds of a frame: wall, and processor time."""

    def draw(frame: int) -> None:
        step(frame)
        widget.repaint()

    return timed(FRAMES, draw)


def _record(history: History, first: int, values: np.ndarray) -> None:
    """Fold a block of steps into a run's history, as the session does."""
    raw = values.astype("<f4").tobytes()
    history.feed(1, Points(schema=1, first=first, count=len(values), seconds=0.1, clock=0.0, values=(raw,)))


def _panel(samples: int, live: int, shown: int) -> ConvergencePlots:
    """Our panel with one plot, of which ``live`` runs grow."""
    panel = ConvergencePlots(Appearance(LIGHT))
    panel.resize(WIDTH, HEIGHT)
    panel.canvas.set_plots([PlotSpec(id="loss", title="Training loss", metrics=("loss",), log=True)])
    planned = int(1.2 * samples)
    runs = [RunStyle(str(k), f"{k}  run", k, k == 0, k < live, steps=planned) for k in range(shown)]
    for k, run in enumerate(runs):
        run.history.feed(1, Schema(id=1, metrics=(MetricSpec(name="loss", label="loss", per_step=True),)))
        _record(run.history, 0, losses(samples, k))
    panel.set_runs(runs)
    panel.show()
    QApplication.processEvents()
    return panel


def clew(samples: int, live: int, shown: int = RUNS) -> tuple[float, float]:
    """Frames with new points for ``live`` of the ``shown`` runs."""
    panel = _panel(samples, live, shown)

    def step(frame: int) -> None:
        for k in range(live):
            _record(panel.canvas.runs[k].history, samples + frame * NEW, losses(NEW, k))
        panel.show_news({run.run_id for run in panel.canvas.runs[:live]})
        panel.canvas.redraw()

    result = repainted(panel.canvas, step)
    panel.close()
    return result


def clew_panned(samples: int) -> tuple[float, float]:
    """Frames of another range of x."""
    panel = _panel(samples, 0, RUNS)
    canvas = panel.canvas
    canvas.zoomed.emit(canvas.chart.zoomed(VISIBLE * samples / canvas.scene.full.size))
    QApplication.processEvents()

    def step(_: int) -> None:
        before = panel.canvas.scene.grid.span
        canvas.zoomed.emit(canvas.chart.moved(-canvas.chart.frames[0].box.width * STEP / VISIBLE, 0))
        panel.canvas.redraw()
        if panel.canvas.scene.grid.span == before:
            raise RuntimeError("the picture does not move")

    result = repainted(panel.canvas, step)
    panel.close()
    return result


def _own(samples: int) -> tuple[pg.PlotWidget, list[Any]]:
    """pyqtgraph's plot with its automatic down-sampling by peaks."""
    plot = pg.PlotWidget(background="w")
    plot.resize(WIDTH, HEIGHT)
    plot.setDownsampling(auto=True, mode="peak")
    plot.setLogMode(y=True)
    plot.setXRange(0, 1.2 * samples)
    x = np.arange(samples, dtype=np.float64)
    curves = [plot.plot(x, losses(samples, k).astype(np.float64), pen=pg.mkPen(pg.intColor(k))) for k in range(RUNS)]
    plot.show()
    QApplication.processEvents()
    return plot, curves


def pyqtgraph_own(samples: int) -> tuple[float, float]:
    """Frames with new points for all runs."""
    plot, curves = _own(samples)
    data = [losses(samples, k).astype(np.float64) for k in range(RUNS)]
    x = np.arange(samples + (FRAMES + 1) * NEW, dtype=np.float64)

    def step(_: int) -> None:
        for k, curve in enumerate(curves):
            data[k] = np.concatenate((data[k], losses(NEW, k)))
            curve.setData(x[: data[k].size], data[k])

    result = repainted(plot.viewport(), step)
    plot.close()
    return result


def pyqtgraph_panned(samples: int) -> tuple[float, float]:
    """Frames of another range of x."""
    plot, _ = _own(samples)
    plot.setClipToView(True)

    def step(frame: int) -> None:
        left = (0.3 + frame * STEP) * samples
        plot.setXRange(left, left + VISIBLE * samples, padding=0)

    result = repainted(plot.viewport(), step)
    plot.close()
    return result


def matplotlib_panned(samples: int, python: str) -> tuple[float, float]:
    """The same by matplotlib, in a process of the environment that has it."""
    command = [python, "-m", "tests.bench.pan_matplotlib", str(samples), str(SLOW_FRAMES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=_LIMIT_S)
    wall, cpu = json.loads(done.stdout.splitlines()[-1])
    return float(wall), float(cpu)


def report(rounds: int, quick: bool) -> Measured:
    """Draws each way."""
    del rounds  # medians of frames
    samples = SAMPLES // 10 if quick else SAMPLES
    app = QApplication.instance() or QApplication([])
    live, panned = clew(samples, RUNS), clew_panned(samples)
    found = [
        (f"Clew, {RUNS} runs, all live", live, live),
        (f"pyqtgraph's own, {RUNS} runs, all live", pyqtgraph_own(samples), live),
        (f"Clew, {RUNS} runs, one live", clew(samples, 1), None),
        ("Clew, 3 runs with raw curves, one live", clew(samples, 1, shown=3), None),
        (f"Clew, {RUNS} runs, panned", panned, panned),
        (f"pyqtgraph's own, {RUNS} runs, panned", pyqtgraph_panned(samples), panned),
    ]
    python = python_with("matplotlib")
    if python is not None:
        about = f"matplotlib {version_of('matplotlib')}, {RUNS} runs, panned"
        found.append((about, matplotlib_panned(samples, python), panned))
    lines = [
        (name, f"{wall:.1f}", f"{cpu:.1f}", f"{cpu / base[1]:.3g}" if base else "") for name, (wall, cpu), base in found
    ]
    del app
    remarks = () if python else (f"matplotlib is not installed: {HOW}.",)
    head = ("drawing", "ms a frame", "processor ms", "× Clew's")
    return Measured(f"{machine('pyside6', 'pyqtgraph')}.", (Table("", head, lines),), remarks)
