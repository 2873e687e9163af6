"""Where an agent listens: ports of a range that never collide, and an address that others can reach."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zmq

from clew_agent.wire import rendezvous as listening
from clew_agent.wire.rendezvous import ANYWHERE, LOOPBACK, PortRange, own_address, own_addresses, read_ports
from clew_agent.wire.server import GuardedRouter
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError


@pytest.mark.parametrize(
    ("text", "ports"), [("5000-5010", (5000, 5010)), (" 5000 - 5000 ", (5000, 5000)), ("65535", (65535, 65535))]
)
def test_a_range_of_ports_is_read(text: str, ports: tuple[int, int]) -> None:
    assert read_ports(text) == PortRange(*ports)


@pytest.mark.parametrize("text", ["", "80", "1-70000", "5010-5000", "5000-", "a-b", "5000-5010-5020", "-5000", "٥٠٠٠"])
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_ports(text)
    assert caught.value.problems[0].code == "ports.form"
    assert "50000-50100" in caught.value.problems[0].hint


def test_all_ports_of_a_range_are_tried_in_some_order() -> None:
    ports = PortRange(5000, 5039)
    orders = [ports.shuffled() for _ in range(5)]
    assert all(sorted(order) == list(range(5000, 5040)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1


@pytest.fixture
def contexts() -> Iterator[list[zmq.Context[zmq.Socket[bytes]]]]:
    made: list[zmq.Context[zmq.Socket[bytes]]] = []
    yield made
    for context in made:
        context.destroy(linger=0)


def free_range(count: int) -> PortRange:
    """So many ports in a row that nobody uses just now."""
    for first in range(20_000, 30_000, count):
        taken = [socket.socket() for _ in range(count)]
        try:
            for port, one in enumerate(taken, first):
                one.bind(("", port))
        except OSError:
            continue
        else:
            return PortRange(first, first + count - 1)
        finally:
            for one in taken:
                one.close()
    raise AssertionError("no free ports")


def test_forty_agents_on_one_node_share_forty_ports_and_the_next_is_told_so(
    tmp_path: Path, contexts: list[zmq.Context[zmq.Socket[bytes]]]
) -> None:
    ports, folder = free_range(40), make_private(tmp_path / "allow")

    def listen() -> GuardedRouter:
        contexts.append(zmq.Context())
        return GuardedRouter(contexts[-1], folder, ANYWHERE, ports)

    routers = [listen() for _ in range(40)]
    assert {router.port for router in routers} == set(range(ports.first, ports.last + 1))
    with pytest.raises(ProblemError) as caught:
        listen()
    assert caught.value.problems[0].code == "ports.taken"
    assert str(ports) in caught.value.problems[0].text
    for router in routers:
        router.close()


def test_the_published_address_is_one_of_this_node() -> None:
    assert own_address({}) in (*own_addresses(), LOOPBACK)
    assert LOOPBACK not in own_addresses()


def test_the_interface_towards_the_login_node_counts_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "own_addresses", lambda: ("10.9.0.7", "10.77.1.11"))
    monkeypatch.setattr(listening, "addresses_of", lambda name: {"login": ("10.77.1.1",)}.get(name, ()))
    monkeypatch.setattr(listening, "interface_to", lambda far: "10.77.1.11" if far == "10.77.1.1" else "")
    assert own_address({"SLURM_SUBMIT_HOST": "login"}) == "10.77.1.11"
    assert own_address({"PBS_O_HOST": "login"}) == "10.77.1.11"
    assert own_address({"SLURM_SUBMIT_HOST": "elsewhere"}) == "10.9.0.7", "the first interface is better than none"


def test_else_what_the_nodes_name_stands_for_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "own_addresses", lambda: ("172.17.0.1", "10.77.1.11"))
    here = {socket.gethostname(): ("10.77.1.11",)}
    monkeypatch.setattr(listening, "addresses_of", lambda name: here.get(name, ()))
    assert own_address({}) == "10.77.1.11"


def test_a_node_with_nothing_but_loopback_has_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "own_addresses", tuple)
    assert own_address({"SLURM_SUBMIT_HOST": "localhost"}) == LOOPBACK


def test_nothing_is_sent_to_find_the_way() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listener:
        listener.bind((LOOPBACK, 0))
        assert listening.interface_to(LOOPBACK) == LOOPBACK
