"""A site that is this computer: real shells and files in a home of its own, without SSH, with cuts on request."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew_gui.deploy.remote_python import SMALL
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Command, Finished, RemoteFile, lost, marked, new_mark, shell_line, unmarked
from clew_gui.ssh.errors import no_file
from tests.local_stream import LocalStream

LONG = 100_000
"""Input that holds an archive."""


class CountedStream(LocalStream):
    """Its input counts as sent, and may be spoilt."""

    def __init__(
        self, owner: LocalConnection, words: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        super().__init__(words, environment, folder)
        self._owner = owner
        self._kept = b""

    def send(self, data: bytes) -> None:
        self._owner.sent += len(data)
        self._kept += data

    def end(self) -> None:
        long = len(self._kept) > LONG
        super().send(self._kept[: len(self._kept) - self._owner.spoil] if long else self._kept)
        self._kept = b""
        super().end()


class LocalConnection:
    """What bootstrap and staging use of a ``SteadyConnection``.

    ``commands`` counts what was run. ``cut_after`` bytes of further uploads the link dies once; ``spoil`` bytes at the
    end of a command's long input are lost.
    """

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.environment = {"HOME": str(home), "PATH": os.environ["PATH"], **environment}
        self.commands = 0
        self.sent = 0
        self.cut_after: int | None = None
        self.spoil = 0

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        self.commands += 1
        mark = new_mark()
        done = subprocess.run(
            ["/bin/sh", "-c", marked(command, mark)],
            input=stdin[: len(stdin) - self.spoil] if len(stdin) > LONG else stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.home,
            timeout=timeout,
            check=False,
        )
        self.sent += len(stdin)
        return unmarked(done.returncode, done.stdout, done.stderr, mark, "here")

    def open(self, command: Command, timeout: float = 30.0) -> LocalStream:
        self.commands += 1
        return CountedStream(self, ["/bin/sh", "-c", shell_line(command)], self.environment, self.home)

    def write(self, path: str, data: bytes, *, mode: int = 0o600, offset: int = 0, timeout: float = 600.0) -> None:
        cut = self.cut_after is not None and len(data) > self.cut_after
        try:
            with Path(path).open("r+b" if offset else "wb") as file:
                Path(path).chmod(mode)
                file.truncate(offset)
                file.seek(offset)
                file.write(data[: self.cut_after] if cut else data)
        except OSError as error:
            raise no_file(path, "here", [str(error)]) from None
        self.sent += len(data)
        if cut:
            self.cut_after = None
            raise lost("here")

    def read(self, path: str, offset: int = 0, limit: int | None = None, timeout: float = 60.0) -> bytes:
        try:
            data = Path(path).read_bytes()[offset:]
        except OSError as error:
            raise no_file(path, "here", [str(error)]) from None
        return data if limit is None else data[:limit]

    def stat(self, path: str, timeout: float = 30.0) -> RemoteFile | None:
        if not Path(path).exists():
            return None
        return RemoteFile(Path(path).stat().st_size, 0.0, 0o600)

    @property
    def alive(self) -> bool:
        return True

    def connected(self) -> LocalConnection:
        return self

    def wake(self) -> None:
        """Nothing sleeps."""

    def close(self) -> None:
        """Nothing is open."""


def local_line(home: Path, site: Site, **environment: str) -> tuple[SiteConnection, LocalConnection]:
    """A line to this computer, whose user has the home ``home``."""
    home.mkdir(exist_ok=True)
    connection = LocalConnection(home, **environment)
    anything: Any = connection
    return SiteConnection("here", site, anything), connection


def course(folder: Path, **versions: str) -> str:
    """A prologue that gives Python these packages, as far as anybody can tell without importing large ones."""
    for name, version in versions.items():
        package, about = folder / name, folder / f"{name}-{version}.dist-info"
        package.mkdir(parents=True)
        about.mkdir()
        text = "" if name in {need.module for need in SMALL} else "raise SystemExit('nobody may import this')\n"
        (package / "__init__.py").write_text(text)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return f"export PYTHONPATH='{folder}'"


def damage(path: Path) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(bytes(data))
