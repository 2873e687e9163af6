"""What a measurement yields: points of a line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clew_shared.journal.events import Series


def points(
    name: str,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    x_label: str,
    y_label: str = "",
    *,
    x_unit: str = "",
    y_unit: str = "",
) -> Series:
    """One point (two numbers) or several (two arrays of the same length) of the line called ``name``."""
    at, values = (np.atleast_1d(np.asarray(one, "<f8")).tobytes() for one in (x, y))
    return Series(name=name, x=at, y=values, x_label=x_label, y_label=y_label, x_unit=x_unit, y_unit=y_unit)
