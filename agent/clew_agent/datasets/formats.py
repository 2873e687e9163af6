"""Files of arrays: the IDX format of the original MNIST files (http://yann.lecun.com/exdb/mnist, "file formats"), and
``.npz`` read without pickle and without trusting the sizes that they declare.
"""

from __future__ import annotations

import io
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence

import numpy as np

from clew_agent.datasets.dataset import Array

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def looks_like_idx(data: bytes) -> bool:
    """Whether ``data`` begins like an IDX file."""
    return len(data) >= 4 and data[:2] == b"\0\0" and data[2] in _TYPES


def parse_idx(data: bytes) -> Array:
    """The array in ``data``. Raises ``ValueError`` that says what is wrong; takes no memory before the sizes agree."""
    if not looks_like_idx(data):
        raise ValueError(f"it begins with {data[:4].hex(' ') or 'nothing'}, which is not an IDX header")
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


# --- Npz --------------------------------------------------------------------------------------------------------------
# ``.npz`` files, read without pickle and without trusting the sizes they declare.


_NPY_VERSIONS = ((1, 0), (2, 0))
_HEADER_ERRORS = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError)
_READ_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, NotImplementedError)


def parse_npz(data: bytes, names: Sequence[str] | None, limit: int) -> dict[str, Array]:
    """The arrays ``names`` (None: all) of the npz file ``data``, together at most ``limit`` bytes.

    Raises ``ValueError`` that says what is wrong: no zip, a missing array, damage, a size that does not fit.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _READ_ERRORS as error:
        raise ValueError(f"it is not a readable npz file ({error})") from None
    with archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        names = list(members) if names is None else names
        missing = [name for name in names if name not in members]
        if missing:
            present = ", ".join(sorted(members)) or "nothing"
            raise ValueError(f"it lacks the arrays {', '.join(missing)}; it holds {present[:200]}")
        total = sum(members[name].file_size for name in names)
        if total > limit:
            raise ValueError(f"its arrays unpack to {total:,} bytes, more than the {limit:,} that such a file can have")
        return {name: parse_npy(_read_member(archive, members[name]), name) for name in names}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(info) as member:
            return member.read(info.file_size + 1)
    except _READ_ERRORS as error:
        raise ValueError(f"its array {info.filename} is damaged ({error})") from None


def parse_npy(data: bytes, name: str) -> Array:
    """The numeric array in the ``.npy`` bytes ``data``. Raises ``ValueError``; object arrays (pickles) are refused."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in _NPY_VERSIONS:
            raise ValueError(f"npy version {version}")
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reader(stream)
    except _HEADER_ERRORS as error:
        raise ValueError(f"its array {name} has no readable header ({str(error)[:80]})") from None
    start = stream.tell()
    if not all(type(size) is int for size in shape):  # NumPy's reader lets True pass for 1
        raise ValueError(f"its array {name} declares the shape {shape}, expected whole numbers")
    if dtype.kind not in "iuf":
        raise ValueError(f"its array {name} has the type {dtype}, expected numbers")
    declared, present = math.prod(shape) * dtype.itemsize, len(data) - start
    if declared != present or min(shape, default=0) < 0:
        raise ValueError(f"its array {name} declares {shape} ({declared:,} bytes), but {present:,} bytes follow")
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
