"""Reading files of unknown origin: sizes are bounded before memory is taken, and damage has a name."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from clew_agent.datasets.dataset import junk
from clew_shared.base.foreign import read_file
from clew_shared.base.problem import problem

MAX_BYTES = 1 << 30
"""Largest size of an unpacked file. No file of these formats needs more: the largest, the pickle of floats, has 220
MB."""

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_PIECE = 1 << 16
"""Number of bytes that are given to zlib at once. It copies what it does not use, which would be the whole rest of the
file each time."""
_MOST_MEMBERS = 20_000
"""A gzip file may be several in a row: bgzip writes one for each 64 KiB, 16,400 for ``MAX_BYTES``."""


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of ``path``, gzip unpacked. Raises ``ProblemError`` when unreadable, damaged or too large."""
    try:
        data = read_file(path, limit)
    except ValueError as error:
        raise problem("data.read", f"Cannot read {path}: {error}.", "Check the path.", str(path)) from None
    return gunzip(data, path, limit) if data.startswith(_GZIP) else data


def gunzip(data: bytes, path: Path, limit: int = MAX_BYTES) -> bytes:
    """The unpacked bytes of the gzip file ``data``; stops as soon as they would exceed ``limit``."""
    parts: list[bytes] = []
    total, at = 0, 0
    for _ in range(_MOST_MEMBERS):
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            piece = data[at : at + _PIECE]
            try:
                part = unpacker.decompress(piece, _CHUNK)
            except zlib.error:
                raise junk(path, "its gzip data is damaged") from None
            at += len(piece) - len(unpacker.unconsumed_tail) - len(unpacker.unused_data)
            total += len(part)
            parts.append(part)
            if total > limit:
                raise junk(path, f"it unpacks to more than the {limit:,} bytes that such a file can have")
            if not part and not piece and not unpacker.eof:
                raise junk(path, "its gzip data ends in the middle")
        at = _after_padding(data, at)
        if at == len(data):
            return b"".join(parts)
    raise junk(path, f"it is more than {_MOST_MEMBERS:,} gzip files in a row")


def _after_padding(data: bytes, start: int) -> int:
    """Returns where the zeros that begin at ``start`` end: a gzip file may be padded."""
    while data.startswith(b"\0", start):
        piece = data[start : start + _PIECE]
        start += len(piece) - len(piece.lstrip(b"\0"))
    return start


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 of one file; of several: of the lines that ``sha256sum`` prints for them, ordered by name."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    if len(sums) == 1:
        return next(iter(sums.values()))
    listing = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    return hashlib.sha256(listing.encode()).hexdigest()
