"""The curves that are drawn in the benchmarks of plots."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import numpy.typing as npt

RUNS, WIDTH, HEIGHT = 20, 1000, 700
VISIBLE, STEP = 0.25, 0.002
"""Panned is a quarter of the curve, by so much of the curve in each frame."""


def losses(samples: int, seed: int) -> npt.NDArray[np.float32]:
    """A decaying loss with noise."""
    rng = np.random.default_rng(seed)
    x = np.arange(samples) / samples
    return ((2 * np.exp(-6 * x) + 0.3 + 0.02 * seed) * np.exp(rng.normal(0, 0.2, samples))).astype(np.float32)


def timed(frames: int, draw: Callable[[int], object]) -> tuple[float, float]:
    """Median milliseconds of a frame, wall and processor time; the first one does not count."""
    walls, cpus = [], []
    for frame in range(frames + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        draw(frame)
        walls.append(1e3 * (time.perf_counter() - wall))
        cpus.append(1e3 * (time.process_time() - cpu))
    return median(walls[1:]), median(cpus[1:])
