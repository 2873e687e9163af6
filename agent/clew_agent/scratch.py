"""Names in a run folder that exist only while a trainer works: its disk reserve, a checkpoint that is being written.

They are an attempt's own: another one may be at work in the same folder, on a node that was cut off.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from clew_shared.runfolder import RunFolder

_RESERVE, _PARTIAL = ".reserve", ".partial"
_NAME = re.compile(r"\.(?:reserve|\d+)(?:-(\d+))?(?:\.partial)?")


def reserve(folder: RunFolder, attempt: int = 1) -> Path:
    """The recorder's reserve file."""
    return folder.path / f"{_RESERVE}{_mark(attempt)}"


def partial(folder: RunFolder, step: int, attempt: int = 1) -> Path:
    """Where the checkpoint of ``step`` is written before it gets its name."""
    return folder.checkpoints / f".{step:08d}{_mark(attempt)}{_PARTIAL}"


def clear(folder: RunFolder, attempt: int = 1) -> None:
    """Remove what a trainer that died has left of these, in this attempt or an earlier one; called before its files
    are recorded."""
    for path in folder.path.glob(f"{_RESERVE}*"):
        if _attempt(path) <= attempt:
            path.unlink(missing_ok=True)
    for path in folder.checkpoints.glob(f".*{_PARTIAL}"):
        if _attempt(path) <= attempt:
            shutil.rmtree(path, ignore_errors=True)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, if it exists."""
    if folder.exists():
        shutil.rmtree(folder)


def _mark(attempt: int) -> str:
    return f"-{attempt:04d}" if attempt > 1 else ""


def _attempt(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    return int(found[1] or 1) if found is not None else 1
