"""The messages between a supervisor and its nursery, and between nursery, guard and trainer of a standby: one JSON text
for each packet of a local socket pair."""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from clew_shared.base.foreign import from_json

MAX_BYTES = 64 * 1024
OWN_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "SPT_NOENV": "1"}
"""A nursery's own environment: NumPy's library must not start a thread for every core while it is imported, and the
titles that its copies get must not be written over what the system shows of their environment."""
ROOM_FOR_TITLES = "." * 300
"""A process's title takes the place of its command line, and there must be room for it."""


class StartGuard(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The request to the nursery to start guard and trainer of an attempt, both with ``environment`` beside the
    nursery's own."""

    folder: str
    attempt: int
    exercises: str = ""
    environment: dict[str, str] = {}


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The report that TensorFlow is imported, which took ``seconds``. ``settled``, sent later: the data set has been
    read as well.

    From a standby's trainer: all that can be done beforehand is done.
    """

    seconds: float
    settled: bool = False


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The answer that the guard of the run in ``folder`` is process ``pid``; from a standby's trainer: it has taken the
    run."""

    folder: str
    pid: int


class StartRefused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The answer that the run in ``folder`` is not started, and why: it needs a fresh interpreter. ``last`` says that
    all will."""

    folder: str
    reason: str
    last: bool = False


class GuardEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The report that process ``pid``, a guard of the run in ``folder``, has ended."""

    folder: str
    pid: int
    exit_code: int


NurseryReply = Ready | Started | StartRefused | GuardEnded


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends; each packet arrives whole, and an end that is closed or whose process dies is noticed."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(channel: socket.socket, message: StartGuard | NurseryReply) -> None:
    """Sends a message. Raises ``OSError`` when the other end has gone or does not read."""
    channel.send(msgspec.json.encode(message))


def receive_start(channel: socket.socket) -> StartGuard | None:
    """The next request; None when the other end has gone. Raises ``OSError`` and ``msgspec.DecodeError``."""
    found: StartGuard | None = _receive(channel, StartGuard)
    return found


def receive_reply(channel: socket.socket) -> NurseryReply | None:
    """The next answer; None when the other end has gone. Raises ``OSError`` and ``msgspec.DecodeError``."""
    found: NurseryReply | None = _receive(channel, NurseryReply)
    return found


def _receive(channel: socket.socket, kind: Any) -> Any:
    data = channel.recv(MAX_BYTES)
    return from_json(data, kind) if data else None
