"""``clew-agent relay [--agent] HOST PORT``: standard input goes to a TCP connection, and what comes back to standard
output.

The way to an agent where nothing may be forwarded to its node: started there by the scheduler. It starts at once, so
it imports next to nothing, and it connects to nothing but this node itself.

An agent drops a connection on which nothing arrives within seconds, and a viewer may come later than that. So with
``--agent`` this program first fetches the agent's first bytes over a separate connection and passes them on, which
shows that the agent can be reached. The real connection is made when the viewer sends something, and those bytes are
then skipped.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from clew_agent.node.exit_codes import BAD_INPUT, FAILED
from clew_shared.base.harmless import say
from clew_shared.base.problem import problem

_PIECE = 256 * 1024
_CONNECT_S = 10.0
"""Seconds for the last hop, inside of a cluster; the viewer has a bound of its own around it."""
_GREETING_BYTES = 10
"""The signature that every ZMTP peer sends first (https://rfc.zeromq.org/spec/23, "Framing")."""


def main(argv: Sequence[str]) -> int:
    """Returns 0 when either side has ended, 1 when nobody listens or speaks there. Raises ``ProblemError`` for another
    node's address."""
    words = list(argv)
    greeted = words[:1] == ["--agent"]
    if greeted:
        words.pop(0)
    if len(words) != 2 or not _is_port(words[1]):
        say("usage: clew-agent relay [--agent] HOST PORT", sys.stderr)
        return BAD_INPUT
    host, port = find_own(words[0]), int(words[1])
    try:
        connection = after_greeting(host, port, 0, 1) if greeted else _connect(host, port)
    except OSError as error:
        say(f"clew-agent relay: {host}:{port} does not answer: {error.strerror or error}.", sys.stderr)
        return FAILED
    if connection is not None:
        connection.settimeout(None)
        join(connection, 0, 1)
    os._exit(0)  # a thread still waits for input that is no longer needed


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65536


def find_own(host: str) -> str:
    """The address of ``host``, if it is this node's. Raises ``ProblemError``.

    To bind a socket there is the question: the system grants it for its own addresses only.
    """
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        infos = []
    for family, kind, protocol, _, address in infos:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind((address[0], 0))
        except OSError:
            continue
        return str(address[0])
    hint = "Start the relay on the node that you want to reach."
    raise problem("relay.host", f"{host[:80]!r} is not an address of this node ({socket.gethostname()}).", hint, "host")


def after_greeting(host: str, port: int, source: int, sink: int) -> socket.socket | None:
    """Pass the agent's first words on to ``sink``, wait for the first ones from ``source``, and only then connect;
    None when nobody wants it any more. Raises ``OSError`` when no agent answers."""
    with _connect(host, port) as first:
        greeting = first.recv(_GREETING_BYTES)
    if not greeting:
        raise ConnectionResetError("it hangs up at once")
    _write(sink, greeting)
    words = os.read(source, _PIECE)  # no bound: a way is kept until someone takes it
    if not words:
        return None
    connection = _connect(host, port)
    if _read(connection, len(greeting)) != greeting:
        connection.close()
        raise ConnectionResetError("something else answers there now")
    connection.sendall(words)
    return connection


def _connect(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), _CONNECT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


def join(connection: socket.socket, source: int, sink: int) -> None:
    """Copy the descriptor ``source`` to the connection and the connection to ``sink``, until either side ends."""
    ended = threading.Event()

    def work(way: Callable[[], None]) -> None:
        with suppress(OSError):
            way()
        ended.set()

    for way in (lambda: _send(source, connection), lambda: _receive(connection, sink)):
        threading.Thread(target=work, args=(way,), daemon=True).start()
    ended.wait()  # no bound: as long as the tunnel is wanted


def _send(source: int, connection: socket.socket) -> None:
    while data := os.read(source, _PIECE):
        connection.sendall(data)


def _receive(connection: socket.socket, sink: int) -> None:
    while data := connection.recv(_PIECE):
        _write(sink, data)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
