"""Boxes, and places for labels that cover neither each other nor the curves. In pixels, y downwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Box:
    """A rectangle by its left upper corner and size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Right border."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Lower border."""
        return self.y + self.height

    @property
    def across(self) -> float:
        """The middle between left and right."""
        return self.x + 0.5 * self.width

    @property
    def middle(self) -> float:
        """The middle between top and bottom."""
        return self.y + 0.5 * self.height

    @property
    def centre(self) -> tuple[float, float]:
        """The x and y of its middle."""
        return self.across, self.middle

    def inset(self, left: float, top: float, right: float, bottom: float) -> Box:
        """The box without so many pixels at each border; negative ones are added."""
        return Box(self.x + left, self.y + top, self.width - left - right, self.height - top - bottom)

    def holds(self, x: float, y: float) -> bool:
        """Whether a point lies in it."""
        return self.x <= x <= self.right and self.y <= y <= self.bottom

    def within(self, other: Box) -> Box:
        """The part that lies in ``other``; without extent if none does."""
        left, top = max(self.x, other.x), max(self.y, other.y)
        return Box(left, top, min(self.right, other.right) - left, min(self.bottom, other.bottom) - top)

    def inside(self, other: Box) -> bool:
        """Whether it lies wholly in ``other``."""
        return self.x >= other.x and self.y >= other.y and self.right <= other.right and self.bottom <= other.bottom

    def overlaps(self, other: Box) -> bool:
        """Whether both have more than a border in common."""
        across = self.x < other.right and other.x < self.right
        return across and self.y < other.bottom and other.y < self.bottom

    def covers(self, points: FloatArray) -> int:
        """Returns how many of ``points`` (n rows of x, y) the box covers."""
        if not points.size:
            return 0
        x, y = points[:, 0], points[:, 1]
        return int(np.count_nonzero((x >= self.x) & (x <= self.right) & (y >= self.y) & (y <= self.bottom)))


def spread(wanted: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Heights near the ``wanted`` ones, in their order, at least ``gap`` apart and from ``top`` to ``bottom``.

    Neighbours that would touch are pooled and share the mean shift, so that labels move as little as possible (least
    squares under order: pool adjacent violators, Ayer et al. 1955). When they cannot fit, the gap shrinks.
    """
    count = len(wanted)
    if count == 0:
        return []
    gap = min(gap, (bottom - top) / (count - 1)) if count > 1 else gap
    order = sorted(range(count), key=lambda i: wanted[i])
    pools: list[list[float]] = []  # sum of targets, number of labels
    for rank, i in enumerate(order):
        pools.append([wanted[i] - rank * gap, 1.0])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, size = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += size
    heights = [
        min(max(total / size, top), bottom - (count - 1) * gap) for total, size in pools for _ in range(int(size))
    ]
    placed = [0.0] * count
    for rank, i in enumerate(order):
        placed[i] = heights[rank] + rank * gap
    return placed


def emptiest(
    candidates: Sequence[Box], points: FloatArray, room: Box, previous: int = -1, taken: Sequence[Box] = ()
) -> int:
    """Returns which of ``candidates`` covers the fewest ``points``; earlier ones win ties, ones not inside ``room`` or
    over what is ``taken`` lose.

    The ``previous`` choice stays unless another is clearly better, so that a read-out does not flicker. -1 when no
    candidate fits into ``room``.
    """
    best, best_cost = -1, float("inf")
    for i, box in enumerate(candidates):
        if not box.inside(room) or any(box.overlaps(other) for other in taken):
            continue
        cost = box.covers(points) * (0.6 if i == previous else 1.0) - (1.0 if i == previous else 0.0)
        if cost < best_cost:
            best, best_cost = i, cost
    return best
