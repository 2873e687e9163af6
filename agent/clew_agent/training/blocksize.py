"""How many steps the next block takes, so that a block lasts 50 to 100 ms."""

from __future__ import annotations

TARGET_S = 0.095
"""Long enough to make the cost of a call vanish, short enough to obey at once. As near to 100 ms as two measurements
allow, so that also steps of 45 ms come in twos: a call costs up to 2 ms of such a step."""
FIRST_S = 0.01
"""At most so long a first block may last: the first point is to be seen at once."""


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
