"""Many streams through one connection: whole, in order, bounded, and none harmed by another's end."""

from __future__ import annotations

import selectors
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_shared.wire.messages import MAX_REQUEST_BYTES
from clew_shared.wire.streams import PIECE, WINDOW, Key, Sign, Streams

TURNS = 20_000


class End:
    """One end with its sockets, and the messages that it has sent and the other has not taken."""

    def __init__(self) -> None:
        self.sent: deque[tuple[Key, bytes]] = deque()
        self.there = True
        self.selector = selectors.DefaultSelector()
        self.streams = Streams(self._send, self._watch)

    def _send(self, key: Key, message: bytes) -> bool:
        assert len(message) <= MAX_REQUEST_BYTES
        self.sent.append((key, message))
        return self.there

    def _watch(self, number: int, reads: bool, writes: bool) -> None:
        events = selectors.EVENT_READ * reads | selectors.EVENT_WRITE * writes
        if number in self.selector.get_map():
            self.selector.unregister(number)
        if events:
            self.selector.register(number, events)

    def ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        """What can be read or written now; Windows cannot wait for nothing."""
        return self.selector.select(0) if self.selector.get_map() else []

    def turn(self) -> None:
        for key, _ in self.ready():
            self.streams.turn(key.fd)

    def close(self) -> None:
        self.streams.drop_all()
        self.selector.close()


class Pair:
    """Two ends, and what a program holds on each side of a stream."""

    def __init__(self) -> None:
        self.near, self.far = End(), End()
        self.outside: list[socket.socket] = []
        self._count = 0

    def open(self) -> tuple[socket.socket, socket.socket]:
        self._count += 1
        key = (b"", self._count.to_bytes(8, "big"))
        (here, mine), (there, theirs) = socket.socketpair(), socket.socketpair()
        self.near.streams.begin(key, mine)
        assert self.near.sent.pop() == (key, bytes([Sign.OPEN]))
        self.far.streams.add(key, theirs)
        self.outside += [here, there]
        for sock in (here, there):
            sock.setblocking(False)
        return here, there

    def carry(self) -> None:
        """A round: what is ready moves, what was sent arrives."""
        for one, other in ((self.near, self.far), (self.far, self.near)):
            one.turn()
            while one.sent:
                other.streams.take(*one.sent.popleft())

    def rest(self) -> None:
        """Until nothing moves any more."""
        for _ in range(TURNS):
            self.carry()
            if not self.near.ready() and not self.far.ready():
                return
        raise AssertionError("it never comes to rest")


@contextmanager
def pair() -> Iterator[Pair]:
    made = Pair()
    try:
        yield made
    finally:
        made.near.close()
        made.far.close()
        for sock in made.outside:
            sock.close()


def read(sock: socket.socket) -> bytes:
    """What is there now."""
    found = b""
    try:
        while data := sock.recv(1 << 16):
            found += data
    except BlockingIOError:
        pass
    return found


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 90_000)), max_size=12))
def test_all_bytes_come_in_order_both_ways(writes: list[tuple[int, bool, int]]) -> None:
    with pair() as both:
        streams = [both.open() for _ in range(4)]
        wanted = {sock: b"" for ends in streams for sock in ends}
        for number, (which, back, size) in enumerate(writes):
            source, sink = streams[which][::-1] if back else streams[which]
            data = bytes([number % 251]) * size
            wanted[sink] += data[: source.send(data)]
            both.rest()
        assert {sock: read_on(both, sock, len(data)) for sock, data in wanted.items()} == wanted


def read_on(both: Pair, sock: socket.socket, count: int) -> bytes:
    found = b""
    for _ in range(TURNS):
        found += read(sock)
        if len(found) >= count:
            break
        both.carry()
    return found


def test_who_does_not_read_holds_up_no_other_and_a_bounded_amount() -> None:
    with pair() as both:
        (full, stuck), (here, there) = both.open(), both.open()
        sent = 0
        for _ in range(200):
            with suppress(BlockingIOError):
                sent += full.send(bytes(PIECE))
            both.carry()
        out = both.far.streams._streams[(b"", (1).to_bytes(8, "big"))].out
        assert 0 < len(out) <= WINDOW
        here.send(b"quick")
        both.rest()
        assert read(there) == b"quick"
        assert read_on(both, stuck, sent) == bytes(sent)


def test_one_direction_ends_and_the_other_goes_on() -> None:
    with pair() as both:
        here, there = both.open()
        here.send(b"question")
        here.shutdown(socket.SHUT_WR)
        both.rest()
        assert there.recv(100) == b"question"
        assert there.recv(100) == b""
        there.send(b"answer")
        there.close()
        both.rest()
        assert here.recv(100) == b"answer"
        assert here.recv(100) == b""
        assert (len(both.near.streams), len(both.far.streams)) == (0, 0)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x00",
        b"\x07",
        bytes([Sign.TOOK]) + b"\0",
        bytes([Sign.CLOSE]),
        bytes([Sign.DATA]) + bytes(WINDOW + 1),
    ],
)
def test_what_breaks_the_rules_ends_its_stream_alone(message: bytes) -> None:
    with pair() as both:
        (broken, _), (here, there) = both.open(), both.open()
        both.near.streams.take((b"", (1).to_bytes(8, "big")), message)
        with suppress(ConnectionResetError):  # what it had not read yet makes it one on Windows
            assert broken.recv(100) == b""
        here.send(b"still")
        both.rest()
        assert there.recv(100) == b"still"
        assert len(both.near.streams) == 1


def test_an_unknown_stream_is_told_to_be_closed() -> None:
    with pair() as both:
        both.far.streams.take((b"x", bytes(8)), bytes([Sign.DATA]) + b"late")
        both.far.streams.take((b"x", bytes(8)), bytes([Sign.CLOSE]))  # not for ever to and fro
        assert list(both.far.sent) == [((b"x", bytes(8)), bytes([Sign.CLOSE]))]


def test_when_the_other_end_is_gone_all_its_streams_are() -> None:
    with pair() as both:
        (here, _), _ = both.open(), both.open()
        both.near.there = False
        here.send(b"anybody?")
        both.rest()
        assert len(both.near.streams) == 0
