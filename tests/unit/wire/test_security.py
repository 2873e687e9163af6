"""Who gets into a guarded router: clients on the allow-list, and nobody else, while good clients are served."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq
from zmq.utils import z85

from clew_agent.wire import server as security
from clew_agent.wire.server import GuardedRouter, allowed_keys, answer_zap
from clew_shared.base.private_files import is_private, make_private
from clew_shared.base.problem import ProblemError
from clew_shared.wire.channel import Channel, Greeting, KeyPair, allow
from clew_shared.wire.messages import MAX_REQUEST_BYTES, Done, Hello, Refused, decode_request

GOOD = KeyPair.generate()
OTHER = KeyPair.generate()
BOUND_S = 20.0

Contexts = tuple["zmq.Context[zmq.Socket[bytes]]", "zmq.Context[zmq.Socket[bytes]]"]


@pytest.fixture
def contexts() -> Iterator[Contexts]:
    """One for the server, one for its clients: they are two processes in life."""
    server, clients = zmq.Context(), zmq.Context()
    yield server, clients
    clients.destroy(linger=0)
    server.destroy(linger=0)


@pytest.fixture
def router(contexts: Contexts, tmp_path: Path) -> Iterator[GuardedRouter]:
    allow(tmp_path / "allow", "window", GOOD.public)
    router = GuardedRouter(contexts[0], tmp_path / "allow")
    yield router
    router.close()


@pytest.fixture
def connect(contexts: Contexts, router: GuardedRouter) -> Iterator[Callable[[KeyPair], Channel]]:
    channels: list[Channel] = []

    def make(keys: KeyPair) -> Channel:
        channels.append(Channel(contexts[1], router.address, router.port, router.public_key, keys))
        return channels[-1]

    yield make
    for channel in channels:
        channel.close()


def serve(router: GuardedRouter, until: Callable[[], bool]) -> int:
    """Answer every request with ``Done`` until the condition holds; how many there were."""
    served = 0
    deadline = time.monotonic() + BOUND_S
    while not until():
        assert time.monotonic() < deadline, "nothing came in time"
        for identity, request_id, payload in router.poll(0.01):
            assert isinstance(decode_request(payload), Hello)
            router.reply(identity, request_id, Done())
            served += 1
    return served


def assert_served(router: GuardedRouter, channel: Channel) -> None:
    request_id = channel.send(Hello())
    replies: list[tuple[bytes, object]] = []

    def answered() -> bool:
        replies.extend(channel.receive())
        return bool(replies)

    serve(router, answered)
    assert replies == [(request_id, Done())]


def test_a_client_on_the_allow_list_is_served(router: GuardedRouter, connect: Callable[[KeyPair], Channel]) -> None:
    channel = connect(GOOD)
    assert_served(router, channel)
    assert channel.greeting is Greeting.ACCEPTED


def test_a_client_that_is_not_on_the_list_is_refused_and_learns_it(
    router: GuardedRouter, connect: Callable[[KeyPair], Channel]
) -> None:
    stranger = connect(OTHER)
    stranger.send(Hello())
    served = serve(router, lambda: stranger.greeting is Greeting.REFUSED)
    assert served == 0
    assert_served(router, connect(GOOD))
    assert stranger.receive() == []


def test_a_key_that_is_added_acts_at_the_next_connection(
    router: GuardedRouter, connect: Callable[[KeyPair], Channel]
) -> None:
    allow(router.allow_list, "second", OTHER.public)
    assert_served(router, connect(OTHER))


def test_a_client_without_any_key_gets_nothing(
    router: GuardedRouter, contexts: Contexts, connect: Callable[[KeyPair], Channel]
) -> None:
    plain = contexts[1].socket(zmq.DEALER)
    plain.linger = 0
    monitor = plain.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED)
    plain.connect(f"tcp://127.0.0.1:{router.port}")
    with suppress(zmq.Again):  # refused already: there is no connection left to send on, and this would wait for ever
        plain.send_multipart([b"12345678", b"let me in"], flags=zmq.DONTWAIT)
    assert serve(router, lambda: bool(monitor.poll(0))) == 0
    assert_served(router, connect(GOOD))
    assert plain.poll(0) == 0
    plain.disable_monitor()
    monitor.close(linger=0)
    plain.close()


def test_a_client_that_expects_another_server_does_not_connect(router: GuardedRouter, contexts: Contexts) -> None:
    channel = Channel(contexts[1], "127.0.0.1", router.port, OTHER.public, GOOD)
    channel.send(Hello())
    assert serve(router, lambda: channel.greeting is Greeting.WRONG) == 0
    channel.close()


@pytest.mark.parametrize(
    "junk",
    [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", bytes(300), b"\xff" * 9 + b"\x7f" * 100, os.urandom(4096)],
    ids=["http", "ssh", "zeros", "huge frame", "random"],
)
def test_bytes_that_are_no_zeromq_get_nothing_but_the_greeting(
    junk: bytes, router: GuardedRouter, connect: Callable[[KeyPair], Channel]
) -> None:
    with socket.create_connection(("127.0.0.1", router.port), timeout=BOUND_S) as stranger:
        stranger.sendall(junk)
        assert_served(router, connect(GOOD))
        stranger.settimeout(0.2)
        try:
            heard = stranger.recv(65536)
        except (TimeoutError, ConnectionError):
            heard = b""
    assert len(heard) <= 64, "more than ZMTP's own 64-byte greeting"


def test_many_silent_connections_keep_nobody_out(router: GuardedRouter, connect: Callable[[KeyPair], Channel]) -> None:
    silent = [socket.create_connection(("127.0.0.1", router.port), timeout=BOUND_S) for _ in range(50)]
    assert_served(router, connect(GOOD))
    for stranger in silent:
        stranger.close()


@pytest.mark.parametrize("keys", [GOOD, OTHER], ids=["on the list", "not on it"])
def test_without_the_gatekeeper_nobody_gets_in(
    keys: KeyPair, router: GuardedRouter, contexts: Contexts, connect: Callable[[KeyPair], Channel]
) -> None:
    router._poller.unregister(router._zap)
    router._zap.close()
    channel = connect(keys)
    channel.send(Hello())
    assert serve(router, lambda: channel.greeting not in (Greeting.NONE, Greeting.GONE)) == 0
    assert channel.greeting is not Greeting.ACCEPTED


def test_while_the_gatekeeper_sleeps_nobody_gets_in(
    router: GuardedRouter, connect: Callable[[KeyPair], Channel]
) -> None:
    """Its thread hangs: a client of ours waits outside, and is let in when the thread goes on."""
    guest, stranger = connect(GOOD), connect(OTHER)
    guest.send(Hello())
    stranger.send(Hello())
    assert not guest.socket.poll(300)
    assert {guest.greeting, stranger.greeting} == {Greeting.NONE}
    assert serve(router, lambda: bool(guest.receive())) == 1
    assert serve(router, lambda: stranger.greeting is Greeting.REFUSED) == 0


def test_while_the_list_cannot_be_read_nobody_gets_in_and_then_they_do(
    router: GuardedRouter, connect: Callable[[KeyPair], Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor is left, for example: a client on the list is not told that it is not."""
    asked: list[Path] = []

    def allowed(folder: Path) -> frozenset[str]:
        asked.append(folder)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(security, "allowed_keys", allowed)
        guest = connect(GOOD)
        guest.send(Hello())
        assert serve(router, lambda: bool(asked)) == 0
    assert guest.greeting is Greeting.NONE
    assert serve(router, lambda: bool(guest.receive())) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_a_key_that_cannot_be_read_just_now_is_not_passed_over(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(tmp_path / "allow", "window", GOOD.public)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        allowed_keys(tmp_path / "allow")
    assert answer_zap([*ZAP_REQUEST[:6], z85.decode(GOOD.public)], tmp_path / "allow")[2] == b"300"


def test_an_over_size_request_is_refused_with_its_size_and_the_client_stays_connected(
    router: GuardedRouter, connect: Callable[[KeyPair], Channel]
) -> None:
    channel = connect(GOOD)
    channel.send(Hello(client="x" * MAX_REQUEST_BYTES))
    replies: list[tuple[bytes, object]] = []

    def answered() -> bool:
        replies.extend(channel.receive())
        return bool(replies)

    assert serve(router, answered) == 0
    reply = replies[0][1]
    assert isinstance(reply, Refused)
    assert reply.problem.code == "request.size"
    assert router.rejected == 1
    assert_served(router, channel)


def test_messages_of_another_shape_are_counted_and_dropped(
    router: GuardedRouter, connect: Callable[[KeyPair], Channel]
) -> None:
    channel = connect(GOOD)
    for frames in ([b"one"], [b"short", b"payload"], [b"12345678", b"a", b"b"], [b""] * 20):
        channel.socket.send_multipart(frames)
    assert serve(router, lambda: router.rejected == 4) == 0
    assert_served(router, channel)


def test_a_reply_to_a_client_that_is_gone_is_dropped(router: GuardedRouter) -> None:
    router.reply(b"\0nobody", b"12345678", Done())


ZAP_REQUEST = [b"1.0", b"1", b"clew", b"127.0.0.1", b"", b"CURVE", b"?"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, b"200"),
        ({0: b"2.0"}, b"400"),
        ({2: b"global"}, b"400"),
        ({5: b"NULL"}, b"400"),
        ({5: b"PLAIN"}, b"400"),
        ({6: b"short"}, b"400"),
        ({6: bytes(32)}, b"400"),
    ],
)
def test_the_handler_lets_in_only_a_known_curve_key(change: dict[int, bytes], code: bytes, tmp_path: Path) -> None:
    allow(tmp_path / "allow", "window", GOOD.public)
    frames = [*ZAP_REQUEST[:6], z85.decode(GOOD.public)]
    for place, value in change.items():
        frames[place] = value
    reply = answer_zap(frames, tmp_path / "allow")
    assert reply[2] == code
    assert reply[4] == (GOOD.public.encode() if code == b"200" else b"")


@pytest.mark.parametrize("frames", [[], [b"1.0"], [b"1.0", b"1"], ZAP_REQUEST[:6], [*ZAP_REQUEST, b"more"]])
def test_the_handler_refuses_requests_of_another_length(frames: list[bytes], tmp_path: Path) -> None:
    assert answer_zap(frames, tmp_path)[2] == b"400"


@pytest.mark.unix("modes of files")
def test_a_folder_that_others_may_write_to_lets_nobody_in(tmp_path: Path) -> None:
    allow(tmp_path / "allow", "window", GOOD.public)
    assert allowed_keys(tmp_path / "allow") == {GOOD.public}
    (tmp_path / "allow").chmod(0o777)
    assert allowed_keys(tmp_path / "allow") == frozenset()
    assert allowed_keys(tmp_path / "absent") == frozenset()


def test_files_that_are_no_keys_are_passed_over(tmp_path: Path) -> None:
    folder = make_private(tmp_path / "allow")
    (folder / "long.key").write_bytes(GOOD.public.encode() * 100)
    (folder / "binary.key").write_bytes(b"\xff" * 40)
    (folder / "empty.key").write_bytes(b"")
    (folder / "folder.key").mkdir()
    (folder / "dangling.key").symlink_to(tmp_path / "nowhere")
    (folder / "good.key").write_bytes(GOOD.public.encode() + b"\n")
    assert allowed_keys(folder) == {GOOD.public}


@pytest.mark.unix("modes of files")
def test_a_private_folder_is_made_with_its_parents_for_the_owner_alone(tmp_path: Path) -> None:
    folder = make_private(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]
    folder.chmod(0o755)
    assert make_private(folder).stat().st_mode & 0o777 == 0o700


@pytest.mark.unix("links that any user may make")
def test_a_link_or_a_file_in_the_place_of_a_private_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        assert not is_private(tmp_path / name)
        with pytest.raises((ProblemError, FileExistsError)):
            make_private(tmp_path / name)


def test_the_secret_key_does_not_show(tmp_path: Path) -> None:
    assert GOOD.secret not in f"{GOOD!r} {GOOD!s}"
