"""Many files of a site with few questions. Where each question is a session of its own, which a site may answer half a
second later, two for each of two hundred runs would take minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.errors import no_file
from clew_shared.base.problem import ProblemError, problem

_MOST_BYTES = 4 << 20
"""Bytes of one answer: some seconds of a slow link."""
_LEAST_BYTES = 64 << 10
"""An answer that is late is asked for in halves down to this, a list down to one folder: then the link is too slow for
anything."""
_ANSWER_S = 60.0
"""Seconds for one answer: a network disk may make a login node wait."""
_END = "clew-end"
SIZES = f"""export LC_ALL=C
while IFS= read -r folder; do
    printf '/%s\\n' "$folder"
    (cd -- "$folder" 2>/dev/null && stat -L -c '%s %F/%n' -- $1 2>&1 || stat -L -c '%s %F/%n' -- "$folder" 2>&1)
done
printf '%s\\n' {_END}"""
PIECES = 'while read -r start length path; do tail -c "+$start" -- "$path" | head -c "$length"; done'
_ABSENT = ("No such file", "Not a directory")


class FilePiece(NamedTuple):
    """A stretch of a file on the site: ``length`` bytes from ``offset`` on."""

    path: str
    offset: int
    length: int


def file_sizes(connection: SiteConnection, folders: Sequence[str], names: str) -> list[dict[str, int] | ProblemError]:
    """The sizes of the regular files in each of the ``folders`` (absolute paths) that have one of these ``names``
    (patterns of a shell, with blanks between them); nothing for a folder that is not there, and for one that cannot be
    read the reason.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    lines = "".join(f"{folder}\n" for folder in folders)
    command = ("/bin/sh", "-c", SIZES, "clew", names)
    try:
        answer = connection.ssh.run(command, stdin=lines.encode(), timeout=_ANSWER_S)
    except ProblemError as error:
        if error.problems[0].code != "ssh.timeout" or len(folders) < 2:
            raise
        half = len(folders) // 2
        return [*file_sizes(connection, folders[:half], names), *file_sizes(connection, folders[half:], names)]
    found = read_sizes(answer.stdout, folders, connection.title)
    if answer.exit_status or found is None:
        said = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
        text = f"{connection.title} did not list its files to the end. {' '.join(said)}".rstrip()
        raise problem("ssh.file", text, "Try again.", connection.name)
    return found


def read_sizes(output: bytes, folders: Sequence[str], title: str) -> list[dict[str, int] | ProblemError] | None:
    """Reads the answer about the ``folders``; None if its end is missing."""
    found: list[dict[str, int] | ProblemError] = []
    lines = output.decode(errors="replace").split("\n")
    for line in lines:
        last = found[-1] if found else None
        if len(found) < len(folders) and line == f"/{folders[len(found)]}":
            found.append({})
        elif isinstance(last, dict) and (match := re.fullmatch(r"([0-9]{1,18}) ([a-z ]+)/(.+)", line)):
            if match[2] in ("regular file", "regular empty file"):
                last[match[3]] = int(match[1])
        elif isinstance(last, dict) and line not in ("", _END) and not any(word in line for word in _ABSENT):
            found[-1] = no_file(folders[len(found) - 1], title, [line])
    return found if _END in lines and len(found) == len(folders) else None


def read_pieces(
    connection: SiteConnection, wanted: Iterable[FilePiece]
) -> Iterator[tuple[FilePiece, bytes | ProblemError]]:
    """Reads the pieces in their order, those above 4 MiB in several. Each comes with what the file has of it now, or
    with why that cannot be read.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    for batch in _batches(wanted):
        yield from _read_batch(connection, batch)


def _batches(wanted: Iterable[FilePiece]) -> Iterator[list[FilePiece]]:
    batch: list[FilePiece] = []
    for part in (part for piece in wanted for part in _parts(piece, _MOST_BYTES)):
        if batch and sum(one.length for one in batch) + part.length > _MOST_BYTES:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def _parts(piece: FilePiece, most: int) -> Iterator[FilePiece]:
    end = piece.offset + piece.length
    for offset in range(piece.offset, end, most):
        yield piece._replace(offset=offset, length=min(most, end - offset))


def _read_batch(
    connection: SiteConnection, batch: Sequence[FilePiece]
) -> Iterator[tuple[FilePiece, bytes | ProblemError]]:
    """One answer, or several where it comes too late, or where a file has become shorter or cannot be read."""
    size = sum(piece.length for piece in batch)
    data = _ask(connection, batch, size)
    if data is not None and len(data) == size:  # no file gives more than was asked for
        at = 0
        for piece in batch:
            yield piece, data[at : at + piece.length]
            at += piece.length
    elif len(batch) > 1:
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            yield from _read_batch(connection, half)
    elif data is None:
        for part in _parts(batch[0], -(-size // 2)):
            yield from _read_batch(connection, [part])
    else:
        yield batch[0], _read_alone(connection, batch[0])


def _ask(connection: SiteConnection, batch: Sequence[FilePiece], size: int) -> bytes | None:
    """The bytes of all pieces, one after the other; None when the answer is late. A link that dies is dialled once
    more."""
    lines = "".join(f"{piece.offset + 1} {piece.length} {piece.path}\n" for piece in batch).encode()
    for again in (True, False):
        try:
            return connection.ssh.run(("/bin/sh", "-c", PIECES), stdin=lines, timeout=_ANSWER_S).stdout
        except ProblemError as error:
            code = error.problems[0].code
            if code == "ssh.timeout" and size > _LEAST_BYTES:
                return None
            if code != "ssh.lost" or not again:
                raise
    raise AssertionError("each turn returns or raises")


def _read_alone(connection: SiteConnection, piece: FilePiece) -> bytes | ProblemError:
    try:
        return connection.ssh.read(piece.path, piece.offset, piece.length)
    except ProblemError as error:
        if error.problems[0].code != "ssh.file":
            raise
        return error
