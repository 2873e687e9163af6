"""What bytes from elsewhere say. A file may be half written, a message sent by anybody: both get one answer."""

from __future__ import annotations

from typing import Any

import msgspec


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
