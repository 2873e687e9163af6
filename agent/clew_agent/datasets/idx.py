"""The IDX format of the original MNIST files (http://yann.lecun.com/exdb/mnist, "file formats").

Two zero bytes, a type code, the number of dimensions, each dimension as a uint32, then the values; all big-endian.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from clew_agent.datasets.dataset import Array

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def looks_like_idx(data: bytes) -> bool:
    """Whether ``data`` begins like an IDX file."""
    return len(data) >= 4 and data[:2] == b"\0\0" and data[2] in _TYPES


def parse_idx(data: bytes) -> Array:
    """The array in ``data``. Raises ``ValueError`` that says what is wrong; takes no memory before the sizes agree."""
    if not looks_like_idx(data):
        raise ValueError(f"it begins with {data[:4].hex(' ') or 'nothing'}, which is no IDX header")
    dtype, dimensions = np.dtype(_TYPES[data[2]]), data[3]
    start = 4 + 4 * dimensions
    if not 1 <= dimensions <= 4 or len(data) < start:
        raise ValueError(f"its header declares {dimensions} dimensions and ends after {len(data)} bytes")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    declared, present = math.prod(shape) * dtype.itemsize, len(data) - start
    if declared != present:
        sizes = " × ".join(map(str, shape))
        raise ValueError(f"its header declares {sizes} values ({declared:,} bytes), but {present:,} bytes follow")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def format_idx(array: Array) -> bytes:
    """``array`` as IDX bytes; the inverse of ``parse_idx``. Raises ``ValueError`` for a type that IDX does not have."""
    big = array.dtype.newbyteorder(">")
    code = next((code for code, name in _TYPES.items() if np.dtype(name) == big), None)
    if code is None or not 1 <= array.ndim <= 4:
        raise ValueError(f"IDX cannot hold {array.ndim} dimensions of {array.dtype}")
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return head + array.astype(big).tobytes()
