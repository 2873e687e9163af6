"""A network that freezes, a server that is gone: every call has its end, nothing is left, and dialling anew heals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from paramiko import Message, Transport
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_EOF

from clew_gui.ssh.connection import Connection, SshFiles, route_words
from clew_gui.ssh.dial import ReconnectingConnection
from clew_gui.ssh.dial import dial as dial_best
from clew_gui.ssh.paramiko_connection import ParamikoConnection
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter, PromptKind
from clew_gui.ssh.transport import SshTransport
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.people import Network, Person, well_informed
from tests.integration.ssh.servers import PASSWORD, School, SshServer
from tests.integration.ssh.test_contract import refused

pytestmark = pytest.mark.needs("sshd")

BOUND_S = 0.5


@pytest.fixture
def cable(server: SshServer, files: SshFiles, network: Callable[[int], Network]) -> Network:
    """A network before the usual server, under whose port the server's key is known."""
    made = network(server.port)
    files.known_hosts.write_text(server.known_line().replace(f":{server.port} ", f":{made.port} "))
    return made


@pytest.fixture
def frozen(dial: Dial, server: SshServer, cable: Network) -> Iterator[Connection]:
    """A login whose network froze afterwards."""
    connection = dial(hop_to(server, "user", port=cable.port))
    assert connection.run("echo up").stdout == b"up\n"
    cable.freeze()
    yield connection
    connection.close()  # before the network goes


CALLS: dict[str, Callable[[Connection], object]] = {
    "run": lambda c: c.run("true", timeout=BOUND_S),
    "run with much input": lambda c: c.run("cat", stdin=bytes(30_000_000), timeout=BOUND_S),
    "open": lambda c: c.open("cat", timeout=BOUND_S),
    "connect": lambda c: c.connect("127.0.0.1", 22, timeout=BOUND_S),
    "read": lambda c: c.read("/etc/hosts", timeout=BOUND_S),
    "write": lambda c: c.write("/tmp/clew-frozen", bytes(30_000_000), timeout=BOUND_S),
    "stat": lambda c: c.stat("/etc/hosts", timeout=BOUND_S),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_hangs_on_a_frozen_network(frozen: Connection, name: str) -> None:
    with pytest.raises(ProblemError) as caught:
        CALLS[name](frozen)
    assert caught.value.problems[0].code in ("ssh.timeout", "ssh.connect")


def test_a_frozen_network_does_not_answer_and_closing_is_at_once(frozen: Connection) -> None:
    assert not frozen.probe(BOUND_S)
    assert not frozen.probe(BOUND_S)


def test_a_link_that_was_only_asleep_goes_on(frozen: Connection, cable: Network) -> None:
    assert not frozen.probe(BOUND_S)
    cable.thaw()
    assert frozen.probe()
    assert frozen.run("echo awake").stdout == b"awake\n"


def test_a_dial_into_a_frozen_network_ends(dial: Dial, server: SshServer, cable: Network) -> None:
    cable.freeze()
    with refused("ssh.timeout"):
        dial(hop_to(server, "user", port=cable.port), timeout=BOUND_S)


def test_a_greeting_that_does_not_come_is_not_taken_for_one_that_was_refused(
    dial: Dial, server: SshServer, cable: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clocks of paramiko's run at once; here that of the greeting is always the first. Its words are the same."""
    monkeypatch.setattr(
        SshTransport, "start_client", lambda link, timeout: Transport.start_client(link, timeout=20 * timeout)
    )
    cable.freeze()
    with refused("ssh.timeout"):
        dial(hop_to(server, "user", port=cable.port), timeout=BOUND_S)


def test_a_stream_on_a_frozen_link_ends_with_the_link(dial: Dial, server: SshServer, cable: Network) -> None:
    connection = dial(hop_to(server, "user", port=cable.port))
    stream = connection.open("echo on; exec cat")
    assert stream.recv(10) == b"on\n"
    cable.freeze()
    ends: list[str] = []

    def use(what: Callable[[], object]) -> None:
        try:
            while what():
                pass
        except ProblemError as error:
            ends.append(error.problems[0].code)
        else:
            ends.append("end")

    def send() -> bool:
        stream.send(bytes(1_000_000))
        return True

    threads = [
        threading.Thread(target=use, args=(lambda: stream.recv(10),)),
        threading.Thread(target=use, args=(send,)),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.1)  # both are in the middle of it
    stream.close()
    connection.close()
    for thread in threads:
        thread.join(20.0)
    assert not any(thread.is_alive() for thread in threads)
    assert len(ends) == 2


# --- One that dials anew --------------------------------------------------------------------------------------------


@pytest.fixture
def reconnecting(server: SshServer, cable: Network, files: SshFiles) -> Iterator[ReconnectingConnection]:
    """Probes often and has little patience."""
    hops = [hop_to(server, "user", port=cable.port)]
    asker = AskOnce(Person({}))
    made = ReconnectingConnection(lambda: dial_best(hops, asker, files, 5.0), every=0.1, patience=2.0)
    yield made
    made.close()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_it_dials_when_it_is_needed(reconnecting: ReconnectingConnection, cable: Network) -> None:
    assert cable.accepted == 0
    assert not reconnecting.probe()
    assert reconnecting.run("echo a").stdout == b"a\n"
    assert reconnecting.run("echo b").stdout == b"b\n"
    assert reconnecting.dials == 1
    assert "student@login (key " in route_words(reconnecting.passed)


def test_a_dead_link_is_found_and_dialled_anew(reconnecting: ReconnectingConnection, cable: Network) -> None:
    reconnecting.run("true")
    cable.freeze()
    until(lambda: not reconnecting.alive, "nobody noticed that the network froze")
    cable.thaw()
    assert reconnecting.run("echo again").stdout == b"again\n"
    assert reconnecting.dials == 2


def test_a_short_silence_is_borne(reconnecting: ReconnectingConnection, cable: Network) -> None:
    patient = ReconnectingConnection(reconnecting.connected, every=0.1, patience=30.0)
    patient.run("true")
    reconnecting.patience = 30.0
    cable.freeze()
    until(lambda: patient.silent_s > 0.5, "time stands still")
    cable.thaw()
    until(lambda: patient.silent_s < 0.3, "the link did not wake up")
    assert patient.dials == 1
    patient.close()


def test_after_sleep_a_link_that_does_not_answer_is_given_up_at_once(
    reconnecting: ReconnectingConnection, cable: Network
) -> None:
    reconnecting.patience = 3600.0
    reconnecting.run("true")
    cable.freeze()
    reconnecting.wake()
    until(lambda: not reconnecting.alive, "it was waited for")
    cable.thaw()


def test_a_link_that_cost_a_code_is_waited_for(
    start: Callable[..., SshServer],
    files: SshFiles,
    network: Callable[[int], Network],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clew_gui.ssh.dial.PATIENCE_S", 0.5)
    server = start("AuthenticationMethods keyboard-interactive:pam", otp=True)
    cable = network(server.port)
    files.known_hosts.write_text(server.known_line().replace(f":{server.port} ", f":{cable.port} "))
    person = well_informed()
    asker = AskOnce(person)
    reconnecting = ReconnectingConnection(
        lambda: dial_best([hop_to(server, port=cable.port)], asker, files, 20.0), every=0.1
    )
    reconnecting.run("true")
    cable.freeze()
    reconnecting.wake()
    until(lambda: reconnecting.silent_s > 2.0, "time stands still")
    assert reconnecting.alive
    cable.thaw()
    assert reconnecting.run("echo awake").stdout == b"awake\n"
    assert (reconnecting.dials, person.kinds) == (1, [PromptKind.PASSWORD, PromptKind.CODE])
    reconnecting.close()


def test_a_server_that_comes_back_is_dialled_anew(
    start: Callable[..., SshServer], files: SshFiles, school: School
) -> None:
    server = start()
    trust(files, server)
    asker = AskOnce(Person({}))
    reconnecting = ReconnectingConnection(lambda: dial_best([hop_to(server, "user")], asker, files, 5.0), every=0.1)
    reconnecting.run("true")
    server.stop()
    until(lambda: not reconnecting.alive, "nobody noticed that the server ended")
    with refused("ssh.reach"):
        reconnecting.run("true")
    server.start()
    assert reconnecting.run("echo back").stdout == b"back\n"
    reconnecting.close()


def test_a_closed_one_dials_no_more(reconnecting: ReconnectingConnection, cable: Network) -> None:
    reconnecting.run("true")
    reconnecting.close()
    with refused("ssh.lost"):
        reconnecting.run("true")
    assert cable.accepted == 1


def test_closing_does_not_wait_for_a_person(server: SshServer, cable: Network, files: SshFiles) -> None:
    asked, answered = threading.Event(), threading.Event()

    class Slow(Prompter):
        def ask(self, prompt: Prompt) -> str | None:
            asked.set()
            answered.wait(30.0)
            return PASSWORD

    reconnecting = ReconnectingConnection(
        lambda: dial_best([hop_to(server, port=cable.port)], AskOnce(Slow()), files, 5.0)
    )
    codes: list[str] = []

    def use() -> None:
        try:
            reconnecting.run("true")
        except ProblemError as error:
            codes.append(error.problems[0].code)

    user = threading.Thread(target=use)
    user.start()
    assert asked.wait(30.0)
    reconnecting.close()
    assert not codes
    answered.set()
    user.join()
    assert codes == ["ssh.lost"]


# --- Behind the end of a channel ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "content"), [(cMSG_CHANNEL_EOF, b""), (cMSG_CHANNEL_DATA, b"\0\0\0\4late")])
def test_a_message_that_leaves_behind_its_channels_end_does_no_harm(
    reconnecting: ReconnectingConnection, kind: bytes, content: bytes
) -> None:
    """As when a command ends while another thread is about to end its input: to a server that is a broken client."""
    connection = reconnecting.connected()
    assert isinstance(connection, ParamikoConnection)
    link: Any = connection.link  # with the private methods of paramiko's channels
    channel = link.open_session()
    channel.exec_command("cat")
    late = Message()
    late.add_byte(kind)
    late.add_int(channel.remote_chanid)
    late.add_bytes(content)
    channel.close()
    until(lambda: not link._channels.values(), "the server did not close it")
    link._send_user_message(late)
    assert connection.run("echo alive").stdout == b"alive\n"
    stream = connection.open("cat")  # it has the same number on the server
    link._send_user_message(late)
    stream.send(b"alive")
    assert stream.recv(10) == b"alive"
    stream.close()
