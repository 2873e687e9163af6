"""On which address and port an agent listens, and under which address others find it."""

from __future__ import annotations

import ipaddress
import os
import random
import re
import socket
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec
import psutil

from clew_shared.problem import problem

LOOPBACK = "127.0.0.1"
ANYWHERE = "0.0.0.0"  # noqa: S104  # a job's agent only, which lets nobody in without a known key
_FROM = ("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SUBMIT_HOST", "PBS_O_HOST")
"""Where a job was sent from: a login node, which is where viewers come from."""
_NAMES_WITHIN_S = 3.0
_RANGE = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", re.ASCII)


class PortRange(msgspec.Struct, frozen=True):
    """Ports ``first`` to ``last``."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def shuffled(self) -> list[int]:
        """All of them, in random order: many agents that begin at the same time on one node rarely try the same."""
        return random.sample(range(self.first, self.last + 1), self.last - self.first + 1)


def read_ports(text: str) -> PortRange:
    """``5000-5010`` or ``5000``. Raises ``ProblemError``."""
    found = _RANGE.fullmatch(text)
    first = int(found[1]) if found is not None else 0
    last = int(found[2] or found[1]) if found is not None else 0
    if not 1024 <= first <= last <= 65535:
        hint = "Write two ports from 1024 to 65535, the smaller one first: 50000-50100."
        raise problem("ports.form", f"The ports {text[:40]!r} are no range.", hint, "ports")
    return PortRange(first, last)


def own_address(environment: Mapping[str, str] = os.environ) -> str:
    """The node's address as the login node reaches it, as far as can be told from here; never a name.

    That of the interface from which the login node is reached, else the one that the node's own name stands for, else
    that of any interface. A node with nothing but its loopback has that.
    """
    mine = own_addresses()
    for name in _FROM:
        for far in _addresses_of(environment.get(name, "")):
            near = _interface_to(far)
            if near in mine:
                return near
    named = (address for address in _addresses_of(socket.gethostname()) if address in mine)
    return next(named, next(iter(mine), LOOPBACK))


def own_addresses() -> tuple[str, ...]:
    """The IPv4 addresses of this node's interfaces that are up, without its loopback."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = (
        one.address
        for name, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if name in up and one.family == socket.AF_INET
    )
    return tuple(_without_loopback(found))


def _without_loopback(addresses: Iterable[str]) -> list[str]:
    return [one for one in dict.fromkeys(addresses) if not ipaddress.ip_address(one).is_loopback]


def _interface_to(far: str) -> str:
    """The own address with which this node would speak to ``far``; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return address


def _addresses_of(name: str) -> tuple[str, ...]:
    """The IPv4 addresses of a host, without loopback. A name server that does not answer is not waited for longer than
    a few seconds: the resolver's own limit may be half a minute."""
    found: list[str] = []

    def ask() -> None:
        with suppress(OSError, UnicodeError):
            found.extend(str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM))

    if name:
        thread = threading.Thread(target=ask, name="resolver", daemon=True)
        thread.start()
        thread.join(_NAMES_WITHIN_S)
    return tuple(_without_loopback(found))
