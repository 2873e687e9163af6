"""The messages between a supervisor and its nursery: one JSON text for each packet of a local socket pair. A standby
gets its run as a line of standard input."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew_shared.base.foreign import from_json

MAX_BYTES = 64 * 1024
TITLES_ENVIRONMENT = {"SPT_NOENV": "1"}
"""A process's title must not be written over what the system shows of its environment."""
OWN_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", **TITLES_ENVIRONMENT}
"""A nursery's own environment: NumPy's library must not start a thread for every core while it is imported."""
ROOM_FOR_TITLES = "." * 300
"""A process's title takes the place of its command line, and there must be room for it."""


class StartGuard(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """The request to the nursery to start guard and trainer of an attempt, both with ``environment`` beside the
    nursery's own."""

    folder: str
    attempt: int
    exercises: str = ""
    environment: dict[str, str] = {}

    def exercises_folder(self) -> Path | None:
        """The folder of own exercises, if there is one."""
        return Path(self.exercises) if self.exercises else None

    def take_environment(self) -> None:
        """Give this process the run's environment in place of the nursery's own."""
        for name in OWN_ENVIRONMENT:
            os.environ.pop(name, None)
        os.environ.update(self.environment)


def start_request(folder: Path, attempt: int, exercises: Path | None, environment: Mapping[str, str]) -> StartGuard:
    """The request for an attempt, with what the user has set in place of a nursery's own environment."""
    users = {name: os.environ[name] for name in OWN_ENVIRONMENT if name in os.environ}
    words = str(exercises) if exercises else ""
    return StartGuard(folder=str(folder), attempt=attempt, exercises=words, environment=users | dict(environment))


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The report that TensorFlow is imported, which took ``seconds``. ``settled``, sent later: the data set has been
    read as well."""

    seconds: float
    settled: bool = False


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started"):
    """The answer that the guard of the run in ``folder`` is process ``pid``."""

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


def as_line(request: StartGuard) -> bytes:
    """A request as a line of standard input."""
    return msgspec.json.encode(request) + b"\n"


def from_line(line: bytes) -> StartGuard | None:
    """The request in a line; None when the input ended before the line did. Raises ``msgspec.DecodeError``."""
    found: StartGuard | None = from_json(line, StartGuard) if line.endswith(b"\n") else None
    return found


def _receive(channel: socket.socket, kind: Any) -> Any:
    data = channel.recv(MAX_BYTES)
    return from_json(data, kind) if data else None
