"""Owner-only folders and files: what holds a key or says where an agent listens is nobody else's to read or plant."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from clew_shared.base import operating_system
from clew_shared.base.problem import problem

FOLDER_MODE = 0o700


def make_private(folder: Path) -> Path:
    """Create ``folder`` (and its parents) for the owner alone, or check that an existing one is.

    Raises ``ProblemError`` when it is a link, no folder, or belongs to somebody else: in a shared ``/tmp``
    another user may have made it first.
    """
    for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        missing.mkdir(mode=FOLDER_MODE, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or not operating_system.is_mine(state):
        hint = "Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
        raise problem(
            "private.folder", f"{folder} is not a folder of your own, so no key is kept in it.", hint, str(folder)
        )
    operating_system.shut_out_others(folder, state)
    return folder


def is_private(folder: Path) -> bool:
    """Whether ``folder`` is a folder of this user that nobody else may write to."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    mine = operating_system.is_mine(state) and not operating_system.others_may_write(state)
    return stat.S_ISDIR(state.st_mode) and mine


def write_private(path: Path, data: bytes, lasting: bool = True) -> None:
    """Replace ``path`` by ``data`` in one go, mode 0600: a reader sees the old content or the new, never a part.

    Not ``lasting``: does not wait for the disk, and a power cut within seconds may leave an empty file.

    Raises ``OSError`` when the disk refuses; then the old content stays.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp makes mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                operating_system.sync(file.fileno())
        operating_system.replace_file(Path(name), path)
    except BaseException:
        with suppress(OSError):
            operating_system.remove_file(Path(name))
        raise
