"""Many byte streams through one connection of messages: how a service's pages travel between laptop and node.

Both ends run the same ``Streams`` over sockets of their own; its owner brings the messages to the other end and
says which sockets are ready. Nothing here waits. PROTOCOL.md has the bytes.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

WINDOW = 512 * 1024
"""Number of bytes of a stream that may be on their way in each direction: as much as a stream can fill that nobody
reads."""
PIECE = 60 * 1024
"""Largest number of bytes in a message, which may have 64 KiB."""
_TELL_AFTER = WINDOW // 4
_COUNT = struct.Struct(">I")


class Sign(IntEnum):
    """The first byte of a message."""

    OPEN = 0
    DATA = 1
    END = 2
    """The end of this direction: nothing more comes."""
    CLOSE = 3
    """The end of the stream: it broke off, or there is no such stream."""
    TOOK = 4
    """The number of bytes that have been passed on (four bytes in big-endian order): as many more may be sent."""


Key = tuple[bytes, bytes]
"""The peer at the other end (empty where there is only one), and the number of the stream, in eight bytes."""


class Streams:
    """The streams of one end. ``send`` hands a message over and says whether the other end is still there; ``watch``
    gets the events of a socket that matter: whether it can be read, whether it can be written. Belongs to one thread.
    """

    def __init__(self, send: Callable[[Key, bytes], bool], watch: Callable[[int, bool, bool], None]) -> None:
        self._send = send
        self._watch = watch
        self._streams: dict[Key, _Stream] = {}
        self._keys: dict[int, Key] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, key: Key, sock: socket.socket) -> None:
        """Join a connected socket to a stream that the other end knows, or will know."""
        sock.setblocking(False)
        self._streams[key], self._keys[sock.fileno()] = _Stream(sock), key
        self._settle(key)

    def begin(self, key: Key, sock: socket.socket) -> None:
        """Join a connected socket to a new stream, and inform the other end."""
        if self._send(key, bytes([Sign.OPEN])):
            self.add(key, sock)
        else:
            reset(sock)

    def take(self, key: Key, message: bytes) -> None:
        """A message from the other end, but ``OPEN``. What breaks the rules ends its stream."""
        stream = self._streams.get(key)
        sign, rest = message[0] if message else None, message[1:]
        if stream is None:
            if sign in (Sign.DATA, Sign.END):
                self._send(key, bytes([Sign.CLOSE]))
            return
        if sign == Sign.DATA and not stream.ended_there and len(stream.out) + len(rest) <= WINDOW:
            stream.out += rest
        elif sign == Sign.END:
            stream.ended_there = True
        elif sign == Sign.TOOK and len(rest) == _COUNT.size:
            stream.credit = min(WINDOW, stream.credit + _COUNT.unpack(rest)[0])
        else:
            self.drop(key, notify=sign != Sign.CLOSE)
            return
        self._move(key, stream)

    def turn(self, number: int) -> None:
        """The socket with this number is ready: pass on what can be passed on now."""
        key = self._keys.get(number)
        if key is not None:
            self._move(key, self._streams[key], read=True)

    def drop(self, key: Key, notify: bool = False) -> None:
        """Break a stream off."""
        stream = self._forget(key)
        if stream is not None:
            reset(stream.sock)
            if notify:
                self._send(key, bytes([Sign.CLOSE]))

    def drop_all(self, who: bytes | None = None) -> None:
        """Break off all streams, or those of one other end."""
        for key in [key for key in self._streams if who is None or key[0] == who]:
            self.drop(key)

    # --- Parts --------------------------------------------------------------------------------------------------------

    def _move(self, key: Key, stream: _Stream, read: bool = False) -> None:
        try:
            there = self._write(key, stream) and (not read or self._read(key, stream))
        except OSError:
            self.drop(key, notify=True)
            return
        if not there:
            self.drop_all(key[0])
        elif stream.over:
            self._forget(key)
            stream.sock.close()
        else:
            self._settle(key)

    def _write(self, key: Key, stream: _Stream) -> bool:
        """Writes to the socket; returns whether the other end is still there."""
        there = True
        if stream.out:
            with suppress(BlockingIOError):
                done = stream.sock.send(stream.out)
                del stream.out[:done]
                stream.took += done
            if stream.took >= _TELL_AFTER:
                there = self._send(key, bytes([Sign.TOOK]) + _COUNT.pack(stream.took))
                stream.took = 0
        if stream.ended_there and not stream.out and not stream.shut:
            stream.shut = True
            with suppress(OSError):  # it may have hung up
                stream.sock.shutdown(socket.SHUT_WR)
        return there

    def _read(self, key: Key, stream: _Stream) -> bool:
        """Reads from the socket; returns whether the other end is still there."""
        if stream.ended_here or not stream.credit:
            return True
        try:
            data = stream.sock.recv(min(PIECE, stream.credit))
        except BlockingIOError:
            return True
        stream.ended_here = not data
        stream.credit -= len(data)
        return self._send(key, bytes([Sign.DATA]) + data if data else bytes([Sign.END]))

    def _settle(self, key: Key) -> None:
        stream = self._streams[key]
        self._watch(stream.sock.fileno(), not stream.ended_here and stream.credit > 0, bool(stream.out))

    def _forget(self, key: Key) -> _Stream | None:
        stream = self._streams.pop(key, None)
        if stream is not None:
            del self._keys[stream.sock.fileno()]
            self._watch(stream.sock.fileno(), False, False)
        return stream


class _Stream:
    """``out`` waits for the socket, ``credit`` is what may still be sent, ``took`` what was not acknowledged yet."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.out = bytearray()
        self.credit = WINDOW
        self.took = 0
        self.ended_here = self.ended_there = self.shut = False

    @property
    def over(self) -> bool:
        """Whether both directions have ended."""
        return self.ended_here and self.shut


def reset(sock: socket.socket) -> None:
    """Hang up so that anyone who reads sees a failure and not an end."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
