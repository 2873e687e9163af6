"""Checkpoints of a run: written under another name and complete on the disk before they get theirs."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from clew_agent.trainer import checkpoints
from clew_shared.base import operating_system
from clew_shared.journal.run_folder import RunFolder

_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES)  # the last is what Windows says


class CheckpointPlace:
    """The checkpoints of one attempt.

    A checkpoint of another attempt is never touched, for on a node that was cut off an earlier attempt may still write
    some: where the usual name is taken, the attempt's number is added. Only those that are ``damaged`` (paths below
    the run folder) give way.
    """

    def __init__(self, folder: RunFolder, attempt: int, damaged: Collection[str] = ()) -> None:
        self._folder = folder
        self._attempt = attempt
        self._damaged = frozenset(damaged)

    def write(self, step: int, save: Callable[[Path], None]) -> Path:
        """Have ``save`` write the checkpoint of ``step``; returns its folder. Raises what ``save`` or the disk raises,
        and then leaves nothing."""
        partial = checkpoints.partial(self._folder, step, self._attempt)
        checkpoints.remove(partial)
        try:
            save(partial)
            for path in files_below(partial):
                sync_file(path)
            operating_system.sync_folder(partial)
            target = self._name(partial, step)
            operating_system.sync_folder(target.parent)
        except Exception:
            checkpoints.remove(partial)
            raise
        return target

    def _name(self, partial: Path, step: int) -> Path:
        usual = self._folder.checkpoint(step)
        if usual.relative_to(self._folder.path).as_posix() in self._damaged:
            checkpoints.remove(usual)
        own = usual.with_name(f"{usual.name}-{self._attempt:04d}")
        try:
            return partial.replace(usual)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        checkpoints.remove(own)
        return operating_system.replace_file(partial, own)


def files_below(folder: Path) -> list[Path]:
    """Returns all files in ``folder`` and below, by path."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sync_file(path: Path) -> None:
    """Return when the file's content is on the disk."""
    descriptor = os.open(path, os.O_RDWR | operating_system.OPEN_FLAGS)
    try:
        operating_system.sync(descriptor)
    finally:
        os.close(descriptor)


# --- Scratch ----------------------------------------------------------------------------------------------------------
# Names in a run folder that exist only while a trainer works: its disk reserve, a checkpoint that is being written.
#
# They are an attempt's own: another one may be running in the same folder, on a node that was cut off.


_RESERVE, _PARTIAL = ".reserve", ".partial"
_NAME = re.compile(r"\.(?:reserve|\d+)(?:-(\d+))?(?:\.partial)?")


def reserve(folder: RunFolder, attempt: int = 1) -> Path:
    """The recorder's reserve file."""
    return folder.path / f"{_RESERVE}{_mark(attempt)}"


def partial(folder: RunFolder, step: int, attempt: int = 1) -> Path:
    """Returns the path at which the checkpoint of ``step`` is written before it gets its name."""
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
