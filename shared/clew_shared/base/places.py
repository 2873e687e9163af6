"""The folders in which Clew keeps things on one computer. ``CLEW_HOME`` moves everything that lasts to another
folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

_TMP = Path("/tmp")  # noqa: S108  # what is put there is checked to be the user's own


class Places(msgspec.Struct, frozen=True):
    """Folders below ``home`` (lasting, maybe on a shared file system), and ``private`` (owner-only, the node's own)."""

    home: Path
    private: Path

    @property
    def runs(self) -> Path:
        """The run folders, one per run, named by the run's UUID."""
        return self.home / "runs"

    @property
    def agents(self) -> Path:
        """The folder with ``<uuid>.json`` of every agent: what a viewer needs to find it (``AgentAddress``)."""
        return self.home / "agents"

    @property
    def mirrors(self) -> Path:
        """A viewer's own copies of journals, one folder per run."""
        return self.home / "mirrors"

    @property
    def studies(self) -> Path:
        """The folder with ``<name>.toml`` of every sweep: which runs it has, so that it can be continued."""
        return self.home / "studies"

    @property
    def config(self) -> Path:
        """Settings of the window and of sites."""
        return self.home / "config"

    @property
    def data(self) -> Path:
        """The user's cache of data sets."""
        return self.home / "data"


def find_places() -> Places:
    """The folders of this user: below ``CLEW_HOME``, else where the platform keeps a program's data."""
    home = os.environ.get("CLEW_HOME")
    base = Path(home) if home else _usual_home()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    # Batch systems hand on a login node's variable, whose folder is not on the compute node.
    there = bool(runtime) and Path(runtime).is_dir()
    private = Path(runtime) / "clew" if there else _temporary() / f"clew-{user}"
    return Places(home=base, private=private)


def _usual_home() -> Path:
    import platformdirs  # late: on a site, where ``CLEW_HOME`` is always set, the package may be absent

    return Path(platformdirs.user_data_dir("clew", appauthor=False))


def _temporary() -> Path:
    """The folder for temporary files, the same for all processes, also when it is full just now.

    ``tempfile.gettempdir`` takes another one then, and a run's guard would not be found by its agent.
    """
    if os.name != "posix":
        return Path(tempfile.gettempdir())
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return next((Path(name).absolute() for name in named if name and Path(name).is_dir()), _TMP)
