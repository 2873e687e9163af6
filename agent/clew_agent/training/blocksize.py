"""How many steps the next block takes, so that a block lasts 50 to 100 ms."""

from __future__ import annotations

TARGET_S = 0.085
"""Between 50 and 100 ms: long enough to make the cost of a call vanish, short enough to obey at once."""


class BlockSizer:
    """Starts with 1 step, then takes as many as fit into the target at the slower of the last two blocks' pace.

    The first measurement holds the whole cost of a call, so the pace is over-estimated and the next block is too
    short rather than too long.
    """

    def __init__(self, capacity: int, target: float = TARGET_S) -> None:
        self._capacity = capacity
        self._target = target
        self._paces: tuple[float, ...] = ()

    def next(self, room: int) -> int:
        """Steps of the next block, at most ``room``."""
        if not self._paces:
            return min(1, room)
        return max(1, min(int(self._target / max(self._paces)), self._capacity, room))

    def record(self, count: int, seconds: float) -> None:
        """Learn from a block of ``count`` steps that lasted ``seconds``."""
        self._paces = (*self._paces[-1:], max(seconds, 1e-9) / count)
        if len(self._paces) == 2 and count > 1 and self._paces[0] > 4 * self._paces[1]:
            self._paces = self._paces[1:]  # the first step's pace was mostly the cost of the call
