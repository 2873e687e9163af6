"""Decoding of bytes from elsewhere. A file may be half written, a message sent by anybody: both are checked."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from clew_shared.base import operating_system

T = TypeVar("T")
_NO_TEXT = re.compile("[\ud800-\udfff]")
"""Matches surrogates: Python makes them of bytes that are not UTF-8, and of halves of characters."""
_DEEPEST = 32
"""Largest number of brackets in brackets, or of names with dots between them, in one place of a TOML text; Clew's own
have 3. Python's reader needs memory with the square of the dots, and recurses for each bracket."""
_TEXTS = re.compile(r'''"""(?:[^\\]|\\.)*?"""|\'{3}.*?\'{3}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*''', re.DOTALL)
"""Matches quoted texts and comments."""
_DOTTED = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{_DEEPEST}}}", re.ASCII)


def open_regular(path: Path) -> BinaryIO:
    """The regular file at ``path``, to be read. Raises ``ValueError`` that says what is wrong.

    A device may have no end, and a FIFO no writer: neither is waited for.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  # the caller closes it
    except OSError as error:
        raise ValueError("it is a folder" if path.is_dir() else said(error)) from None  # Windows says: access denied
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise ValueError("it is not a regular file")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | operating_system.OPEN_NOW)


def said(error: OSError) -> str:
    """Returns the system's words for an error."""
    return error.strerror or str(error)


def readable(text: str) -> str:
    """A text that can be encoded: ``%FF`` for each byte of a file's name or an argument that is no UTF-8."""
    return _NO_TEXT.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", text)


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes. Raises ``ValueError`` as ``open_regular``."""
    with open_regular(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, limit) + 1)  # Python takes the memory that it is asked for
        except OSError as error:
            raise ValueError(said(error)) from None
    if max(size, len(data)) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


@contextmanager
def replacing_whole(path: Path) -> Iterator[Path]:
    """A temporary path that becomes the file ``path`` at the end, or vanishes when something goes wrong.

    A link keeps its place: what it leads to is replaced. A device or FIFO is no file that could be: it would be gone.
    Raises ``OSError``.
    """
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not stat.S_ISREG(target.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is a folder" if target.is_dir() else "it is not a regular file", str(path))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        operating_system.replace_file(part, target)
    finally:
        operating_system.remove_file(part)


def from_toml(text: str) -> dict[str, Any]:
    """The table in the TOML ``text``. Raises ``ValueError`` (``TOMLDecodeError``, with the line) for anything else, and
    for what is nested deeper than any file of Clew's."""
    _refuse_deep(text)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _refuse_deep(text: str) -> None:
    """Raise ``ValueError`` where brackets or dotted names are nested too deep."""
    plain = _TEXTS.sub(lambda found: "x" + "\n" * found[0].count("\n"), text)
    depth = 0
    for found in re.finditer(r"[\[{]|[\]}]", plain):
        depth += 1 if found[0] in "[{" else -1
        if depth > _DEEPEST:
            raise ValueError(_too_deep(plain, found.start()))
    dotted = _DOTTED.search(plain)
    if dotted is not None:
        raise ValueError(_too_deep(plain, dotted.start()))


def _too_deep(text: str, place: int) -> str:
    return f"Nested more than {_DEEPEST} deep (at line {text.count(chr(10), 0, place) + 1}, column 1)"


def from_json(data: bytes | str, kind: Any) -> Any:
    """The JSON ``data`` as ``kind``. Raises ``msgspec.DecodeError`` (or its ``ValidationError``) for anything else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (UnicodeError, RecursionError) as error:  # broken text; thousands of nested lists
        raise msgspec.DecodeError(str(error)) from None


def json_or_none(data: bytes | str, kind: type[T]) -> T | None:
    """The JSON ``data`` as ``kind``; None for anything else."""
    try:
        found: T = from_json(data, kind)
    except msgspec.DecodeError:
        return None
    return found


def read_json(path: Path, kind: type[T]) -> T | None:
    """The JSON in the file ``path`` as ``kind``; None for anything else, and for a file that cannot be read."""
    try:
        return json_or_none(path.read_bytes(), kind)
    except OSError:
        return None


def from_msgpack(data: bytes, kind: Any) -> Any:
    """The MessagePack ``data`` as ``kind``, with the errors of ``from_json``."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
