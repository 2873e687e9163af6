"""matplotlib's frames while panning: ``tests.bench.pan_matplotlib SAMPLES FRAMES`` in the benchmarks' environment."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np

from tests.bench.samples import HEIGHT, RUNS, STEP, VISIBLE, WIDTH, losses, timed


def frames(samples: int, count: int) -> tuple[float, float]:
    """Median milliseconds of a frame, wall and processor: another range of x, drawn into memory by Agg."""
    figures, agg = (
        importlib.import_module("matplotlib.figure"),
        importlib.import_module("matplotlib.backends.backend_agg"),
    )
    figure = figures.Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    canvas, axes = agg.FigureCanvasAgg(figure), figure.add_subplot()
    x = np.arange(samples)
    for run in range(RUNS):
        axes.plot(x, losses(samples, run), linewidth=1)
    axes.set_yscale("log")

    def draw(frame: int) -> None:
        left = (0.3 + frame * STEP) * samples
        axes.set_xlim(left, left + VISIBLE * samples)
        canvas.draw()

    return timed(count, draw)


if __name__ == "__main__":
    print(json.dumps(frames(int(sys.argv[1]), int(sys.argv[2]))))
