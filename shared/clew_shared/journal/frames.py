"""Frames of the journal: made from events, and found in bytes that arrive in pieces of any size."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from clew_shared.base.foreign import readable
from clew_shared.base.problem import problem
from clew_shared.journal.events import AnyEvent, Event, Points

MAGIC = b"\xc1CLW"  # 0xC1 begins no msgpack value and is in no UTF-8 text
HEADER_SIZE = 12
MAX_FRAME = 1 << 20

_LENGTH = struct.Struct("<I")
_LONG = 1 << 16
"""Number of bytes from which columns are written as they lie; a copy of shorter ones costs less than their parts do."""
_FEW = 100
"""Largest number of columns that are written as they lie; a system takes no more than a thousand parts at once."""


def encode_frame(event: Event) -> bytes:
    """``event`` as one frame. Raises ``ProblemError`` when it is longer than ``MAX_FRAME``."""
    return b"".join(frame_parts(event))


def frame_parts(event: Event) -> tuple[bytes, ...]:
    """The frame of ``event`` in parts that follow each other; the columns of long ``Points`` are among them as they
    are. Raises ``ProblemError`` when the frame is longer than ``MAX_FRAME``."""
    if isinstance(event, Points) and len(event.values) <= _FEW and total(event.values) > _LONG:
        first, *others = _in_parts(event)
    else:
        first, others = _payload(event), []
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


def _payload(event: Event) -> bytes:
    """The event as MessagePack. A name of a file or what a program printed may be no text; it is recorded readably."""
    try:
        return msgspec.msgpack.encode(event)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_readable(msgspec.to_builtins(event, builtin_types=(bytes,))))


def _readable(value: object) -> object:
    match value:
        case str():
            return readable(value)
        case dict():
            return {_readable(key): _readable(one) for key, one in value.items()}
        case list() | tuple():
            return [_readable(one) for one in value]
        case _:
            return value


def _in_parts(points: Points) -> list[bytes]:
    """The payload: everything before the first column's bytes, the bytes, what is before the second column, …

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


# --- Frame reader -----------------------------------------------------------------------------------------------------
# Finds the frames of a journal in bytes that arrive in pieces of any size, and skips damaged stretches.
#
# PROTOCOL.md is the authority. No NumPy here: the supervisor imports this.


_HEADER = struct.Struct("<4sII")
_DECODER = msgspec.msgpack.Decoder(AnyEvent)


class Record(NamedTuple):
    """An intact frame at ``offset``, ``size`` bytes long. ``event`` is None for a kind that is not known here."""

    offset: int
    size: int
    event: AnyEvent | None


class Damage(NamedTuple):
    """``size`` bytes at ``offset`` that are no intact frame. ``tail`` says that they reach to the end of what was read:
    a frame that is cut there may be one that is being written."""

    offset: int
    size: int
    text: str
    tail: bool = False


def _decode(payload: bytes) -> AnyEvent | None:
    """The event, or None for an unknown kind. Raises ``msgspec.DecodeError`` when it is neither."""
    try:
        event: AnyEvent = _DECODER.decode(payload)
    except msgspec.ValidationError:
        fields = msgspec.msgpack.decode(payload)
        tag = fields.get("t") if isinstance(fields, dict) else None
        if isinstance(tag, str) and tag not in _TAGS:
            return None
        raise
    return event


_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in AnyEvent.__args__)

_INVALID, _PARTIAL = -1, -2


def _probe(data: bytearray, start: int) -> int:
    """The end of the intact frame at ``start``, or ``_INVALID``, or ``_PARTIAL`` when more bytes must decide."""
    head = bytes(data[start : start + len(MAGIC)])
    if not MAGIC.startswith(head):
        return _INVALID
    if len(data) - start < HEADER_SIZE:
        return _PARTIAL
    _, length, crc = _HEADER.unpack_from(data, start)
    end = start + HEADER_SIZE + int(length)
    if end - start > MAX_FRAME:
        return _INVALID
    if end > len(data):
        return _PARTIAL
    actual = zlib.crc32(data[start + 4 : start + 8])
    return end if zlib.crc32(memoryview(data)[start + HEADER_SIZE : end], actual) == crc else _INVALID


def _next_candidate(data: bytearray, start: int) -> int:
    """Returns where at or after ``start`` a frame might begin: a magic, a beginning of one at the end, or the end."""
    found = data.find(MAGIC, start)
    if found >= 0:
        return found
    tail = range(max(start, len(data) - len(MAGIC) + 1), len(data))
    return next((place for place in tail if MAGIC.startswith(bytes(data[place:]))), len(data))


class FrameReader:
    """Finds frames in bytes that arrive in pieces of any size; what it returns does not depend on the pieces.

    ``offset`` is the position in the file up to which everything has been returned or skipped; after it a partial
    frame, or the candidate for the end of a damaged stretch, waits for more bytes (at most ``MAX_FRAME``).
    """

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self._data = bytearray()
        self._bad: int | None = None  # where the damaged stretch began, while one lasts

    @property
    def missing(self) -> int:
        """Bytes that must come before the waiting partial frame can be judged; 0 when nothing waits."""
        if not self._data:
            return 0
        if len(self._data) < HEADER_SIZE:
            return HEADER_SIZE - len(self._data)
        _, length, _ = _HEADER.unpack_from(self._data)
        return HEADER_SIZE + int(length) - len(self._data)

    def feed(self, data: bytes) -> list[Record | Damage]:
        """The records and damaged stretches that ``data`` completes, in the order of the file."""
        self._data += data
        return self._take(final=False)

    def rewind(self) -> int:
        """Forget the bytes that wait, and return ``offset``: anyone who follows a file that grows reads on from there.

        What comes after a growing file's last whole frame may change: a refused write is taken back.
        """
        self._data.clear()
        return self.offset

    def finish(self) -> list[Record | Damage]:
        """Returns what is left when no more bytes come: a torn tail is damage, and frames after a damaged length
        count."""
        found = self._take(final=True)
        if self._bad is not None:
            found.append(_damage(self._bad, self.offset, tail=True))
            self._bad = None
        return found

    def _take(self, final: bool) -> list[Record | Damage]:
        found: list[Record | Damage] = []
        data, place = self._data, 0
        while place < len(data):
            end = _probe(data, place)
            if end == _PARTIAL and not final:
                break
            if end < 0:
                self._bad = self.offset + place if self._bad is None else self._bad
                place = _next_candidate(data, place + 1)
                continue
            if self._bad is not None:
                found.append(_damage(self._bad, self.offset + place))
                self._bad = None
            found.append(_read_frame(bytes(memoryview(data)[place:end]), self.offset + place))
            place = end
        del data[:place]
        self.offset += place
        return found


def _damage(start: int, end: int, tail: bool = False) -> Damage:
    words = "an incomplete or damaged frame at the end" if tail else "no intact frame"
    return Damage(start, end - start, f"bytes {start}–{end - 1}: {words}", tail)


def _read_frame(frame: bytes, offset: int) -> Record | Damage:
    try:
        return Record(offset, len(frame), _decode(frame[HEADER_SIZE:]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"bytes {offset}–{offset + len(frame) - 1}: an intact frame whose content cannot be read ({error})"
        return Damage(offset, len(frame), text)
