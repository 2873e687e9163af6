"""Clew's tunnel to a compute node beside OpenSSH's ``ssh -L``: how much goes through, how soon an answer is back."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from clew_gui.ssh.connection import Connection
from clew_gui.ssh.openssh.connection import dial_system
from clew_gui.ssh.paramiko.connection import dial_paramiko
from clew_gui.ssh.tunnel import Tunnel
from tests.bench.laptop import LOGIN, NODE, NODE_ADDRESS, Laptop, own_laptop
from tests.bench.measure import CannotMeasure, machine, ratio, table, workers

_BOUND_S = 30.0
OPENSSH = "OpenSSH, `ssh -L`"
PARAMIKO = "Clew, through paramiko"
SYSTEM = "Clew, through the system's `ssh`"
WAYS = (PARAMIKO, SYSTEM, OPENSSH)
METHOD = """From the mini cluster's laptop through its login node's sshd to a port of node1; all of it is one computer,
so that the network costs nothing and what is measured is the processors' work. Each way is one SSH connection that
stays open. In each round each way makes a new connection through its local port, in an order that moves on by one from
round to round: *opened* is until the first answer over it, then come round trips of 100 bytes, then bulk down and
up. The client is a process of its own for every way, as ZeroMQ's thread is one that does not wait for Python's. Figures
are medians over the rounds (*slow* is the median of the rounds' 99th percentiles); ratios are to `ssh -L`, and
in brackets are the bounds of 95 % of 10,000 bootstrap resamples of the rounds. Limits: two sshd processes, the far end,
the client and the tunnel share the cores, so rates are lower bounds; over a real network a round trip's time and the
line's own rate come first, and then the window counts, which is 2 MB for both."""


@contextmanager
def _far_end(laptop: Laptop) -> Iterator[int]:
    """What the tunnels lead to runs on the node; its port."""
    program = Path(__file__).with_name("tunnel_far_end.py").read_text(encoding="utf-8")
    process = subprocess.Popen(
        [str(Path(__file__).parents[2] / "packaging/cluster/cluster"), "on", NODE, "python3", "-c", program],
        env=laptop.cluster.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def _tunnel(connection: Connection, port: int) -> Iterator[int]:
    tunnel = Tunnel(lambda: connection.connect(NODE_ADDRESS, port))
    try:
        yield tunnel.port
    finally:
        tunnel.close()
        connection.close()


@contextmanager
def _openssh(laptop: Laptop, port: int) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = int(free.getsockname()[1])
    options = ("BatchMode=yes", "StrictHostKeyChecking=no", "ExitOnForwardFailure=yes", "IdentitiesOnly=yes")
    known = f"UserKnownHostsFile={laptop.folder / 'known_hosts_openssh'}"
    process = subprocess.Popen(
        ["ssh", "-F", "none", "-N", "-i", laptop.key, "-L", f"127.0.0.1:{here}:{NODE_ADDRESS}:{port}"]
        + [word for option in (*options, known) for word in ("-o", option)]
        + [f"student@{LOGIN}"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            deadline = time.monotonic() + _BOUND_S
            while not _listens(here):
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    raise CannotMeasure(f"ssh -L did not come up: {process.communicate()[1][-500:]}")
                time.sleep(0.05)
            yield here
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


@contextmanager
def _ports(laptop: Laptop) -> Iterator[dict[str, int]]:
    """The local port of each way."""
    with ExitStack() as stack:
        port = stack.enter_context(_far_end(laptop))
        own = dial_paramiko(laptop.hop, laptop.files, laptop.asker)
        found = {PARAMIKO: stack.enter_context(_tunnel(own, port))}
        system = dial_system(laptop.hop, laptop.files, laptop.asker)
        found[SYSTEM] = stack.enter_context(_tunnel(system, port))
        found[OPENSSH] = stack.enter_context(_openssh(laptop, port))
        yield found


def race(laptop: Laptop, rounds: int, megabytes: int, trips: int) -> dict[str, list[dict[str, float]]]:
    """What each way did in each round."""
    with _ports(laptop) as ports:
        words = {way: (str(port), str(megabytes), str(trips)) for way, port in ports.items()}
        with workers("tests.bench.tunnel_worker", words) as running:
            found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for number in range(rounds):
                shift = number % len(WAYS)
                for way in WAYS[shift:] + WAYS[:shift]:
                    found[way].append(running[way].answer())
    return found


def rows(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[tuple[str, ...]]:
    """The table's lines; ratios above 1 mean faster than ``ssh -L`` for rates, slower for times."""

    def cell(way: str, what: str, compared: bool) -> str:
        values = [one[what] for one in found[way]]
        text = f"{median(values):.0f}" if what in ("down", "up") else f"{median(values):.2f}"
        if not compared or way == OPENSSH:
            return text
        return f"{text}, × {ratio(values, [one[what] for one in found[OPENSSH]])}"

    columns = (("down", True), ("up", True), ("trip", True), ("slow trip", False), ("open", False))
    return [(way, *(cell(way, what, compared) for what, compared in columns)) for way in found]


def report(rounds: int, quick: bool) -> str:
    """Measure; the text for people, as Markdown. Raises ``CannotMeasure`` without a cluster."""
    rounds, megabytes, trips = (2, 8, 100) if quick else (max(rounds, 9), 64, 1000)
    with own_laptop() as laptop:
        found = race(laptop, rounds, megabytes, trips)
    head = ("way", "down MB/s", "up MB/s", "round trip ms", "slow ms", "opened ms")
    text = table(head, rows(found))
    print(text, flush=True)
    what = f"{rounds} rounds of {megabytes} MB each way and {trips} round trips."
    return "\n\n".join([f"Machine: {machine('paramiko')}. {what}", text, METHOD])


if __name__ == "__main__":
    report(9, "--quick" in sys.argv)
