"""File systems of a test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path


class MountedDisk:
    """A file system at ``path``, made by mount(8) with these words."""

    def __init__(self, path: Path, *words: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", *words, str(path)], check=True)

    def close(self) -> None:
        """Take it away. Whoever still has a file there keeps it."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
