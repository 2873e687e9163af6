"""Many files of a site with few questions. Where each question is a session of its own, which a site may answer half a
second later, two for each of two hundred runs would take minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError

_PIECE = 4 << 20
"""Bytes of one answer: some seconds of a slow link."""
_ANSWER_S = 300.0
SIZES = """export LC_ALL=C
while IFS= read -r folder; do
    printf '/%s\\n' "$folder"
    (cd -- "$folder" 2>/dev/null && stat -L -c '%s %F/%n' -- $1 2>/dev/null)
done
:"""
PIECES = 'while read -r start length path; do tail -c "+$start" -- "$path" | head -c "$length"; done'


class FilePiece(NamedTuple):
    """So many bytes of a file on the site, from ``offset`` on."""

    path: str
    offset: int
    length: int


def file_sizes(connection: SiteConnection, folders: Sequence[str], names: str) -> list[dict[str, int]]:
    """The sizes of the regular files in each of the ``folders`` (absolute paths) that have one of these ``names``
    (patterns of a shell, with blanks between them); nothing for a folder that is not there.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    lines = "".join(f"{folder}\n" for folder in folders)
    answer = connection.ssh.run(("/bin/sh", "-c", SIZES, "clew", names), stdin=lines.encode(), timeout=_ANSWER_S)
    found: list[dict[str, int]] = []
    for line in answer.stdout.decode(errors="replace").splitlines():
        if line.startswith("/"):
            found.append({})
        elif found and (match := re.fullmatch(r"([0-9]{1,18}) regular (?:empty )?file/(.+)", line)):
            found[-1][match[2]] = int(match[1])
    return [*found, *({} for _ in range(len(folders) - len(found)))][: len(folders)]


def read_pieces(
    connection: SiteConnection, wanted: Iterable[FilePiece]
) -> Iterator[tuple[FilePiece, bytes | ProblemError]]:
    """Reads the pieces in their order, long ones in several. Each comes with what the file has of it now, or with why
    that cannot be read.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    for batch in _batches(wanted):
        lines = "".join(f"{piece.offset + 1} {piece.length} {piece.path}\n" for piece in batch)
        answer = connection.ssh.run(("/bin/sh", "-c", PIECES), stdin=lines.encode(), timeout=_ANSWER_S)
        if len(answer.stdout) == sum(piece.length for piece in batch):  # none has more than was asked for
            at = 0
            for piece in batch:
                yield piece, answer.stdout[at : at + piece.length]
                at += piece.length
        else:
            yield from ((piece, _read(connection, piece)) for piece in batch)


def _batches(wanted: Iterable[FilePiece]) -> Iterator[list[FilePiece]]:
    batch: list[FilePiece] = []
    left = _PIECE
    for piece in wanted:
        offset, end = piece.offset, piece.offset + piece.length
        while offset < end:
            part = piece._replace(offset=offset, length=min(left, end - offset))
            batch.append(part)
            offset, left = offset + part.length, left - part.length
            if not left:
                yield batch
                batch, left = [], _PIECE
    if batch:
        yield batch


def _read(connection: SiteConnection, piece: FilePiece) -> bytes | ProblemError:
    """One piece alone: a file of a batch has become shorter, or cannot be read."""
    try:
        return connection.ssh.read(piece.path, piece.offset, piece.length)
    except ProblemError as error:
        if error.problems[0].code != "ssh.file":
            raise
        return error
