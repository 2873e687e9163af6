"""The plan: hosts with their addresses, users with their passwords, folders. Nothing here is secret or can be reached
from outside the namespaces."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[3]
SOURCES = Path(__file__).resolve().parents[1]

SSH_PORT = 22
OTP_PORT = 2222
PREFIX_BITS = 24


class Role(enum.Enum):
    """What a host sees: shared storage, the cluster's files, or this computer's."""

    STORAGE = "storage"
    MACHINE = "machine"
    LAPTOP = "laptop"


class Host(NamedTuple):
    """A host: its addresses by network (``wan`` joins laptop and login node, ``lan`` the cluster) and its services."""

    name: str
    role: Role
    addresses: dict[str, str]
    services: tuple[str, ...] = ()


NODES = ("node1", "node2", "node3")
SWITCH = Host("switch", Role.STORAGE, {})
"""Holds the bridges of both networks and the shared file system."""
LAPTOP = Host("laptop", Role.LAPTOP, {"wan": "10.77.0.2"})
LOGIN = Host("login", Role.MACHINE, {"wan": "10.77.0.1", "lan": "10.77.1.1"}, ("munged", "sshd", "sshd-otp"))
CONTROLLER = Host("ctl", Role.MACHINE, {"lan": "10.77.1.2"}, ("munged", "slurmctld"))
HOSTS = {
    host.name: host
    for host in (
        SWITCH,
        LAPTOP,
        LOGIN,
        CONTROLLER,
        *(
            Host(name, Role.MACHINE, {"lan": f"10.77.1.{10 + number}"}, ("munged", "sshd-node", "slurmd"))
            for number, name in enumerate(NODES, start=1)
        ),
    )
}
NETWORKS = ("wan", "lan")


class User(NamedTuple):
    """An account. The password hash is that of the password; the one-time secret is what an authenticator app wants."""

    name: str
    uid: int
    password: str
    password_hash: str
    otp_secret: str
    """Base32, as in ``otpauth://`` links."""


STUDENT = User(
    "student",
    20001,
    "learning-rate-0.1",
    "$6$minicluster$gJjXr93QD3Lj3S5NDfrY7mxEutE.sXDGPo2fD9ZCbrwz5br7VD6Pt6ZownEcv6pNU2M7IvpqgzlVWgKHfJBQI.",
    "KNRWQZLEMFWGKY3POJXGKZLU",
)
CLASSMATE = User(
    "classmate",
    20002,
    "momentum-0.9",
    "$6$minicluster$ilCZ3CLoBw8SK6W3pbVxio2TTfk6hzbVufj6JN7vRlGGMHaATpwegXIAZsvu9/j5yijpfQ45tdcN1mFCIKUjv0",
    "MJQXIY3IONUXUZJRGI4DQMBR",
)
USERS = {user.name: user for user in (STUDENT, CLASSMATE)}
NEIGHBOUR_UID = 20003
"""``neighbour``: somebody else with an account on the laptop."""
HOME_SIZE = "4g"
"""Largest size of a home folder. It lies in memory, and takes only what is in it."""


def run_folder() -> Path:
    """Where the cluster keeps its state; ``CLEW_CLUSTER_DIR`` names another, so that several can stand side by side."""
    return Path(os.environ.get("CLEW_CLUSTER_DIR") or "/var/lib/clew-cluster")
