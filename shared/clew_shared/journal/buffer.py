"""An array that grows."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


_LEAST = 16
"""Values for which there is room at first: a window has dozens of buffers for each of thousands of runs."""


class Buffer(Generic[Scalar]):
    """A one-dimensional array that grows by doubling; appending costs what is appended."""

    __slots__ = ("_data", "size")

    def __init__(self, dtype: type[Scalar] | np.dtype[Any] | str) -> None:
        self._data: NDArray[Scalar] = np.empty(0, dtype)
        self.size = 0

    @property
    def view(self) -> NDArray[Scalar]:
        """Returns what has been appended, without a copy; valid until the next change."""
        return self._data[: self.size]

    def extend(self, values: NDArray[Any]) -> None:
        """Append ``values``."""
        self.grow(len(values))[:] = values

    def grow(self, count: int) -> NDArray[Scalar]:
        """Append ``count`` values that the caller fills in at once: a view of their places."""
        start, end = self.size, self.size + count
        if end > len(self._data):
            grown = np.empty(max(end, 2 * len(self._data), _LEAST), self._data.dtype)
            grown[:start] = self._data[:start]
            self._data = grown
        self.size = end
        return self._data[start:end]

    def truncate(self, size: int) -> None:
        """Forget all but the first ``size`` values."""
        self.size = min(self.size, size)
