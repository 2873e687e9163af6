"""A frame of the journal from an event: ``MAGIC``, the payload's length, a CRC-32 over length and payload, the payload.

PROTOCOL.md is the authority. What goes to the disk goes in parts, so that long columns are not copied on the way.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import msgspec

from clew_shared.events import Event, Points
from clew_shared.problem import problem

MAGIC = b"\xc1CLW"  # 0xC1 begins no msgpack value and stands in no UTF-8 text
HEADER_SIZE = 12
MAX_FRAME = 1 << 20

_LENGTH = struct.Struct("<I")
_LONG = 1 << 16
"""Columns of so many bytes are written as they lie; a copy of shorter ones costs less than their parts do."""
_FEW = 100
"""Columns that are written as they lie; a system takes no more than a thousand parts at once."""


def encode_frame(event: Event) -> bytes:
    """``event`` as one frame. Raises ``ProblemError`` when it is longer than ``MAX_FRAME``."""
    return b"".join(frame_parts(event))


def frame_parts(event: Event) -> tuple[bytes, ...]:
    """The frame of ``event`` in parts that follow each other; the columns of long ``Points`` are among them as they
    are. Raises ``ProblemError`` when the frame is longer than ``MAX_FRAME``."""
    if isinstance(event, Points) and len(event.values) <= _FEW and total(event.values) > _LONG:
        first, *others = _in_parts(event)
    else:
        first, others = msgspec.msgpack.encode(event), []
    size = len(first) + total(others)
    if HEADER_SIZE + size > MAX_FRAME:
        kind = type(event).__name__
        text = f"An event of {size} bytes ({kind}) does not fit into a journal frame of {MAX_FRAME} bytes."
        raise problem("journal.frame", text, "Record it in smaller parts.")
    length = _LENGTH.pack(size)
    crc = zlib.crc32(first, zlib.crc32(length))
    for part in others:
        crc = zlib.crc32(part, crc)
    return b"".join((MAGIC, length, _LENGTH.pack(crc), first)), *others


def _in_parts(points: Points) -> list[bytes]:
    """The payload: everything before the first column's bytes, the bytes, what stands before the second column, …

    ``values`` is the last field, so the payload without columns ends with the header of an empty array.
    """
    head = msgspec.msgpack.encode(msgspec.structs.replace(points, values=()))[:-1] + _array_header(len(points.values))
    parts = [head]
    for column in points.values:
        parts += [_binary_header(len(column)), column]
    return parts


def _array_header(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    return struct.pack(">BH", 0xDC, count) if count < 1 << 16 else struct.pack(">BI", 0xDD, count)


def _binary_header(size: int) -> bytes:
    if size < 1 << 8:
        return bytes((0xC4, size))
    return struct.pack(">BH", 0xC5, size) if size < 1 << 16 else struct.pack(">BI", 0xC6, size)


def total(parts: Sequence[bytes]) -> int:
    """Bytes in all parts."""
    return sum(map(len, parts))
