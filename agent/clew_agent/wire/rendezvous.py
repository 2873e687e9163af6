"""The addresses at which agents listen, and where viewers find them: ``agents/<uuid>.json``, owner-only, written by
rename."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import random
import re
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import ProblemError, os_refused, problem
from clew_shared.wire.channel import KEY_SUFFIX
from clew_shared.wire.messages import AgentAddress, read_address

PORTS_TAKEN = "ports.taken"
"""The problem's code when no port is free: one may be later."""
_OTHER_FOLDERS = (Path("/dev/shm"), Path("/var/tmp"))  # noqa: S108  # what is put there is checked to be the user's own
_TRIED_BYTES = 65_536


def agent_id(places: Places, allocation: str = "local") -> str:
    """The agent's UUID: always the same for one home, host and allocation, so that a successor takes its place."""
    return str(
        uuid.uuid5(uuid.NAMESPACE_URL, f"clew:{operating_system.host_name()}:{places.home.absolute()}:{allocation}")
    )


def address_path(places: Places, agent: str) -> Path:
    """The agent's file on the file system that the viewer can read."""
    return places.agents / f"{agent}.json"


def lock_path(places: Places, agent: str) -> Path:
    """The file whose lock says that this agent is served; on the node's own disk, in an owner-only folder.

    Raises ``ProblemError`` when that folder cannot be made.
    """
    text, hint = f"The folder {places.private} cannot be made", "Set XDG_RUNTIME_DIR or TMPDIR to a folder of your own."
    with os_refused("private.folder", text, hint, str(places.private)):
        return make_private(make_private(places.private) / "agents") / _lock_name(agent)


def _lock_name(agent: str) -> str:
    return f"{hashlib.sha256(agent.encode()).hexdigest()[:32]}.lock"


def node_places(places: Places, agent: str, others: Sequence[Path] = _OTHER_FOLDERS) -> Places:
    """``places`` with a private folder on this node that can be written: a node's /tmp may be full or read-only.

    Once an agent has had one of the folders it has it again, even if there is room in another by now: its guards are
    found there. Raises ``ProblemError`` when all refuse.
    """
    folders = [places.private, *(other / f"clew-{operating_system.user_id()}" / "clew" for other in others)]
    folders.sort(key=lambda folder: not (folder / "agents" / _lock_name(agent)).exists())
    refusals = []
    for folder in folders:
        try:
            if folder != places.private:
                make_private(folder.parent)
            _try_to_write(make_private(folder))
        except (OSError, ProblemError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            refusals.append(f"{folder} ({said})")
        else:
            return msgspec.structs.replace(places, private=folder)
    text = f"No folder of this node can be written: {', '.join(refusals)}."
    raise problem("private.folder", text, "Take another node, or set TMPDIR to a folder that can be written.")


def _try_to_write(folder: Path) -> None:
    """Tries to write a small file. Raises ``OSError`` where that is impossible."""
    path = folder / f".try-{os.getpid()}"
    try:
        path.write_bytes(bytes(_TRIED_BYTES))
    finally:
        path.unlink(missing_ok=True)


def allow_folder(places: Places, agent: str) -> Path:
    """The folder in which a key file lets a viewer in; owner-only."""
    make_private(places.agents)
    return make_private(places.agents / f"{agent}.allow")


def clear_keys(folder: Path) -> None:
    """Remove the keys of viewers of an earlier agent: each viewer writes its key again before it connects."""
    for path in folder.glob(f"*{KEY_SUFFIX}"):
        path.unlink(missing_ok=True)


def publish(places: Places, address: AgentAddress) -> AgentAddress:
    """Write the address with the next generation and return it.

    Generations only grow, also after the file was removed: they begin at the second of the first start. Raises
    ``OSError`` when the disk refuses.
    """
    make_private(places.agents)
    path = address_path(places, address.agent)
    before = read_address(path)
    generation = max(before.generation + 1 if before else 0, int(time.time()))
    published = msgspec.structs.replace(address, generation=generation)
    write_private(path, msgspec.json.format(msgspec.json.encode(published)) + b"\n")
    return published


def withdraw(places: Places, address: AgentAddress) -> None:
    """Remove the address and the keys of those it let in, unless a successor has written its own."""
    path = address_path(places, address.agent)
    found = read_address(path)
    if found is not None and found.generation == address.generation:
        path.unlink(missing_ok=True)
        shutil.rmtree(allow_folder(places, address.agent), ignore_errors=True)


# --- Listening --------------------------------------------------------------------------------------------------------
# On which address and port an agent listens, and under which address others find it.


LOOPBACK = "127.0.0.1"
ANYWHERE = "0.0.0.0"  # noqa: S104  # a job's agent only, which lets nobody in without a known key
_FROM = ("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SUBMIT_HOST", "PBS_O_HOST")
"""Variables that say where a job was sent from: a login node, which is where viewers come from."""
_NAMES_WITHIN_S = 3.0
"""A name server that does not answer would keep the agent from starting."""
_RANGE = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", re.ASCII)


class PortRange(msgspec.Struct, frozen=True):
    """Ports ``first`` to ``last``."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def shuffled(self) -> list[int]:
        """Returns all ports, in random order: many agents that begin at the same time on one node rarely try the
        same."""
        return random.sample(range(self.first, self.last + 1), self.last - self.first + 1)


def read_ports(text: str) -> PortRange:
    """``5000-5010`` or ``5000``. Raises ``ProblemError``."""
    found = _RANGE.fullmatch(text)
    first = int(found[1]) if found is not None else 0
    last = int(found[2] or found[1]) if found is not None else 0
    if not 1024 <= first <= last <= 65535:
        hint = "Write two ports from 1024 to 65535, the smaller one first: 50000-50100."
        raise problem("ports.form", f"The ports {text[:40]!r} are not a range.", hint, "ports")
    return PortRange(first, last)


def own_address(environment: Mapping[str, str] = os.environ) -> str:
    """The node's address as the login node reaches it, as far as can be seen from here; never a name.

    That of the interface from which the login node is reached, else the one that the node's own name has, else
    that of any interface. A node with nothing but its loopback has that.
    """
    mine = own_addresses()
    for name in _FROM:
        for far in addresses_of(environment.get(name, "")):
            near = interface_to(far)
            if near in mine:
                return near
    named = (address for address in addresses_of(socket.gethostname()) if address in mine)
    return next(named, next(iter(mine), LOOPBACK))


def address_towards(host: str) -> str:
    """The node's address as ``host``, another node of the same job, reaches it."""
    mine = own_addresses()
    near = (interface_to(far) for far in addresses_of(host))
    return next((address for address in near if address in mine), "") or own_address()


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


def interface_to(far: str) -> str:
    """The own address with which this node would speak to ``far``; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((far, 9))
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return address


def addresses_of(name: str) -> tuple[str, ...]:
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
