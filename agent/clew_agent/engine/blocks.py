"""A block of steps: what training it gave, and how many steps the next one takes, so that it lasts 50 to 100 ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

TARGET_S = 0.095
"""Long enough to make the cost of a call vanish, short enough to obey at once. As near to 100 ms as two measurements
allow, so that also steps of 45 ms come in twos: a call costs up to 2 ms of such a step."""
FIRST_S = 0.01
"""Seconds that a first block may last at most: the first point is to be seen at once."""


@dataclass(frozen=True)
class BlockUpdates:
    """The gradients that came back, with one value for each, in the order in which the servers took them;
    little-endian, as in ``Updates``."""

    steps: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int32]
    ended: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float32]
    staleness: npt.NDArray[np.int32]
    accepted: npt.NDArray[np.uint8]
    moved: int


@dataclass(frozen=True)
class TrainedBlock:
    """Steps ``first`` to ``first + count - 1``: one array [count] for each of the course's ``per_step`` metrics.

    ``seconds`` is what the steps took. ``nonfinite`` is the first step with a value that is no finite number, or None.
    ``updates``: the gradients that came back meanwhile, under parameter servers.
    """

    first: int
    count: int
    values: tuple[npt.NDArray[np.floating[Any]], ...]
    seconds: float
    nonfinite: int | None = None
    updates: BlockUpdates | None = None


class BlockSizer:
    """Takes as many steps as fit into the target at the slower of the last two blocks' pace.

    A measurement holds the whole cost of a call, so the pace is over-estimated and the next block is too short rather
    than too long. The first block takes 1 step, or ``FIRST_S`` at the expected pace.
    """

    def __init__(self, capacity: int, target: float = TARGET_S) -> None:
        self._capacity = capacity
        self._target = target
        self._expected = FIRST_S
        self._paces: tuple[float, ...] = ()

    def expect(self, count: int, seconds: float) -> None:
        """Learn from ``count`` steps of a warm-up that lasted ``seconds``."""
        self._expected = max(seconds, 1e-9) / count

    def next(self, room: int) -> int:
        """Steps of the next block, at most ``room``."""
        target, pace = (self._target, max(self._paces)) if self._paces else (FIRST_S, self._expected)
        return min(max(1, min(int(target / pace), self._capacity)), room)

    def record(self, count: int, seconds: float) -> None:
        """Learn from a block of ``count`` steps that lasted ``seconds``."""
        self._paces = (*self._paces[-1:], max(seconds, 1e-9) / count)
        if len(self._paces) == 2 and count > 1 and self._paces[0] > 4 * self._paces[1]:
            self._paces = self._paces[1:]  # the first step's pace was mostly the cost of the call
