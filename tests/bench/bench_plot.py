"""Frame times of the plots: ``python -m tests.bench.bench_plot [samples per run]``, and pyqtgraph's own for comparison.

Twenty runs of a noisy decaying loss; each frame brings 50 new points per run. Times are medians over the frames of one
process, from the new points to the painted picture, without a display. The processor's own time is printed as well,
because it suffers less from other load.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from statistics import median

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QApplication, QWidget

from clew_gui.plotting.model import RunStyle
from clew_gui.views.plots import ConvergencePlots
from clew_gui.views.theme import LIGHT
from clew_gui.views.tokens import Theme
from clew_shared.cards import PlotSpec

RUNS, NEW, FRAMES, WIDTH, HEIGHT = 20, 50, 15, 1000, 700


def losses(samples: int, seed: int) -> np.ndarray:
    """A decaying loss with noise, float32."""
    rng = np.random.default_rng(seed)
    x = np.arange(samples) / samples
    return ((2 * np.exp(-6 * x) + 0.3 + 0.02 * seed) * np.exp(rng.normal(0, 0.2, samples))).astype(np.float32)


def timed(widget: QWidget, step: Callable[[int], None]) -> tuple[float, float]:
    """Median milliseconds of a frame: wall, and processor time."""
    walls, cpus = [], []
    for frame in range(FRAMES):
        wall, cpu = time.perf_counter(), time.process_time()
        step(frame)
        widget.repaint()
        walls.append(1e3 * (time.perf_counter() - wall))
        cpus.append(1e3 * (time.process_time() - cpu))
    return median(walls[1:]), median(cpus[1:])


def clew(samples: int, live: int, theme: Theme, shown: int = RUNS) -> tuple[float, float]:
    """Our panel with one plot, of which ``live`` runs grow."""
    panel = ConvergencePlots(theme)
    panel.resize(WIDTH, HEIGHT)
    panel.set_plots([PlotSpec(id="loss", title="Training loss", metrics=("loss",), log=True)])
    for k in range(shown):
        panel.append(str(k), "loss", 0, losses(samples, k))
    planned = int(1.2 * samples)
    panel.set_runs([RunStyle(str(k), f"{k}  run", k, k == 0, k < live, steps=planned) for k in range(shown)])
    panel.show()
    QApplication.processEvents()

    def step(frame: int) -> None:
        for k in range(live):
            panel.append(str(k), "loss", samples + frame * NEW, losses(NEW, k))
        panel.canvas.flush()

    result = timed(panel.canvas.ground.viewport(), step)
    panel.close()
    return result


def pyqtgraph_own(samples: int) -> tuple[float, float]:
    """pyqtgraph's plot with its automatic down-sampling by peaks."""
    plot = pg.PlotWidget(background="w")
    plot.resize(WIDTH, HEIGHT)
    plot.setDownsampling(auto=True, mode="peak")
    plot.setXRange(0, 1.2 * samples)
    plot.setYRange(0, 3)
    data = [losses(samples, k).astype(np.float64) for k in range(RUNS)]
    x = np.arange(samples + FRAMES * NEW, dtype=np.float64)
    curves = [plot.plot(x[:samples], y, pen=pg.mkPen(pg.intColor(k))) for k, y in enumerate(data)]
    plot.show()
    QApplication.processEvents()

    def step(_: int) -> None:
        for k, curve in enumerate(curves):
            data[k] = np.concatenate((data[k], losses(NEW, k)))
            curve.setData(x[: data[k].size], data[k])

    result = timed(plot.viewport(), step)
    plot.close()
    return result


def main(samples: int = 1_000_000) -> None:
    """Print a small table."""
    app = QApplication.instance() or QApplication([])
    rows = [
        (f"Clew, {RUNS} runs, all live", clew(samples, RUNS, LIGHT)),
        (f"Clew, {RUNS} runs, one live", clew(samples, 1, LIGHT)),
        ("Clew, 3 runs with raw curves, one live", clew(samples, 1, LIGHT, shown=3)),
        (f"pyqtgraph, {RUNS} runs, peak down-sampling", pyqtgraph_own(samples)),
    ]
    print(f"{samples:,} samples a run, {WIDTH} x {HEIGHT}, median of {FRAMES} frames: wall ms, processor ms")
    for name, (wall, cpu) in rows:
        print(f"{name:44} {wall:8.1f} {cpu:8.1f}")
    del app


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
