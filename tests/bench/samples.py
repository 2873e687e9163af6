"""The curves that are drawn in the benchmarks of plots."""

from __future__ import annotations

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
