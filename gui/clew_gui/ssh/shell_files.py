"""Files through a remote shell, with ``cat``, ``tail``, ``stat``: for servers without SFTP and the system's ``ssh``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clew_gui.ssh.connection import Finished, RemoteFile
from clew_shared.base.problem import ProblemError, problem

Run = Callable[[Sequence[str], bytes, float], Finished]
"""A command, its standard input, its time limit in seconds."""

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


def read_file(run: Run, path: str, offset: int, limit: int | None, timeout: float, title: str) -> bytes:
    """The file's bytes from ``offset`` on, ``limit`` at most."""
    script, rest = (_READ_ALL, []) if limit is None else (_READ_SOME, [str(limit)])
    return _done(run(_sh(script, path, str(offset + 1), *rest), b"", timeout), path, title).stdout


def write_file(run: Run, path: str, data: bytes | Path, mode: int, offset: int, timeout: float, title: str) -> None:
    """Write ``data`` piece by piece, from ``offset`` on; a new file is its owner's alone before anything is in it."""
    begin = _sh(_EXTEND, path, str(offset)) if offset else _sh(_CREATE, path, f"{mode:o}")
    for number, piece in enumerate(pieces(data)):
        command = _sh('exec cat >>"$1"', path) if number else begin
        _done(run(command, piece, timeout), path, title)


def pieces(data: bytes | Path, size: int = PIECE) -> Iterator[bytes]:
    """``data``, or a file's content, in pieces; one empty piece when there is nothing."""
    with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        yield file.read(size)
        while piece := file.read(size):
            yield piece


def stat_file(run: Run, path: str, timeout: float, title: str) -> RemoteFile | None:
    """Returns the facts about a file; None if there is none."""
    done = run(_sh(_STAT, path), b"", timeout)
    if done.exit_status != 0 and any(text in done.stderr for text in (b"No such file", b"Not a directory")):
        return None
    size, modified, mode, kind = _done(done, path, title).stdout.decode(errors="replace").strip().split(" ", 3)
    return RemoteFile(int(size), float(modified), int(mode, 8) & 0o7777, kind == "directory")


def _sh(script: str, *arguments: str) -> list[str]:
    return ["/bin/sh", "-c", script, "clew", *arguments]


def _done(done: Finished, path: str, title: str) -> Finished:
    if done.exit_status != 0:
        raise no_file(
            path, title, done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it cannot be used"]
        )
    return done


def no_file(path: str, title: str, why: Sequence[str]) -> ProblemError:
    """Returns the error for a file that the server did not read or write."""
    text = f"{path} on {title}: {' '.join(why)}."
    return problem("ssh.file", text, "Check its name, the rights there, and the quota.", f"{title}:{path}")
