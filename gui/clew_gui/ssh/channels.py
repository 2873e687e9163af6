"""Bytes through a channel of paramiko: streams, all three of a command at the same time, files by SFTP."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko
from paramiko.sftp import CMD_DATA, CMD_HANDLE, CMD_OPEN, CMD_READ, CMD_STATUS, int64

from clew_gui.ssh.connection import UNKNOWN, RemoteFile, Size, after_mark, lost
from clew_gui.ssh.prompts import plain
from clew_gui.ssh.transport import SshTransport

_TELL_S = 0.5
_INLINE = 32768
CHUNK = 32768
_KEPT_BYTES = 4096
_KEPT_LINES = 4
_KEPT_CHARACTERS = 400
_END_S = 1.0
"""The seconds to wait for the second output: both outputs of a command end at the same time, but are read by two
threads."""


class LastWords:
    """Reads ``recv`` to its end in a thread of its own, so that nothing is held up, and keeps a little of the end. What
    came before ``mark`` is a login shell's own."""

    def __init__(self, recv: Callable[[int], bytes], mark: bytes, name: str) -> None:
        self._recv = recv
        self._mark = mark
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # closed meanwhile
            while data := self._recv(CHUNK):
                self._kept = (self._kept + data)[-_KEPT_BYTES:]

    def text(self) -> str:
        """The last lines, as one; empty when it said nothing. Waits a moment for their end."""
        self._thread.join(_END_S)
        after = after_mark(self._kept, self._mark)
        words = plain((self._kept if after is None else after).decode(errors="replace"), _KEPT_BYTES)
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        return " ".join(lines[-_KEPT_LINES:])[-_KEPT_CHARACTERS:]


class ChannelStream:
    """A ``Stream`` over one channel. With a ``mark`` it is that of a command, whose standard error begins with it."""

    def __init__(
        self, link: SshTransport, channel: paramiko.Channel, title: str, begun: bytes = b"", mark: bytes = b""
    ) -> None:
        self._link = link
        self._channel = channel
        self._title = title
        self._begun = begun
        self._closed = False
        channel.settimeout(None)
        self._words: LastWords | None = None
        if mark:  # standard error shares the window with standard output: unread it would stop everything
            channel.set_combine_stderr(False)
            self._words = LastWords(channel.recv_stderr, mark, f"{link.name} stderr")

    def recv(self, limit: int) -> bytes:
        """See ``Stream.recv``."""
        if self._begun:
            data, self._begun = self._begun[:limit], self._begun[limit:]
            return data
        data = self._channel.recv(limit)
        if self._closed:  # the server may still have answered to the end of what was sent
            return b""
        if not data and self._link.has_ended(self._channel):
            raise lost(self._title, self._link.goodbye)
        return data

    def send(self, data: bytes) -> None:
        """See ``Stream.send``."""
        try:
            self._channel.sendall(data)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise lost(self._title, self._link.goodbye) from error

    def end(self) -> None:
        """See ``Stream.end``."""
        with suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.shutdown_write()

    def close(self) -> None:
        """See ``Stream.close``. Telling the server can block while the network is dead, so nobody waits long for it."""
        self._closed = True
        telling = threading.Thread(target=self._tell, name=f"{self._link.name} closing", daemon=True)
        telling.start()
        telling.join(_TELL_S)

    def last_words(self) -> str:
        """See ``Stream.last_words``."""
        return self._words.text() if self._words is not None else ""

    def _tell(self) -> None:
        with suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.close()


class ChannelTerminal(ChannelStream):
    """A ``Terminal`` over one channel on which a command runs."""

    def resize(self, size: Size) -> None:
        """See ``Terminal.resize``."""
        with suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.resize_pty(size.columns, size.rows)

    def exit_status(self, timeout: float) -> int:
        """See ``Terminal.exit_status``."""
        if not self._channel.status_event.wait(timeout):
            return UNKNOWN
        status = self._channel.recv_exit_status()
        return status if status >= 0 else UNKNOWN


# --- Reading and sending at the same time ---------------------------------------------------------------------------


def read_all(recv: Callable[[int], bytes]) -> bytes:
    """Reads everything up to the end."""
    parts = []
    while data := recv(CHUNK):
        parts.append(data)
    return b"".join(parts)


class Reader:
    """Reads one output in a thread while another is read here."""

    def __init__(self, recv: Callable[[int], bytes]) -> None:
        self._data = b""
        self._thread = threading.Thread(target=self._read, args=(recv,), name="ssh stderr", daemon=True)
        self._thread.start()

    def _read(self, recv: Callable[[int], bytes]) -> None:
        with suppress(OSError):
            self._data = read_all(recv)

    def result(self) -> bytes:
        """Returns everything that was read, once the end has come."""
        self._thread.join()
        return self._data


class StdinWriter:
    """Sends standard input: a little at once, much in a thread, since the command may answer before it has read all."""

    def __init__(self, channel: paramiko.Channel, data: bytes) -> None:
        self._thread: threading.Thread | None = None
        if len(data) <= _INLINE:
            self._send(channel, data)
            return
        self._thread = threading.Thread(target=self._send, args=(channel, data), name="ssh stdin", daemon=True)
        self._thread.start()

    @staticmethod
    def _send(channel: paramiko.Channel, data: bytes) -> None:
        with suppress(paramiko.SSHException, EOFError, OSError):  # a command may end without reading its input
            channel.sendall(data)
            channel.shutdown_write()

    def join(self) -> None:
        """Wait until all is sent."""
        if self._thread is not None:
            self._thread.join()


# --- Files through SFTP -----------------------------------------------------------------------------------------------
# What the server refuses comes out as OSError or paramiko.SFTPError.


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
    with sftp.open(path, "r+b") if offset else _create(sftp, path, mode) as file:
        if offset:
            file.truncate(offset)
            file.seek(offset)
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


def pieces(data: bytes | Path, size: int) -> Iterator[bytes]:
    """``data``, or a file's content, in pieces; one empty piece when there is nothing."""
    with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        yield file.read(size)
        while piece := file.read(size):
            yield piece
