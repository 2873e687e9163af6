"""Reading files of unknown origin: sizes are bounded before memory is taken, and damage has a name."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from clew_agent.datasets.dataset import junk
from clew_shared.problem import problem

MAX_BYTES = 1 << 30
"""No file of these formats needs more once unpacked: the largest, the pickle of floats, has 220 MB."""

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of ``path``, gzip unpacked. Raises ``ProblemError`` when unreadable, damaged or too large."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise junk(path, f"it has {size:,} bytes, more than the {limit:,} that such a file can have")
        data = path.read_bytes()
    except OSError as error:
        raise problem("data.read", f"Cannot read {path}: {error.strerror}.", "Check the path.", str(path)) from None
    return gunzip(data, path, limit) if data.startswith(_GZIP) else data


def gunzip(data: bytes, path: Path, limit: int = MAX_BYTES) -> bytes:
    """The unpacked bytes of the gzip file ``data``; stops as soon as they would exceed ``limit``."""
    parts: list[bytes] = []
    total, rest = 0, data
    while rest:
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            try:
                part = unpacker.decompress(rest, _CHUNK)
            except zlib.error:
                raise junk(path, "its gzip data is damaged") from None
            rest = unpacker.unconsumed_tail
            total += len(part)
            parts.append(part)
            if total > limit:
                raise junk(path, f"it unpacks to more than the {limit:,} bytes that such a file can have")
            if not part and not rest and not unpacker.eof:
                raise junk(path, "its gzip data ends in the middle")
        rest = unpacker.unused_data.lstrip(b"\0")  # a gzip file may be padded, or be several in a row
    return b"".join(parts)


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 of one file; of several: of the lines that ``sha256sum`` prints for them, ordered by name."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    if len(sums) == 1:
        return next(iter(sums.values()))
    listing = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    return hashlib.sha256(listing.encode()).hexdigest()
