"""The types of arrays that plots use, and an array that grows."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


class GrowingArray(Generic[Scalar]):
    """A one-dimensional array that doubles its capacity when it is full."""

    __slots__ = ("_data", "size")

    def __init__(self, dtype: type[Scalar] | np.dtype[Any], capacity: int = 256) -> None:
        self._data: npt.NDArray[Scalar] = np.empty(capacity, dtype)
        self.size = 0

    def extend(self, values: npt.NDArray[Scalar]) -> None:
        """Append ``values``."""
        needed = self.size + values.size
        if needed > self._data.size:
            larger = np.empty(max(needed, 2 * self._data.size), self._data.dtype)
            larger[: self.size] = self._data[: self.size]
            self._data = larger
        self._data[self.size : needed] = values
        self.size = needed

    def truncate(self, size: int) -> None:
        """Forget all but the first ``size`` values."""
        self.size = min(self.size, size)

    @property
    def array(self) -> npt.NDArray[Scalar]:
        """The values so far, without a copy; valid until the next change."""
        return self._data[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return int(self._data.nbytes)
