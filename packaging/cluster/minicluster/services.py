"""The daemons of a host: start them, stop them, wait until they are ready."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import NamedTuple

from minicluster.namespaces import end, name_of, processes_of, root_of, run
from minicluster.on import entering
from minicluster.problem import ClusterError

_START_LIMIT_S = 30.0
"""From a daemon's start to its process id file; usually milliseconds, on a loaded computer seconds."""
_POLL_S = 0.01


class Service(NamedTuple):
    """A daemon: its command line, the name of its processes, and the file that appears when it can be used."""

    command: tuple[str, ...]
    process: str
    pid_file: str


_AS_MUNGE = ("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups")
_MUNGE_FILES = ("--seed-file=/run/munge/seed", "--log-file=/run/munge/munged.log", "--num-threads=1")

SERVICES = {
    "munged": Service((*_AS_MUNGE, "/usr/sbin/munged", *_MUNGE_FILES), "munged", "run/munge/munged.pid"),
    "sshd": Service(("/usr/sbin/sshd", "-f", "/etc/ssh/sshd_config"), "sshd", "run/sshd.pid"),
    # PAM takes the service's name from the program's, so these are links to sshd.
    "sshd-otp": Service(("/run/sshd-otp", "-f", "/etc/ssh/sshd-otp_config"), "sshd-otp", "run/sshd-otp.pid"),
    "sshd-node": Service(("/run/sshd-node", "-f", "/etc/ssh/sshd-node_config"), "sshd-node", "run/sshd-node.pid"),
    "slurmctld": Service(("/usr/sbin/slurmctld",), "slurmctld", "run/slurmctld.pid"),
    "slurmd": Service(("/usr/sbin/slurmd",), "slurmd", "run/slurmd.pid"),
}


def start(host: int, name: str) -> None:
    """Start a service and wait until it can be used.

    Raises:
        ClusterError: it ends at once, or is not ready in time.
    """
    service = SERVICES[name]
    run(entering(host), *service.command)
    _await_pid_file(host, name)


def _await_pid_file(host: int, name: str) -> None:
    file = root_of(host) / SERVICES[name].pid_file
    deadline = time.monotonic() + _START_LIMIT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{name} was not ready within {_START_LIMIT_S:.0f} s", "`cluster log HOST` shows its log."
            )
        time.sleep(_POLL_S)


def processes(host: int, name: str) -> list[int]:
    """All processes of a service; for sshd that includes its sessions."""
    return [pid for pid in processes_of(host) if name_of(pid) == SERVICES[name].process]


def stop(host: int, name: str, number: signal.Signals = signal.SIGKILL) -> None:
    """End all processes of a service; SIGKILL is like a crash, SIGTERM lets it save its state."""
    end(processes(host, name), number)
    (root_of(host) / SERVICES[name].pid_file).unlink(missing_ok=True)


def reload(host: int, name: str) -> None:
    """Let sshd read its configuration again; it writes its process id again once it listens."""
    file = root_of(host) / SERVICES[name].pid_file
    number = file.read_text().strip()
    file.unlink()
    run(entering(host), "kill", "-HUP", number)
    _await_pid_file(host, name)


def log_files(host: int) -> list[Path]:
    """The logs of a host's daemons that are not empty."""
    root = root_of(host)
    files = [*(root / "var/log").glob("*.log"), root / "run/munge/munged.log"]
    return sorted(file for file in files if file.exists() and file.stat().st_size)
