"""The plan: two profiles, each with its hosts and addresses, users and passwords, folders and habits. Nothing here is
secret or can be reached from outside the namespaces."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[3]
SOURCES = Path(__file__).resolve().parents[1]

PREFIX_BITS = 24


class Role(enum.Enum):
    """What a host sees: shared storage, the cluster's files, or this computer's."""

    STORAGE = "storage"
    MACHINE = "machine"
    LAPTOP = "laptop"


class Host(NamedTuple):
    """A host: its addresses by network (``wan`` joins laptop and login node, ``lan`` the cluster), its services, and
    its other names."""

    name: str
    role: Role
    addresses: dict[str, str]
    services: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


SWITCH = Host("switch", Role.STORAGE, {})
"""Holds the bridges of both networks and the shared file system."""
LAPTOP = "laptop"
"""The name of the student's own computer."""
NETWORKS = ("wan", "lan")


class Group(NamedTuple):
    """The first group of one or more users."""

    name: str
    gid: int


class User(NamedTuple):
    """An account, with the hash of its password and the one-time secret for an authenticator app."""

    name: str
    uid: int
    group: Group
    password: str
    password_hash: str
    otp_secret: str
    """Base32, as in ``otpauth://`` links."""
    shell: str = "/bin/bash"


class Module(NamedTuple):
    """An environment module: its files below the site's software (``{python}`` is Python's version), and what it shows
    of this project's packages: those ``offered`` and all that they require, as links in the folder ``library``."""

    files: tuple[str, ...]
    text: str
    library: str = ""
    offered: tuple[str, ...] = ()


class Profile(NamedTuple):
    """A cluster and its habits."""

    name: str
    text: str
    folder: Path
    """Its own files: ``site`` is its software, ``sites`` are the sites that Clew on the laptop has from the start, and
    files in ``templates`` override the templates that all profiles share."""
    hosts: dict[str, Host]
    login: str
    controller: str
    nodes: tuple[str, ...]
    ports: dict[str, int]
    """Of sshd on the login node: ``ssh``, and ``otp`` with one-time codes."""
    known_hosts: bool
    """Whether the laptop knows the login node's key from the start."""
    users: dict[str, User]
    """The first one is the default."""
    homes: str
    home_mode: str
    software: str
    """Where the hosts see the site's software; the data are beside it. Every Linux must have the parent folder."""
    modules: tuple[Module, ...]
    slurm: str
    """Lines of slurm.conf: the names of cluster and controller, the nodes, the partitions."""

    @property
    def user(self) -> User:
        """The default user."""
        return next(iter(self.users.values()))


def _hosts(wan: str, lan: str, login: tuple[str, ...], controller: str, *nodes: tuple[str, ...]) -> dict[str, Host]:
    """All hosts, from the prefixes of both networks' addresses and from names; names after the first are aliases."""
    services = ("munged", "sshd-node", "slurmd")
    hosts = (
        SWITCH,
        Host(LAPTOP, Role.LAPTOP, {"wan": f"{wan}.2"}),
        Host(login[0], Role.MACHINE, {"wan": f"{wan}.1", "lan": f"{lan}.1"}, ("munged", "sshd", "sshd-otp"), login[1:]),
        Host(controller, Role.MACHINE, {"lan": f"{lan}.2"}, ("munged", "slurmctld")),
        *(
            Host(names[0], Role.MACHINE, {"lan": f"{lan}.{number}"}, services, names[1:])
            for number, names in enumerate(nodes, start=11)
        ),
    )
    return {host.name: host for host in hosts}


def _users(*users: User) -> dict[str, User]:
    return {user.name: user for user in users}


NEIGHBOUR_UID = 20003
"""``neighbour``: somebody else with an account on the laptop."""
HOME_SIZE = "4g"
"""Largest size of a home folder. It is in memory, and takes only as much as is in it."""

# --- A cluster like the courses' ------------------------------------------------------------------------------------

STUDENT = User(
    "student",
    20001,
    Group("student", 20001),
    "learning-rate-0.1",
    "$6$minicluster$gJjXr93QD3Lj3S5NDfrY7mxEutE.sXDGPo2fD9ZCbrwz5br7VD6Pt6ZownEcv6pNU2M7IvpqgzlVWgKHfJBQI.",
    "KNRWQZLEMFWGKY3POJXGKZLU",
)
CLASSMATE = User(
    "classmate",
    20002,
    Group("classmate", 20002),
    "momentum-0.9",
    "$6$minicluster$ilCZ3CLoBw8SK6W3pbVxio2TTfk6hzbVufj6JN7vRlGGMHaATpwegXIAZsvu9/j5yijpfQ45tdcN1mFCIKUjv0",
    "MJQXIY3IONUXUZJRGI4DQMBR",
)
TEACHER = User(
    "teacher",
    20004,
    Group("teacher", 20004),
    "early-stopping-7",
    "$6$minicluster$6YDjY59v6jx.WHVTQmbQB9WXXkDlbbFNr3nzwanBmzCNmC9mzBwhdUb5k0j9c/t8SQrnUWX17K0Hxrcfi2OcK0",
    "KRSWCY3IMVZUIZLFOBWHSMJV",
)
_TENSORFLOW = ("tensorflow-cpu", "tensorflow", "keras")

COURSES = Profile(
    name="courses",
    text="like the courses' clusters",
    folder=SOURCES,
    hosts=_hosts(
        "10.77.0", "10.77.1", ("login",), "ctl", ("node1", "nid00001"), ("node2", "nid00002"), ("node3", "nid00003")
    ),  # Blue Waters calls a node nid00001
    login="login",
    controller="ctl",
    nodes=("node1", "node2", "node3"),
    ports={"ssh": 22, "otp": 2222},
    known_hosts=True,
    users=_users(STUDENT, CLASSMATE, TEACHER),
    homes="/home",
    home_mode="700",
    software="/opt/site",
    modules=(
        Module(("modulefiles/python/{python}",), "Python"),
        Module(
            ("modulefiles/tensorflow/{python}", "modulefiles/python_ML/{python}"),
            "Python with TensorFlow, Keras and scikit-learn",
            "tensorflow",
            (*_TENSORFLOW, "scikit-learn"),
        ),
        Module(
            ("modulefiles/jupyter/{python}",),
            "jupyter-server and ipykernel",
            "jupyter",
            ("jupyter-server", "ipykernel"),
        ),
    ),
    # Each node claims 16 cores, 64 GB and 4 GPUs, so that the courses' job scripts run unchanged.
    slurm="""\
ClusterName=mini
SlurmctldHost=ctl
NodeName=node[1-3] CPUs=16 RealMemory=64000 Gres=gpu:fake:4 Feature=k80,xk State=UNKNOWN
PartitionName=debug    Nodes=node[1-3] Default=YES MaxTime=01:00:00 DefaultTime=00:10:00 State=UP
PartitionName=short    Nodes=node[1-2] MaxTime=00:02:00 DefaultTime=00:01:00 PriorityTier=10 State=UP
PartitionName=gpu      Nodes=node3     MaxTime=01:00:00 DefaultTime=00:10:00 State=UP
PartitionName=training Nodes=node[1-3] MaxTime=01:00:00 DefaultTime=00:10:00 State=UP
""",
)

# --- A university's cluster, with other habits ----------------------------------------------------------------------

_STUDENTS = Group("students", 5000)
UNI = Profile(
    name="uni",
    text="a university's cluster, with other habits",
    folder=SOURCES / "uni",
    hosts=_hosts(
        "10.88.0",
        "10.88.1",
        ("hpc-login", "hpc.uni.example"),
        "hpc-admin",
        ("hpc-cn01",),
        ("hpc-cn02",),
        ("hpc-gpu01",),
    ),
    login="hpc-login",
    controller="hpc-admin",
    nodes=("hpc-cn01", "hpc-cn02", "hpc-gpu01"),
    ports={"ssh": 2200, "otp": 2022},
    known_hosts=False,
    users=_users(
        User(
            "anna.weber",
            31001,
            _STUDENTS,
            "backprop-1986",
            "$6$minicluster$C5k3VQeYqkZe1esToUQYZ3BZigloL.dAzP6vW9D9J7kpJET4tGsxPcUMrVmGbC2v1/cLJyByKBO5T/ZEPBaBb/",
            "MVQXE3DZFVZXI33QOBUW4ZZB",
            "/bin/tcsh",
        ),
        User(
            "ben.okafor",
            31002,
            _STUDENTS,
            "dropout-0.5",
            "$6$minicluster$qXQ7PxltEoE5CidK6zjCIvrNiMpfScntGJaJyNIbKkLJ5QUt6zwhbjoO8fegKb9Z1auOLrRv/TcjkxXFAyoAi/",
            "OZQW42LTNBUW4ZZNM5ZGCZDT",
        ),
    ),
    homes="/srv/users",
    home_mode="755",
    software="/mnt/sw",
    modules=(
        Module(("modules/Core/Python/{python}",), "Python"),
        Module(("modules/foss-2025a/TensorFlow/2-foss-2025a",), "TensorFlow and Keras", "tensorflow", _TENSORFLOW),
    ),
    slurm="""\
ClusterName=campus
SlurmctldHost=hpc-admin
PrivateData=jobs
NodeName=hpc-cn[01-02] CPUs=8 RealMemory=32000 State=UNKNOWN
NodeName=hpc-gpu01     CPUs=8 RealMemory=32000 Gres=gpu:a100:2 State=UNKNOWN
PartitionName=batch   Nodes=hpc-cn[01-02] Default=YES MaxTime=00:20:00 DefaultTime=00:05:00 State=UP
PartitionName=express Nodes=hpc-cn[01-02] MaxTime=00:02:00 DefaultTime=00:01:00 State=UP
PartitionName=accel   Nodes=hpc-gpu01     MaxTime=00:20:00 DefaultTime=00:05:00 State=UP
""",
)

PROFILES = {profile.name: profile for profile in (COURSES, UNI)}


def run_folder() -> Path:
    """The folder with the cluster's state; set ``CLEW_CLUSTER_DIR`` to another one to run several side by side."""
    return Path(os.environ.get("CLEW_CLUSTER_DIR") or "/var/lib/clew-cluster")
