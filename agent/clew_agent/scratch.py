"""Names in a run folder that exist only while a trainer works: its disk reserve, a checkpoint that is being written."""

from __future__ import annotations

import shutil
from pathlib import Path

from clew_shared.runfolder import RunFolder

_PARTIAL = ".partial"


def reserve(folder: RunFolder) -> Path:
    """The recorder's reserve file."""
    return folder.path / ".reserve"


def partial(folder: RunFolder, step: int) -> Path:
    """Where the checkpoint of ``step`` is written before it gets its name."""
    return folder.checkpoints / f".{step:08d}{_PARTIAL}"


def clear(folder: RunFolder) -> None:
    """Remove what a trainer that died has left of these; called before its files are recorded."""
    reserve(folder).unlink(missing_ok=True)
    for path in folder.checkpoints.glob(f".*{_PARTIAL}"):
        shutil.rmtree(path, ignore_errors=True)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, if it exists."""
    if folder.exists():
        shutil.rmtree(folder)
