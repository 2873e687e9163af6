"""Which names files may have on every system: a folder that was made on one is read on another, and names come from
strangers."""

from __future__ import annotations

import re
import uuid
from pathlib import PurePosixPath

_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL)
"""What Windows takes for a device in every folder, whatever comes after a dot."""
_MARKS = re.compile(r"[\x00-\x1f:\\/]")
"""``:`` names a drive or a stream of a file on Windows, the others part names."""


def why_unsafe(name: str) -> str:
    """Says why ``name`` is no file of the folder in which it is looked for, on one of the systems; empty if it is."""
    if name in ("", ".", ".."):
        return "it is empty" if not name else "it means another folder"
    if mark := _MARKS.search(name):
        return f"it contains {mark[0]!r}"
    if name[-1] in ". ":
        return "it ends with a dot or a space, which Windows leaves out"
    return "Windows takes it for a device" if _DEVICES.fullmatch(name) else ""


def is_uuid(text: str) -> bool:
    """Whether ``text`` is a UUID in its usual form: no other id ever becomes part of a path."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def safe_path(path: str) -> bool:
    """Whether a path with ``/`` between its names stays inside the folder to which it belongs, on every system."""
    found = PurePosixPath(path)
    return bool(path) and not found.is_absolute() and not any(map(why_unsafe, found.parts))
