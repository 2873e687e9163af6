"""One login for several programs of this computer: what they send about channels goes on to the server, and back.

Programs reach it through a local socket and speak SSH on it, so a ``ParamikoConnection`` serves there as well. Only
the numbers of channels are changed on the way (RFC 4254, section 5): what a command is, how much it may send and how it
ended is between the program and the server, and nothing of it is held back here.
"""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from collections import deque

import paramiko
from paramiko.message import Message

from clew_gui.ssh.connection import Hop, SshFiles, lost
from clew_gui.ssh.paramiko_connection import ParamikoConnection, prefer
from clew_gui.ssh.prompts import Prompter
from clew_gui.ssh.transport import MSG_CHANNEL_CLOSE, MSG_GLOBAL_REQUEST, MSGS_OF_CHANNELS, NUMBER, PING, SshTransport

_REQUEST_SUCCESS, _REQUEST_FAILURE = 81, 82  # RFC 4250, section 4.1.2
_OPEN, _OPEN_SUCCESS, _OPEN_FAILURE = 90, 91, 92
_HANDSHAKE_S = 10.0
"""Seconds for a program of this computer to shake hands: one that was stopped meanwhile may try again."""


class _Outbox:
    """Sends messages to one end in their order, in a thread of its own: an end that does not read holds up nobody else.
    Each end allows the other so many bytes on a channel (its window), and there lie no more than these."""

    def __init__(self, link: SshTransport) -> None:
        self._link = link
        self._messages: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        threading.Thread(target=self._send_on, name=f"{link.name} sending", daemon=True).start()

    def put(self, kind: int, rest: bytes) -> None:
        """Send a message when it is its turn."""
        self._messages.put((kind, rest))

    def close(self) -> None:
        """Send nothing more after what is there."""
        self._messages.put(None)

    def _send_on(self) -> None:
        while (message := self._messages.get()) is not None:
            self._link.send_as_it_is(*message)


class _Channel:
    """A channel between a program and the server: its number at each of them, and who has closed it."""

    def __init__(self, program: _Program, number: int) -> None:
        self.program = program
        self.number = number
        self.servers: int | None = None
        """The server's number, as soon as it has opened the channel."""
        self.closed_here = False
        self.closed_there = False


class _Program:
    """A program that uses the login."""

    def __init__(self, link: SshTransport) -> None:
        self.link = link
        self.outbox = _Outbox(link)


class _OpenServer(paramiko.ServerInterface):
    """Lets in anyone whom the local socket has let in: that is only this user."""

    def check_auth_none(self, username: str) -> int:
        """See paramiko."""
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        """See paramiko."""
        return "none"


class Relay:
    """Lets programs use the link of ``connection``, which has no other user from now on. ``changed`` is set whenever a
    program comes or goes, and when the link ends."""

    def __init__(self, connection: ParamikoConnection) -> None:
        self._key = paramiko.ECDSAKey.generate()
        self.changed = threading.Event()
        self.heard = time.monotonic()
        """When the server last sent something."""
        self._server = connection.link
        self._to_server = _Outbox(self._server)
        self._lock = threading.Lock()
        self._programs: set[_Program] = set()
        self._channels: dict[int, _Channel] = {}
        self._numbers = itertools.count()
        self._asked: deque[_Program | None] = deque()
        """Who waits for an answer of the server, in the order of the questions; None: the relay itself."""
        kinds = (_REQUEST_SUCCESS, _REQUEST_FAILURE, _OPEN_SUCCESS, _OPEN_FAILURE, *MSGS_OF_CHANNELS)
        self._server.divert(kinds, self._from_server, self.changed.set)

    @property
    def public_key(self) -> bytes:
        """Returns the public key by which programs know that it is this one."""
        return self._key.asbytes()

    @property
    def alive(self) -> bool:
        """Whether the link to the server has not ended, as far as is known."""
        return self._server.is_active()

    @property
    def programs(self) -> int:
        """Returns how many programs use it now."""
        with self._lock:
            return len(self._programs)

    def serve(self, sock: socket.socket) -> None:
        """Let the program at the other end of ``sock`` use the login. Returns at once."""
        link = SshTransport(sock, "program")
        link.banner_timeout = link.handshake_timeout = _HANDSHAKE_S
        link.add_server_key(self._key)
        program = _Program(link)

        def receive(kind: int, rest: bytes) -> None:
            self._from_program(program, kind, rest)

        link.divert((MSG_GLOBAL_REQUEST, _OPEN, *MSGS_OF_CHANNELS), receive, lambda: self._leave(program))
        with self._lock:
            self._programs.add(program)
        self.changed.set()
        link.start_server(threading.Event(), _OpenServer())

    def ping(self) -> None:
        """Ask the server whether it is there; ``heard`` shows the answer."""
        self._ask(None)

    def end(self) -> None:
        """End the login and all its uses."""
        self._to_server.close()
        self._server.end()
        with self._lock:
            programs = list(self._programs)
        for program in programs:
            program.link.end()

    def _ask(self, program: _Program | None) -> None:
        with self._lock:  # answers come in the order of the questions
            self._asked.append(program)
            self._to_server.put(MSG_GLOBAL_REQUEST, PING)

    # --- From a program to the server ---------------------------------------------------------------------------------

    def _from_program(self, program: _Program, kind: int, rest: bytes) -> None:
        if kind == MSG_GLOBAL_REQUEST:
            self._requested(program, rest)
        elif kind == _OPEN:
            self._opened(program, rest)
        else:
            self._pass_on(program, kind, rest)

    def _requested(self, program: _Program, rest: bytes) -> None:
        """Only the question whether the server is there goes on: what else there is would change the link for all."""
        message = Message(rest)
        message.get_text()  # its name
        if rest == PING:
            self._ask(program)
        elif message.get_boolean():
            program.outbox.put(_REQUEST_FAILURE, b"")

    def _opened(self, program: _Program, rest: bytes) -> None:
        at = NUMBER.size + NUMBER.unpack_from(rest)[0]  # after the kind of channel
        with self._lock:
            number = next(self._numbers)
            self._channels[number] = _Channel(program, NUMBER.unpack_from(rest, at)[0])
        self._to_server.put(_OPEN, rest[:at] + NUMBER.pack(number) + rest[at + NUMBER.size :])

    def _pass_on(self, program: _Program, kind: int, rest: bytes) -> None:
        (number,) = NUMBER.unpack_from(rest)
        with self._lock:
            channel = self._channels.get(number)
            if channel is None or channel.program is not program or channel.servers is None or channel.closed_here:
                return
            if kind == MSG_CHANNEL_CLOSE:
                self._close(number, channel)
            else:
                self._to_server.put(kind, NUMBER.pack(channel.servers) + rest[NUMBER.size :])

    def _leave(self, program: _Program) -> None:
        """Nobody hears any more what the server sends for this program: its channels are closed."""
        program.outbox.close()
        with self._lock:
            self._programs.discard(program)
            for number, channel in list(self._channels.items()):
                if channel.program is program and not channel.closed_here:
                    self._close(number, channel)
        self.changed.set()

    def _close(self, number: int, channel: _Channel) -> None:
        """The program sends no more. The lock is held."""
        channel.closed_here = True
        if channel.servers is not None:
            self._to_server.put(MSG_CHANNEL_CLOSE, NUMBER.pack(channel.servers))
        if channel.closed_there:
            del self._channels[number]

    # --- From the server to a program ---------------------------------------------------------------------------------

    def _from_server(self, kind: int, rest: bytes) -> None:
        self.heard = time.monotonic()
        with self._lock:
            if kind in (_REQUEST_SUCCESS, _REQUEST_FAILURE):
                asked_by = self._asked.popleft() if self._asked else None
                if asked_by is not None:
                    asked_by.outbox.put(kind, rest)
                return
            (number,) = NUMBER.unpack_from(rest)
            channel = self._channels.get(number)
            if channel is not None:
                self._deliver(number, channel, kind, rest[NUMBER.size :])

    def _deliver(self, number: int, channel: _Channel, kind: int, rest: bytes) -> None:
        """A message about ``channel``, but for the number that stood in it. The lock is held."""
        if kind == _OPEN_SUCCESS:
            (channel.servers,) = NUMBER.unpack_from(rest)
            rest = NUMBER.pack(number) + rest[NUMBER.size :]
            if channel.closed_here:  # its program has gone meanwhile
                self._close(number, channel)
        elif kind == MSG_CHANNEL_CLOSE:
            channel.closed_there = True
        if kind == _OPEN_FAILURE or (channel.closed_here and channel.closed_there):
            del self._channels[number]
        if channel.program in self._programs:
            channel.program.outbox.put(kind, NUMBER.pack(channel.number) + rest)


def connect_to_relay(
    sock: socket.socket,
    public_key: bytes,
    hop: Hop,
    passed: tuple[tuple[str, str], ...],
    files: SshFiles,
    asker: Prompter,
    asks_codes: bool,
    timeout: float,
) -> ParamikoConnection:
    """Returns a connection to ``hop`` through the relay at the other end of ``sock``, which must have this public key.

    Raises ``ProblemError`` when it does not answer within ``timeout`` seconds, or is another one.
    """
    link = SshTransport(sock, hop.title)
    link.banner_timeout = link.handshake_timeout = link.auth_timeout = timeout
    prefer(link, [])
    try:
        link.start_client(timeout=timeout)
        if link.get_remote_server_key().asbytes() != public_key:
            raise lost(hop.title, "another program answers in its place")
        link.auth_none(hop.login)
    except (paramiko.SSHException, EOFError, OSError) as error:
        link.end()
        raise lost(hop.title, str(error)) from error
    except BaseException:
        link.end()
        raise
    return ParamikoConnection(link, hop, passed, files, asker, asks_codes, None)
