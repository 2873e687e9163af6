"""Strangers at the door of a real agent and of a trainer: none gets a byte of ours, and good clients are served."""

from __future__ import annotations

import random
import resource
import signal
import socket
import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest
import zmq

from clew_shared.base import operating_system
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.channel import Greeting, KeyPair
from clew_shared.wire.messages import Done, Fetch, GetStatus, Hello, Refused, StartRun, Status, Stop, Welcome, encode
from tests.integration.agents import STAND_IN, Agent, Viewer, end_all, stand_in_spec, wait_for
from tests.integration.strangers import (
    GREETING,
    Endpoint,
    Tap,
    agent_door,
    assert_nothing_of_ours,
    crowd,
    flood,
    good_client,
    listen,
    trainer_door,
)

SLOW = {"steps": 100_000, "pause": 0.05}
MEBI = 1 << 20
Context = zmq.Context[zmq.Socket[bytes]]


@pytest.fixture
def context() -> Iterator[Context]:
    context: Context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def new_agent() -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def start(*command: str) -> Agent:
        agents.append(Agent(command or STAND_IN))
        agents[-1].address()
        return agents[-1]

    yield start
    for agent in agents:
        agent.process.send_signal(signal.SIGCONT)
        assert agent.end() == 0
        for folder in agent.places.runs.glob("*"):
            end_all(folder.name)


@pytest.fixture
def agent(new_agent: Callable[..., Agent]) -> Agent:
    return new_agent()


@pytest.fixture
def viewer(agent: Agent, context: Context) -> Iterator[Viewer]:
    viewer = Viewer(context, agent.address())
    yield viewer
    viewer.close()


@pytest.fixture(params=["agent", "trainer"])
def door(request: pytest.FixtureRequest, agent: Agent, viewer: Viewer) -> Endpoint:
    if request.param == "agent":
        return agent_door(agent)
    run = viewer.start(stand_in_spec(**SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    return trainer_door(agent, run)


# --- One of each kind -------------------------------------------------------------------------------------------------


def no_key(socket: zmq.Socket[bytes], door: Endpoint) -> None:
    """Plaintext: the client does not encrypt at all."""


def a_password(socket: zmq.Socket[bytes], door: Endpoint) -> None:
    socket.plain_username, socket.plain_password = b"admin", b"admin"


def wrong_key(socket: zmq.Socket[bytes], door: Endpoint) -> None:
    keys = KeyPair.generate()
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    socket.curve_serverkey = door.address.public_key.encode()


def a_known_key_without_its_secret(socket: zmq.Socket[bytes], door: Endpoint) -> None:
    wrong_key(socket, door)
    socket.curve_publickey = door.invite().public.encode()


def another_server(socket: zmq.Socket[bytes], door: Endpoint) -> None:
    keys = door.invite()
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    socket.curve_serverkey = KeyPair.generate().public.encode()


@pytest.mark.parametrize("dress", [no_key, a_password, wrong_key, a_known_key_without_its_secret, another_server])
def test_a_client_that_is_not_invited_gets_nothing(
    dress: Callable[[zmq.Socket[bytes], Endpoint], None], door: Endpoint, context: Context
) -> None:
    with good_client(door) as good, Tap(door) as tap:
        stranger: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        stranger.linger = 0
        dress(stranger, door)
        monitor = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | 0x7000)
        stranger.connect(f"tcp://127.0.0.1:{tap.port}")
        with suppress(
            zmq.Again
        ):  # refused already: there is no connection left to send on, and this would wait for ever
            stranger.send_multipart([b"12345678", encode(door.asks)], flags=zmq.DONTWAIT)
        wait_for(lambda: monitor.poll(0), "the end of the handshake")
        good.more()
        (event,) = struct.unpack("=H", monitor.recv_multipart()[0][:2])
        assert event != zmq.EVENT_HANDSHAKE_SUCCEEDED
        assert stranger.poll(0) == 0
        stranger.disable_monitor()
        monitor.close(linger=0)
        stranger.close()
    assert any(tap.heard), "the stranger never reached the door"
    for heard in tap.heard:
        assert_nothing_of_ours(heard)


def _greet(mechanism: bytes) -> bytes:
    return GREETING[:12] + mechanism.ljust(20, b"\0") + bytes(32)


def _frame(flags: int, body: bytes) -> bytes:
    return bytes([flags, len(body)]) + body


RAW = {
    "http": b"GET / HTTP/1.1\r\nHost: node17\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": bytes(5000),
    "random": random.Random(1).randbytes(65536),
    "a huge frame": _greet(b"CURVE") + b"\x06" + struct.pack(">Q", 2**63) + b"\x05HELLO",
    "16 exabytes": _greet(b"CURVE") + b"\x02" + b"\xff" * 8 + bytes(100),
    "a broken hello": _greet(b"CURVE") + _frame(0x04, b"\x05HELLO" + bytes(194)),
    "a message before the handshake": _greet(b"CURVE") + _frame(0x01, b"12345678") + _frame(0, encode(Hello())),
    "no encryption": _greet(b"NULL")
    + _frame(0x04, b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER")
    + _frame(0x01, b"12345678")
    + _frame(0, encode(Hello())),
    "a password": _greet(b"PLAIN") + _frame(0x04, b"\x05HELLO\x05admin\x05admin"),
    "an older zeromq": b"\x01\x00" + _frame(0, encode(Hello())),
    "half a greeting": GREETING[:20],
    "nothing": b"",
}


@pytest.mark.parametrize("junk", RAW.values(), ids=RAW)
def test_bytes_that_are_no_handshake_hear_the_greeting_at_most(junk: bytes, agent: Agent) -> None:
    door = agent_door(agent)
    with good_client(door), door.knock() as stranger:
        stranger.sendall(junk)
        assert_nothing_of_ours(listen(stranger))


def test_a_trainer_says_no_more_to_them(agent: Agent, viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(**SLOW))
    door = trainer_door(agent, run)
    with good_client(door):
        for junk in RAW.values():
            with door.knock() as stranger:
                stranger.sendall(junk)
                with suppress(OSError):  # it may have been hung up already
                    stranger.shutdown(socket.SHUT_WR)
                assert_nothing_of_ours(listen(stranger))
    assert viewer.ask(Stop(run=run)) == Done(run=run)


# --- Many of them -----------------------------------------------------------------------------------------------------


def memory(process: psutil.Process) -> int:
    return int(process.memory_info().rss)


def limited(soft: int, hard: int) -> tuple[str, ...]:
    """The command of an agent that may have so many files open."""
    lines = (
        "import resource, sys",
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))",
        "sys.argv = sys.argv[:1]",
        "from tests.integration.stand_in_agent import main",
        "sys.exit(main())",
    )
    return sys.executable, "-c", "\n".join(lines)


def test_thousands_of_junk_connections_and_hundreds_of_silent_ones(new_agent: Callable[..., Agent]) -> None:
    operating_system.raise_descriptor_limit()  # this process holds the strangers' ends
    agent = new_agent(*limited(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    process, door = psutil.Process(agent.process.pid), agent_door(agent)
    junk = RAW["a broken hello"] + RAW["random"][:1000]
    with good_client(door) as good, ExitStack() as strangers:
        files, before = process.num_fds(), memory(process)
        there = [strangers.enter_context(door.knock()) for _ in range(300)]
        heard: list[bytes] = []
        there += [strangers.enter_context(noisy) for noisy in flood(door, 3000, junk, keep=6, heard=heard)]
        assert GREETING in heard, "those whose first bytes are right are greeted"
        for words in heard:
            assert_nothing_of_ours(words)
        good.more()
        assert memory(process) - before < 64 * MEBI
        for stranger in there:
            assert_nothing_of_ours(listen(stranger))
            stranger.close()
        wait_for(lambda: process.num_fds() <= files + 4, "the end of the strangers' connections")
        assert memory(process) - before < 64 * MEBI
    assert agent.log.read_text().count("\n") < 20


def test_where_no_descriptor_is_left_the_agent_lives_on_and_forgets_nothing(
    new_agent: Callable[..., Agent], context: Context
) -> None:
    agent = new_agent(*limited(160, 160))
    process, door = psutil.Process(agent.process.pid), agent_door(agent)
    viewer = Viewer(context, agent.address())
    run = viewer.start(stand_in_spec(**SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    spec = stand_in_spec(steps=10)
    with crowd(door, size=400):
        for _ in range(3):
            wait_for(lambda: process.num_fds() >= 159, "the last descriptor to be taken")
            assert viewer.statuses()[run].state is RunState.RUNNING
            assert isinstance(viewer.ask(StartRun(spec=spec)), Done | Refused)
    wait_for(lambda: process.num_fds() < 100, "the end of the strangers' connections")
    assert wait_for(lambda: isinstance(viewer.ask(StartRun(spec=spec)), Done), "a free descriptor")
    assert viewer.statuses().keys() == {run, spec.run}
    late = Viewer(context, agent.address())
    assert late.statuses().keys() == {run, spec.run}
    assert late.ask(Stop(run=run)) == Done(run=run)
    late.wait_state(run, RunState.STOPPED)
    late.close()
    viewer.close()


# --- Clients with a key that behave badly -----------------------------------------------------------------------------


def test_garbage_from_a_good_key_is_counted_and_hardly_logged(agent: Agent, context: Context) -> None:
    door = agent_door(agent)
    process, chance = psutil.Process(agent.process.pid), random.Random(2)
    rude = door.channel(context, door.invite())
    wait_for(lambda: rude.greeting is Greeting.ACCEPTED)
    with good_client(door) as good:
        before = memory(process)
        for number in range(5000):
            shape = [b"12345678", chance.randbytes(number % 400)] if number % 2 else [b"x"] * (number % 7 + 1)
            rude.socket.send_multipart(shape)
            if number % 100 == 99:
                rude.receive()
        good.more()
        assert memory(process) - before < 64 * MEBI
    assert agent.log.read_text().count("\n") < 60
    rude.close()


def test_a_message_over_the_hard_limit_ends_its_connection_alone(agent: Agent, context: Context) -> None:
    door = agent_door(agent)
    with good_client(door):
        rude = door.channel(context, door.invite())
        wait_for(lambda: rude.greeting is Greeting.ACCEPTED)
        rude.socket.send_multipart([b"12345678", bytes(4 * MEBI)])
        wait_for(lambda: rude.greeting is Greeting.GONE, "the end of its connection")
        rude.close()


def test_a_replayed_request_is_answered_each_time_and_done_once(viewer: Viewer) -> None:
    spec = stand_in_spec(steps=10)
    for _ in range(3):
        viewer.channel.socket.send_multipart([b"sameIDno", encode(StartRun(spec=spec))])
    replies: list[object] = []

    def all_came() -> bool:
        replies.extend(viewer.channel.receive())
        return len(replies) >= 3

    wait_for(all_came)
    assert replies == [(b"sameIDno", Done(run=spec.run))] * 3
    assert viewer.wait_state(spec.run, RunState.FINISHED).attempt == 1


def test_a_client_that_never_reads_takes_bounded_memory(agent: Agent, viewer: Viewer, context: Context) -> None:
    door, process = agent_door(agent), psutil.Process(agent.process.pid)
    run = viewer.start(stand_in_spec(steps=60_000))
    viewer.wait_state(run, RunState.FINISHED)
    deaf: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    keys = door.invite()
    deaf.linger, deaf.rcvhwm, deaf.sndtimeo = 0, 1, 2000
    deaf.curve_publickey, deaf.curve_secretkey = keys.public.encode(), keys.secret.encode()
    deaf.curve_serverkey = door.address.public_key.encode()
    deaf.connect(f"tcp://127.0.0.1:{door.address.port}")
    fetch = encode(Fetch(run=run, attempt=1, offset=0, wait=0.0))
    with good_client(door) as good:
        before = memory(process)
        for number in range(600):  # a fetch replaces the one before it, unless that is answered already
            deaf.send_multipart([uuid.uuid4().bytes[:8], fetch])
            if number % 20 == 0:
                good.more(1)
        assert memory(process) - before < 128 * MEBI, "128 answers of 256 KiB wait at most, 32 MiB"
    deaf.close()


# --- The gatekeeper is gone -------------------------------------------------------------------------------------------


def test_while_nobody_serves_the_gate_nobody_gets_in(agent: Agent, viewer: Viewer, context: Context) -> None:
    door = agent_door(agent)
    invited, stranger = door.channel(context, door.invite()), None
    assert isinstance(invited.request(GetStatus(), 60), Status)
    agent.process.send_signal(signal.SIGSTOP)
    late = door.channel(context, door.invite())
    stranger = door.channel(context, KeyPair.generate())
    for channel in (late, stranger):
        channel.send(Hello())
        channel.socket.poll(1000)
        assert channel.greeting is Greeting.NONE
    agent.process.send_signal(signal.SIGCONT)
    assert isinstance(wait_for(late.receive)[0][1], Welcome)
    assert wait_for(lambda: stranger.greeting is Greeting.REFUSED)
    assert stranger.receive() == []
    for channel in (invited, late, stranger):
        channel.close()
