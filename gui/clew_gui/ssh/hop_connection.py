"""What all kinds of SSH connection share: their place on the way, and files through a remote shell, with ``cat``,
``tail``, ``stat``, for servers without SFTP and the system's ``ssh``."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew_gui.ssh.connection import Command, Finished, Hop, RemoteFile, SshFiles
from clew_gui.ssh.prompts import AskOnce
from clew_shared.base.problem import ProblemError, problem

PIECE = 4 << 20
"""Bytes that one command carries up."""

# The path is an argument of the shell, never a part of its text. tail counts from 1, and needs no block size.
_READ = 'test -d "$1" && { echo "Is a directory" >&2; exit 1; }; '
_READ_ALL = _READ + 'exec tail -c "+$2" -- "$1"'
_READ_SOME = _READ + 'test -r "$1" || exec cat -- "$1"; tail -c "+$2" -- "$1" | head -c "$3"'
_CREATE = 'umask 077; if test -f "$1"; then :; else : >"$1"; fi && chmod "$2" "$1" && : >"$1" && exec cat >>"$1"'
_EXTEND = (
    'test -f "$1" && { truncate -s "$2" -- "$1" || exec dd if=/dev/null of="$1" bs=1 seek="$2"; } && exec cat >>"$1"'
)
_STAT = 'LC_ALL=C exec stat -L -c "%s %Y %a %F" -- "$1"'


class HopConnection(ABC):
    """A ``Connection`` but for its commands and streams. ``below`` is the one that it goes through, if any; ``asker``
    is for hops that are wanted afterwards, ``asks_codes`` says whether this hop asked for a code."""

    def __init__(
        self,
        hop: Hop,
        route: str,
        files: SshFiles,
        asker: AskOnce,
        asks_codes: bool,
        below: HopConnection | None = None,
    ) -> None:
        self.route: str = route
        self.asks_codes: bool = asks_codes or (below is not None and below.asks_codes)
        self.owns_below = False
        """Whether closing this one closes the hops that it goes through."""
        self._title = hop.title
        self._files = files
        self._asker = asker
        self._below = below

    @abstractmethod
    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        """See ``Connection.run``."""

    @abstractmethod
    def end(self) -> None:
        """Ends the link to this hop and everything on it."""

    def read(self, path: str, offset: int = 0, limit: int | None = None, timeout: float = 60.0) -> bytes:
        """See ``Connection.read``."""
        script, rest = (_READ_ALL, []) if limit is None else (_READ_SOME, [str(limit)])
        return self._done(self.run(_sh(script, path, str(offset + 1), *rest), timeout=timeout), path).stdout

    def write(
        self, path: str, data: bytes | Path, *, mode: int = 0o600, offset: int = 0, timeout: float = 600.0
    ) -> None:
        """See ``Connection.write``. Piece by piece; a new file is its owner's alone before anything is in it."""
        begin = _sh(_EXTEND, path, str(offset)) if offset else _sh(_CREATE, path, f"{mode:o}")
        for number, piece in enumerate(pieces(data)):
            command = _sh('exec cat >>"$1"', path) if number else begin
            self._done(self.run(command, stdin=piece, timeout=timeout), path)

    def stat(self, path: str, timeout: float = 30.0) -> RemoteFile | None:
        """See ``Connection.stat``."""
        done = self.run(_sh(_STAT, path), timeout=timeout)
        if done.exit_status != 0 and any(text in done.stderr for text in (b"No such file", b"Not a directory")):
            return None
        size, modified, mode, kind = self._done(done, path).stdout.decode(errors="replace").strip().split(" ", 3)
        return RemoteFile(int(size), float(modified), int(mode, 8) & 0o7777, kind == "directory")

    def close(self) -> None:
        """See ``Connection.close``."""
        self.end()
        if self.owns_below and self._below is not None:
            self._below.close_all()

    def close_all(self) -> None:
        """Close this one and all hops that it goes through."""
        self.owns_below = True
        self.close()

    def _done(self, done: Finished, path: str) -> Finished:
        if done.exit_status != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise no_file(path, self._title, said or ["it cannot be used"])
        return done


def route_to(hop: Hop, how: str, below: HopConnection | None) -> str:
    """The route to ``hop`` in words, as ``Connection.route`` has it."""
    before = f"{below.route}, then " if below is not None else ""
    return f"{before}{hop.title} ({how})"


def pieces(data: bytes | Path, size: int = PIECE) -> Iterator[bytes]:
    """``data``, or a file's content, in pieces; one empty piece when there is nothing."""
    with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        yield file.read(size)
        while piece := file.read(size):
            yield piece


def _sh(script: str, *arguments: str) -> list[str]:
    return ["/bin/sh", "-c", script, "clew", *arguments]


def no_file(path: str, title: str, why: Sequence[str]) -> ProblemError:
    """Returns the error for a file that the server did not read or write."""
    text = f"{path} on {title}: {' '.join(why)}."
    return problem("ssh.file", text, "Check its name, the rights there, and the quota.", f"{title}:{path}")
