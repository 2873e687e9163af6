"""paramiko's transport, fixed where its waits have no end and its reasons go only into a log."""

from __future__ import annotations

import itertools
import logging
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

import paramiko
from paramiko.message import Message

_log = logging.getLogger(__name__)

MSG_GLOBAL_REQUEST = 80  # RFC 4250, section 4.1.2
MSGS_OF_CHANNELS = range(93, 101)
"""Messages about a channel that is open."""
MSG_CHANNEL_CLOSE = 97
_MSG_USERAUTH_BANNER = 53
_MSG_AUTHENTICATION = 50
"""The first number of a message that may not be sent while keys are exchanged (RFC 4253, section 7.1)."""
NUMBER = struct.Struct(">I")
PING = b"\0\0\0\x15keepalive@openssh.com\1"
"""The rest of a global request that every server answers: the length of its name, the name, and that it is one."""
_END_S = 2.0
_GRACE_S = 1.0
"""A call whose time is up gets this long to leave its channel before the whole link is given up."""


class SshTransport(paramiko.Transport):
    """Says why the server hung up or refused a channel, answers ``ping`` in time, and logs for developers only.

    After the end of a channel nothing of it is sent any more. paramiko makes a message in one thread and may send it
    after the end that another one sends meanwhile (https://github.com/paramiko/paramiko/issues/1115); a server hangs
    up on that, or another channel has the number by then. So each channel knows a number of the server's that is its
    own for ever, and the true one is put in when a message leaves, in the order in which they leave.

    The thread that reads also answers. While keys are exchanged its answers are kept until the new ones are in use:
    paramiko has it wait for that, and so for itself.
    """

    def __init__(self, sock: Any, name: str) -> None:
        super().__init__(sock)
        self.name = f"ssh {name}"
        self.certificate_first = False
        """Whether the server is asked for a certificate of its key before its bare key."""
        self.goodbye = ""
        """The server's own text when it hung up."""
        self.offered: dict[str, Any] = {}
        """The server's methods, as paramiko names their lists."""
        self.greeted: Callable[[str], None] = _log.debug
        """Gets what the server says during the login (SSH_MSG_USERAUTH_BANNER), in the thread that reads."""
        self._anything()._handler_table[_MSG_USERAUTH_BANNER] = self._parse_greeting
        self.refusal = ""
        """The server's words for the last channel that it did not open."""
        self._ping_lock = threading.Lock()
        self._pong: threading.Event | None = None
        self._own_numbers = itertools.count(1)
        self._theirs: dict[int, int] = {}
        """The server's true number of each open channel, by the one that the channel knows."""
        self._ended: Callable[[], None] | None = None
        self._kept: list[Message] = []
        """What the thread that reads could not send while keys are exchanged."""

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """The types of server keys, the wanted ones first."""
        found: tuple[str, ...] = self._anything()._filter_algorithm("keys")
        certificates = tuple(f"{name}-cert-v01@openssh.com" for name in found)
        return certificates + found if self.certificate_first else found

    def divert(self, kinds: Iterable[int], receive: Callable[[int, bytes], None], ended: Callable[[], None]) -> None:
        """Hand over what the other end sends from now on: the number of each message of these ``kinds``, and what
        follows it. Such a link has no channels of its own. ``ended`` is called once, when it has ended. Both are called
        in the thread that reads."""
        self._ended = ended
        for kind in kinds:
            self._anything()._handler_table[kind] = partial(_hand_over, receive, kind)

    def run(self) -> None:
        """Reads until the link ends."""
        try:
            super().run()
        finally:
            if self._ended is not None:
                self._ended()

    def send_as_it_is(self, kind: int, rest: bytes) -> None:
        """Send a message whose numbers of channels are the other end's already. Waits while keys are exchanged, and
        while the other end does not read. One that cannot be sent ends the link: what follows it would make no
        sense."""
        try:
            self._anything()._send_user_message(Message(bytes([kind]) + rest))
        except (paramiko.SSHException, EOFError, OSError):
            self.close()

    def ping(self, timeout: float) -> bool:
        """Whether the server answers within ``timeout`` seconds.

        ``global_request`` waits for ever; and sending can block while the network is dead, so a thread does it. One
        question is on its way at a time: who asks meanwhile waits for the same answer.
        """
        with self._ping_lock:
            pong = self._pong
            if pong is None:
                pong = self._pong = threading.Event()
                threading.Thread(target=self._send_ping, name=f"{self.name} ping", daemon=True).start()
        return pong.wait(timeout) and self.is_active()

    def has_ended(self, channel: paramiko.Channel) -> bool:
        """Whether the end of ``channel`` is that of the link, which closes its channels a moment before it ends."""
        if not channel.eof_received:
            self.join(_END_S)
        return not self.is_active()

    def _send_ping(self) -> None:
        with suppress(paramiko.SSHException, EOFError, OSError):
            self._anything()._send_user_message(Message(bytes([MSG_GLOBAL_REQUEST]) + PING))

    def _anything(self) -> Any:
        return self  # private methods of paramiko, which its stubs do not know

    def _answered(self, m: Message) -> None:
        """Success or failure, both are an answer."""
        with self._ping_lock:
            if self._pong is not None:
                self._pong.set()
                self._pong = None

    _parse_request_success = _answered
    _parse_request_failure = _answered

    def _really_parse_kex_init(self, m: Message, ignore_first_byte: bool = False) -> dict[str, Any]:
        inner: Any = super()
        self.offered = inner._really_parse_kex_init(m, ignore_first_byte)
        return self.offered

    def _parse_greeting(self, m: Message) -> None:
        self.greeted(m.get_string().decode(errors="replace"))

    def _parse_disconnect(self, m: Message) -> None:
        m.get_int()
        self.goodbye = m.get_text()
        _log.debug("%s hung up: %s", self.name, self.goodbye)

    def _parse_channel_open_failure(self, m: Message) -> None:
        m.get_int()
        m.get_int()
        self.refusal = m.get_text()
        m.rewind()
        inner: Any = super()
        inner._parse_channel_open_failure(m)

    def _parse_channel_open_success(self, m: Message) -> None:
        """A channel that was opened after its time-out is closed, or the server would keep it for ever."""
        channel, theirs, number = m.get_int(), m.get_int(), next(self._own_numbers)
        self._theirs[number] = theirs
        inner: Any = super()
        if self._anything()._channels.get(channel) is not None:
            with m.packet.getbuffer() as data:
                NUMBER.pack_into(data, 4, number)
            m.rewind()
            inner._parse_channel_open_success(m)
            return
        close = Message()
        close.add_byte(bytes([MSG_CHANNEL_CLOSE]))
        close.add_int(number)
        self._send_user_message(close)

    def _send_user_message(self, data: Message) -> None:
        """Waits while keys are exchanged, except in the thread that reads."""
        inner: Any = super()
        (self._send_message if threading.current_thread() is self else inner._send_user_message)(data)

    def _send_message(self, data: Message) -> None:
        """The last step of every sender; one at a time passes here with messages of channels."""
        inner: Any = super()
        if threading.current_thread() is self and self._is_early(data):
            self._kept.append(data)
        elif self._addressed(data):
            inner._send_message(data)

    def _is_early(self, message: Message) -> bool:
        return not self._anything().clear_to_send.is_set() and message.asbytes()[0] >= _MSG_AUTHENTICATION

    def _parse_newkeys(self, m: Message) -> None:
        inner: Any = super()
        inner._parse_newkeys(m)
        kept, self._kept = self._kept, []
        for message in kept:
            self._send_message(message)

    def _addressed(self, message: Message) -> bool:
        """Put in the server's number of the channel, if it is one of a channel; False after that channel's end."""
        with message.packet.getbuffer() as data:
            if data[0] not in MSGS_OF_CHANNELS or self._ended is not None:
                return True
            (number,) = NUMBER.unpack_from(data, 1)
            theirs = self._theirs.get(number)
            if theirs is None:
                return False
            if data[0] == MSG_CHANNEL_CLOSE:
                del self._theirs[number]
            NUMBER.pack_into(data, 1, theirs)
            return True

    def _log(self, level: int, msg: Any, *args: Any) -> None:
        """Writes paramiko's messages to the log for developers; what it calls an error becomes a ``ProblemError``
        here."""
        for line in msg if isinstance(msg, list) else [msg]:
            _log.debug(line, *args)

    def get_exception(self) -> Exception | None:
        """Returns what ended the connection. Rubbish from the other end makes paramiko fail in any way; callers get one
        kind of error."""
        error = super().get_exception()
        if error is None or isinstance(error, (paramiko.SSHException, EOFError, OSError)):
            return error
        return paramiko.SSHException(f"the server's bytes make no sense ({type(error).__name__})")

    def end(self) -> None:
        """Close at once, also on a dead network, and wait for the thread that read."""
        self.close()
        self.packetizer.complete_handshake()  # or its timer lives on after a handshake that failed
        if self.is_alive() and threading.current_thread() is not self:
            self.join(_GRACE_S)


def _hand_over(receive: Callable[[int, bytes], None], kind: int, message: Message) -> None:
    receive(kind, message.asbytes())


class Bound:
    """A call on ``channel`` may take ``seconds``; then the channel is closed, which wakes anyone who waits on it.

    paramiko waits without end for a reply to a request, and a write can block while the network is dead. When closing
    the channel does not help within a second, the link is closed. ``expired`` says whether the time was up.
    """

    def __init__(self, link: SshTransport, channel: paramiko.Channel, seconds: float) -> None:
        self.expired = False
        self._link = link
        self._channel = channel
        self._timers = [
            threading.Timer(max(seconds, 0.0), self._expire),
            threading.Timer(max(seconds, 0.0) + _GRACE_S, link.close),
        ]

    def _expire(self) -> None:
        self.expired = True
        with suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.close()

    def __enter__(self) -> Bound:
        for timer in self._timers:
            timer.daemon = True
            timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers:
            timer.cancel()
