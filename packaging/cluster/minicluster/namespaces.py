"""Processes in namespaces: the first process of a host, commands on a host, what runs on a host."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from minicluster.problem import ClusterError
from minicluster.state import start_of

_MOUNT, _UTS, _IPC, _PID, _NET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
"""CLONE_NEWNS and the others, from linux/sched.h. Python has os.unshare only since 3.12."""
_KINDS = {"mounts": _MOUNT, "host names": _UTS, "IPC": _IPC, "processes": _PID, "networks": _NET}
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
"""The whole environment of the cluster's own processes; they see nothing of the caller's."""
_COMMAND_LIMIT_S = 60.0
"""For a command that configures a host; on a busy computer munge or sshd may take seconds to start."""
_END_LIMIT_S = 10.0
"""From the signal to the end. A host's first process ends after all its others; slurmctld writes its state first."""
_STOP_LIMIT_S, _STOP_ATTEMPTS = 3.0, 5
"""For a long write to the disk. A parent that waits in vfork for a stopped child cannot stop: so all processes
continue, and we try again."""


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


_TRIALS = {
    "mounts in a namespace": ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"],  # noqa: S108  # nothing is put there
    "a /proc of a namespace": ["unshare", "--pid", "--fork", "--mount-proc", "true"],
    "network bridges (module bridge)": ["unshare", "--net", "ip", "link", "add", "trial", "type", "bridge"],
    "virtual cables (module veth)": ["unshare", "--net", "ip", "link", "add", "trial", "type", "veth"],
}
"""What must work in namespaces, tried in namespaces that end with the command."""


def missing_features() -> list[str]:
    """What the kernel, or the container around this process, lacks or forbids."""
    lacks = [f"a namespace for {name}" for name, flag in _KINDS.items() if not _child_succeeds(flag)]
    return lacks or [name for name, command in _TRIALS.items() if not _works(command)]


def _works(command: list[str]) -> bool:
    """Whether a command succeeds; one whose program is not installed counts as a success."""
    if shutil.which(command[0]) is None or (command[2] == "ip" and shutil.which("ip") is None):
        return True
    return subprocess.run(command, env=_ENVIRONMENT, capture_output=True, check=False).returncode == 0


def _child_succeeds(flag: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            _call("unshare", flag)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def boot(command: list[str], log: Path, mounts_of: int | None) -> int:
    """Start a host's first process in its own namespaces; returns its id once it has written "ready" to descriptor 3.

    ``mounts_of``: the process whose mounts the host starts with; None for this computer's.

    Raises:
        ClusterError: a namespace cannot be made, or the command ends before it is ready.
    """
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(reader)
        _become_host(command, log, mounts_of, writer)
    os.close(writer)
    os.waitpid(middle, 0)
    with os.fdopen(reader) as answers:
        lines = answers.read().split("\n")
    if "ready" not in lines:
        raise ClusterError(f"a host did not start: {' '.join(lines).strip()} {log.read_text()[-800:]}".strip())
    return int(lines[0])


def _become_host(command: list[str], log: Path, mounts_of: int | None, writer: int) -> NoReturn:
    """In the forked child: a session, namespaces, and a grandchild that becomes the command. Never returns."""
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if mounts_of is not None:
            mounts = os.open(f"/proc/{mounts_of}/ns/mnt", os.O_RDONLY)
            _call("setns", mounts, _MOUNT)
        _call("unshare", _MOUNT | _UTS | _IPC | _PID | _NET)
        first = os.fork()  # the first process of the new PID namespace
        if first != 0:
            os.write(writer, f"{first}\n".encode())
            os._exit(0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(writer, 3)
        os.set_inheritable(3, True)
        os.closerange(4, 256)
        os.execve("/bin/bash", ["bash", *command], _ENVIRONMENT)  # noqa: S606  # the command takes the place of this program
    except OSError as error:
        os.write(writer, f"{error}\n".encode())
    os._exit(1)


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """The calling thread uses a host's network inside the block; threads that it starts there keep using it. Sockets
    stay in the network in which they were made. Names are still this computer's: use addresses."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        _call("setns", other, _NET)
        yield
    finally:
        _call("setns", own, _NET)
        os.close(own)
        os.close(other)


def run(prefix: list[str], *command: str, text: str | None = None) -> str:
    """Run a command and return what it printed.

    Raises:
        ClusterError: it failed; the text has what it printed.
    """
    try:
        done = subprocess.run(
            [*prefix, *command],
            env=_ENVIRONMENT,
            input=text,
            capture_output=True,
            text=True,
            timeout=_COMMAND_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"'{' '.join(command)}' did not end within {_COMMAND_LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise ClusterError(f"'{' '.join(command)}' failed: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


def root_of(pid: int) -> Path:
    """A host's file system, as this computer sees it."""
    return Path(f"/proc/{pid}/root")


def processes_of(pid: int) -> list[int]:
    """Ids of all processes on a host, the first one included."""
    wanted = Path(f"/proc/{pid}/ns/pid").readlink()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "ns/pid").readlink() == wanted:
                found.append(int(entry.name))
        except OSError:  # it has ended
            continue
    return found


def name_of(pid: int) -> str:
    """The name of a process's program, cut to 15 characters by the kernel; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def end(pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
    """End processes and wait until they are gone (a zombie counts as gone: its parent may reap it late)."""
    starts = {pid: start_of(pid) for pid in pids}
    signal_all(pids, number)
    deadline = time.monotonic() + _END_LIMIT_S
    while left := [pid for pid, start in starts.items() if start and start_of(pid) == start]:
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {left} did not end within {_END_LIMIT_S:.0f} s of {number.name}")
        time.sleep(0.005)


def freeze(host: int) -> None:
    """Stop all processes of a host but its first, and wait until every thread has stopped: the kernel lets a thread
    finish writing to a file first.

    Raises:
        ClusterError: one does not stop in time. Then all continue.
    """
    for _ in range(_STOP_ATTEMPTS):
        deadline = time.monotonic() + _STOP_LIMIT_S
        while left := [pid for pid in processes_of(host) if pid != host and _goes_on(pid)]:
            if time.monotonic() > deadline:
                break
            signal_all(left, signal.SIGSTOP)
            time.sleep(0.005)
        else:
            return
        thaw(host)
    raise ClusterError(f"processes {left} did not stop within {_STOP_LIMIT_S:.0f} s", "They run again. Try once more.")


def thaw(host: int) -> None:
    """Let all processes of a host continue."""
    signal_all([pid for pid in processes_of(host) if pid != host], signal.SIGCONT)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to the processes that are still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _goes_on(pid: int) -> bool:
    """Whether one of its threads has neither stopped nor ended; a sleeping thread counts as running."""
    try:
        states = [task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread has ended: look again
        return start_of(pid) is not None
    return any(state not in "TtZX" for state in states)
