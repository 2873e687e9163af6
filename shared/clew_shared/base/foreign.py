"""Decoding of bytes from elsewhere. A file may be half written, a message sent by anybody: both are checked."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes. Raises ``ValueError`` that says what is wrong.

    A device may have no end, and a FIFO no writer.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("it is not a regular file")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def from_json(data: bytes | str, kind: Any) -> Any:
    """The JSON ``data`` as ``kind``. Raises ``msgspec.DecodeError`` (or its ``ValidationError``) for anything else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (UnicodeError, RecursionError) as error:  # broken text; thousands of nested lists
        raise msgspec.DecodeError(str(error)) from None


def from_msgpack(data: bytes, kind: Any) -> Any:
    """The MessagePack ``data`` as ``kind``, with the errors of ``from_json``."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
