"""Files through SFTP, with paramiko. What the server refuses comes out as ``OSError`` or ``paramiko.SFTPError``."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import paramiko
from paramiko.sftp import CMD_DATA, CMD_HANDLE, CMD_OPEN, CMD_READ, CMD_STATUS, int64

from clew_gui.ssh.connection import RemoteFile
from clew_gui.ssh.hop_connection import pieces

CHUNK = 32768
AHEAD = 64  # so many pieces are asked for before the first is there: 2 MiB under way


def sftp_read(sftp: paramiko.SFTPClient, path: str, offset: int, limit: int | None) -> bytes:
    """The file's bytes from ``offset`` on, ``limit`` at most."""
    with sftp.open(path, "rb") as file:
        size = file.stat().st_size or 0
        wanted = max(0, size - offset) if limit is None else limit
        if size == 0 or wanted <= CHUNK:  # files of /proc say that they are empty
            file.seek(offset)
            return file.read() if limit is None else file.read(limit)
        return _Pieces(sftp, file.handle, offset, min(size, offset + wanted)).read()


class _Pieces:
    """A file's bytes from ``start`` to ``end``, or to where the file ends by then, with many questions under way.

    One thread asks and reads the answers. paramiko's ``readv`` asks in a second one. Where all answers are there before
    its next question, the reader takes that for the end of the questions and reads the rest itself, and the thread asks
    for it as well, also when the channel is closed by then."""

    def __init__(self, sftp: paramiko.SFTPClient, handle: Any, start: int, end: int) -> None:
        self._sftp: Any = sftp
        self._handle = handle
        self._start = start
        self._end = end
        self._data = bytearray(max(0, end - start))
        self._asked: dict[int, tuple[int, int]] = {}
        self._answers: deque[tuple[int, paramiko.Message, int]] = deque()

    def read(self) -> bytes:
        """Raises what paramiko raises for a server's refusal or a lost link."""
        at = self._start
        while at < self._end or self._asked:
            while at < self._end and len(self._asked) < AHEAD:
                at = self._ask(at, min(CHUNK, self._end - at))
            self._sftp._read_response()
            while self._answers:
                self._take(*self._answers.popleft())
        del self._data[max(0, self._end - self._start) :]
        return bytes(self._data)

    def _ask(self, at: int, length: int) -> int:
        number = self._sftp._async_request(self, CMD_READ, self._handle, int64(at), length)
        self._asked[number] = at, length
        return at + length

    def _async_response(self, kind: int, message: paramiko.Message, number: int) -> None:
        """Takes an answer, which paramiko's client hands to the one who asked, also while the file is closed after an
        error."""
        self._answers.append((kind, message, number))

    def _take(self, kind: int, message: paramiko.Message, number: int) -> None:
        """Servers may answer in any order, and with less than was asked for."""
        at, length = self._asked.pop(number)
        data = message.get_string()[:length] if kind == CMD_DATA else self._nothing(kind, message)
        if not data:
            self._end = min(self._end, at)
            return
        self._data[at - self._start : at - self._start + len(data)] = data
        if len(data) < length:
            self._ask(at + len(data), length - len(data))

    def _nothing(self, kind: int, message: paramiko.Message) -> bytes:
        """Returns no bytes if the file has ended. Raises ``OSError`` for a refusal, ``SFTPError`` for anything else."""
        try:
            if kind == CMD_STATUS:
                self._sftp._convert_status(message)
        except EOFError:
            return b""
        raise paramiko.SFTPError("neither data nor the end of the file")


def sftp_write(sftp: paramiko.SFTPClient, path: str, data: bytes | Path, mode: int, offset: int) -> None:
    """Write ``data`` from ``offset`` on; a new file has its permissions before anything is in it."""
    if offset:
        with sftp.open(path, "r+b") as file:
            file.truncate(offset)
            file.seek(offset)
            _send_pieces(file, data)
        return
    with _create(sftp, path, mode) as file:
        _send_pieces(file, data)


def _create(sftp: paramiko.SFTPClient, path: str, mode: int) -> paramiko.SFTPFile:
    """Open a file for writing that has its permissions from the first moment: ``SFTPClient.open`` cannot say them."""
    attributes = paramiko.SFTPAttributes()
    attributes.st_mode = mode
    anything: Any = sftp
    flags = 0x02 | 0x08 | 0x10  # write, create, truncate: section 6.3 of the SFTP draft 02
    kind, message = anything._request(CMD_OPEN, path, flags, attributes)
    if kind != CMD_HANDLE:
        raise paramiko.SFTPError("no handle")
    file = paramiko.SFTPFile(sftp, message.get_binary(), "wb", -1)
    file.chmod(mode)  # one that was there keeps its permissions, and the server's umask may have taken some
    return file


def _send_pieces(file: paramiko.SFTPFile, data: bytes | Path) -> None:
    """Sends the pieces without waiting for the answers before the last one. With that one they are all read: otherwise
    paramiko ignores a refusal, of a full disk for example, when the file is closed."""
    file.set_pipelined(True)
    last: bytes | None = None
    for piece in pieces(data, CHUNK):
        if last is not None:
            file.write(last)
        last = piece
    file.set_pipelined(False)
    file.write(last or b"")


def sftp_stat(sftp: paramiko.SFTPClient, path: str) -> RemoteFile | None:
    """Returns the facts about a file; None if there is none."""
    try:
        found = sftp.stat(path)
    except FileNotFoundError:
        return None
    mode = found.st_mode or 0
    return RemoteFile(found.st_size or 0, float(found.st_mtime or 0), mode & 0o7777, (mode & 0o170000) == 0o040000)


def words_of(error: Exception) -> str:
    """Says why a file could not be used, as the end of a sentence."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "you have no right to it"
    words = str(getattr(error, "strerror", None) or error)
    return words if words and words != "Failure" else "the server refused it (quota? disk full?)"
