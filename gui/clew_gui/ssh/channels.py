"""Bytes through a channel of paramiko: streams, and the three standard ones of a command at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import paramiko

from clew_gui.ssh.connection import UNKNOWN, Size, lost
from clew_gui.ssh.last_words import LastWords
from clew_gui.ssh.transport import SshTransport

_TELL_S = 0.5
_INLINE = 32768
_CHUNK = 32768


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
    while data := recv(_CHUNK):
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
