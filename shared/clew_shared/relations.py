"""Measured relations: the points of ``Series`` events by name, each once over all attempts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.curves import Buffer
from clew_shared.events import Series


class Measured(NamedTuple):
    """A measured relation so far: all points of the ``Series`` events of one name; ``last`` has labels and units.

    The arrays are views of growing buffers: use them at once, or copy them, before more is fed.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    last: Series


class _Piece(NamedTuple):
    """One ``Series`` event: how many steps its attempt had recorded before, and how many points there are with it."""

    reached: int
    end: int
    event: Series


class Relation:
    """The points of one name; appending costs what is appended."""

    def __init__(self) -> None:
        self._x = Buffer("float64")
        self._y = Buffer("float64")
        self._pieces: list[_Piece] = []

    def append(self, event: Series, reached: int) -> None:
        """Take one event, whose x and y are as many."""
        self._x.extend(np.frombuffer(event.x, "<f8"))
        self._y.extend(np.frombuffer(event.y, "<f8"))
        self._pieces.append(_Piece(reached, self._x.size, event))

    def cut(self, start: int) -> None:
        """Take away what a later attempt, which begins at step ``start``, measures again; from step 0 that is all.

        Series have no steps: an event belongs to the steps that its attempt had recorded before it.
        """
        self._pieces = [piece for piece in self._pieces if 0 < start >= piece.reached]
        self._x.size = self._y.size = self._pieces[-1].end if self._pieces else 0

    @property
    def measured(self) -> Measured | None:
        """What there is; None without points."""
        return Measured(self._x.view, self._y.view, self._pieces[-1].event) if self._pieces else None
