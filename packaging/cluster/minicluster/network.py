"""Two networks: ``wan`` joins laptop and login node, ``lan`` login node, controller and nodes.

Their bridges are in a separate namespace (the switch), so nothing shows up in this computer's network. No host
forwards packets or has a default route, so each reaches only its own networks.
"""

from __future__ import annotations

from collections.abc import Iterable

from minicluster.namespaces import run
from minicluster.plan import NETWORKS, PREFIX_BITS, Host


def in_network(pid: int) -> list[str]:
    """The start of a command line that runs the rest in a host's network, with this computer's files."""
    return ["nsenter", f"--target={pid}", "--net"]


def _batch(pid: int, lines: list[str]) -> None:
    run(in_network(pid), "ip", "-batch", "-", text="\n".join(lines) + "\n")


def make_switch(switch: int) -> None:
    """Make the bridges."""
    lines = [f"link add {network} type bridge" for network in NETWORKS]
    _batch(switch, lines + [f"link set {network} up" for network in NETWORKS])


def port_of(host: int, network: str) -> str:
    """The name of the switch's end of a host's cable. It contains the process id, so a restarted host gets a new name:
    the kernel removes the old cable some time after the host."""
    return f"{network}-{host}"


def _mac(address: str) -> str:
    """A fixed hardware address, so that neighbours can be entered beforehand."""
    return ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])


def plug_in(switch: int, pid: int, host: Host, hosts: Iterable[Host]) -> None:
    """Connect the host's cables and give it its addresses; ``hosts`` are all hosts of the cluster.

    Neighbours are permanent: a cut cable is then silence, as behind a router, and not "no route to host".
    """
    for network in host.addresses:
        port = port_of(pid, network)
        _batch(
            switch,
            [f"link add {port} type veth peer name {network} netns {pid}", f"link set {port} master {network} up"],
        )
    _batch(pid, _own_lines(host, hosts))


def _own_lines(host: Host, hosts: Iterable[Host]) -> list[str]:
    lines = ["link set lo up"]
    for network, address in host.addresses.items():
        lines += [
            f"link set {network} address {_mac(address)}",
            f"addr add {address}/{PREFIX_BITS} dev {network}",
            f"link set {network} up",
        ]
        others = (other.addresses.get(network) for other in hosts if other.name != host.name)
        lines += [f"neigh add {other} lladdr {_mac(other)} dev {network} nud permanent" for other in others if other]
    return lines


def cut(switch: int, pid: int, host: Host) -> None:
    """Let nothing pass any more, without a sign of it: the cables keep their carrier."""
    _batch(switch, [f"link set {port_of(pid, network)} nomaster" for network in host.addresses])


def unplug(switch: int, pid: int, host: Host) -> None:
    """Pull the cables: the host sees its links without a carrier."""
    _batch(switch, [f"link set {port_of(pid, network)} down" for network in host.addresses])


def reconnect(switch: int, pid: int, host: Host) -> None:
    """Undo ``cut`` and ``unplug``."""
    _batch(switch, [f"link set {port_of(pid, network)} master {network} up" for network in host.addresses])
