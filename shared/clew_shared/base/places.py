"""The folders in which Clew keeps things on one computer. ``CLEW_HOME`` moves everything that lasts to another
folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_shared.base import operating_system


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
    def courses(self) -> Path:
        """The folder with the files of each course that was opened, by its id."""
        return self.home / "courses"

    def shared(self, course: str) -> Path:
        """The folder with what a student shares with the class of a course: lines for its board, and receipts."""
        return self.home / "shared" / course

    @property
    def data(self) -> Path:
        """The user's cache of data sets."""
        return self.home / "data"


class AgentPlaces(Places, frozen=True):
    """The same folders, but for those of an agent that is found by nobody but the program that started it."""

    own: Path

    @property
    def agents(self) -> Path:
        """The folder with the agent's address, its keys and its log."""
        return self.own


def find_places() -> Places:
    """The folders of this user: below ``CLEW_HOME``, else where the platform keeps a program's data.

    A file of settings may have written ``~`` in ``CLEW_HOME``, and not every program goes on in this one's folder.
    """
    home = Path(os.environ.get("CLEW_HOME") or _usual_home())
    with suppress(RuntimeError):  # there is no such user
        home = home.expanduser()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    # Batch systems hand on a login node's variable, whose folder is not on the compute node.
    there = bool(runtime) and Path(runtime).is_dir()
    private = Path(runtime) / "clew" if there else operating_system.private_folder()
    return Places(home=home.absolute(), private=private)


def _usual_home() -> Path:
    import platformdirs  # late: on a site, where ``CLEW_HOME`` is always set, the package may be absent

    return Path(platformdirs.user_data_dir("clew", appauthor=False))
