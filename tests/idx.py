"""Writes the IDX form of MNIST's files, which the product only reads."""

from __future__ import annotations

import struct
from typing import Any

import numpy.typing as npt

_CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def format_idx(array: npt.NDArray[Any]) -> bytes:
    """``array`` as IDX bytes; the inverse of ``parse_idx``."""
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, _CODES[array.dtype.str[1:]], array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()
