"""A folder that a class shares, on this computer."""

from __future__ import annotations

import os
from pathlib import Path

from clew_gui.courses.course import SharedPlace
from clew_gui.courses.shared_folder import SharedFolder


def class_folder(path: Path) -> SharedFolder:
    """Makes one that protects its files, where the system has rights."""
    folder = SharedFolder(SharedPlace("", str(path)))
    folder.make(group="root" if os.name == "posix" else "")
    return folder
