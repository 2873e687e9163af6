"""Frame times of the plots while points arrive and while panning, beside pyqtgraph's own.

Twenty runs of a noisy decaying loss. Times are medians over the frames of one process, from the new points or the new
range to the painted picture, without a display. The processor's own time is printed as well, because it suffers less
from other load.

1,000,000 samples a run, 1000 × 700 pixels, logarithmic y; medians of 15 frames after a first one, in one process.
*Live*: each frame brings 50 new points to each live run. *Panned*: a quarter of the curves is in sight and moves by
0.2 % of their length from frame to frame. pyqtgraph's own: `setDownsampling(auto=True, mode="peak")`, when panned with
`setClipToView(True)`, which is its fastest. *× Clew's* are processor times. Limits: without a display, so nothing
reaches a screen, and without OpenGL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import numpy.typing as npt
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

SAMPLES, NEW, FRAMES = 1_000_000, 50, 15
RUNS, WIDTH, HEIGHT = 20, 1000, 700
VISIBLE, STEP = 0.25, 0.002
"""Panned is a quarter of the curve, by so much of the curve in each frame."""


def losses(samples: int, seed: int) -> npt.NDArray[np.float32]:
    """A decaying loss with noise."""
    rng = np.random.default_rng(seed)
    x = np.arange(samples) / samples
    return ((2 * np.exp(-6 * x) + 0.3 + 0.02 * seed) * np.exp(rng.normal(0, 0.2, samples))).astype(np.float32)


def repainted(widget: QWidget, step: Callable[[int], None]) -> tuple[float, float]:
    """Median milliseconds of a frame, wall and processor time; the first one does not count."""
    walls, cpus = [], []
    for frame in range(FRAMES + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        step(frame)
        widget.repaint()
        walls.append(1e3 * (time.perf_counter() - wall))
        cpus.append(1e3 * (time.process_time() - cpu))
    return median(walls[1:]), median(cpus[1:])


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
    lines = [
        (name, f"{wall:.1f}", f"{cpu:.1f}", f"{cpu / base[1]:.3g}" if base else "") for name, (wall, cpu), base in found
    ]
    del app
    head = ("drawing", "ms a frame", "processor ms", "× Clew's")
    return Measured(f"{machine('pyside6', 'pyqtgraph')}.", (Table("", head, lines),))
