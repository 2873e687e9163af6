"""The state of the cluster: one small file in the run folder, and one lock for whatever changes it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minicluster.plan import COURSES, PROFILES, Profile
from minicluster.problem import ClusterError


def start_of(pid: int) -> str | None:
    """When a process started, in clock ticks since the computer started; None if there is no such process, or a zombie.

    Together with the boot id this identifies a process.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class State:
    """The run folder's ``state.json``: profile, the first process of each host, active faults, used one-time codes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "state.json"
        self._content: dict[str, Any] = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._file.read_text())
        except (FileNotFoundError, ValueError):
            content = {}
        if content.get("boot") != _boot():  # left over from before this computer started
            content = {"boot": _boot()}
        return {"profile": COURSES.name, "hosts": {}, "faults": [], "codes": {}, "ready": False} | content

    def save(self) -> None:
        """Write the file as a whole or not at all."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._content, indent=1))
        fresh.replace(self._file)

    @property
    def profile(self) -> Profile:
        """The profile of the cluster that is up or coming up."""
        return PROFILES[self._content["profile"]]

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self._content["profile"] = profile.name
        self.save()

    @property
    def ready(self) -> bool:
        """Whether ``up`` has finished."""
        return bool(self._content["ready"])

    @ready.setter
    def ready(self, value: bool) -> None:
        self._content["ready"] = value
        self.save()

    @property
    def faults(self) -> list[str]:
        """Active faults, each with its target; call ``save`` after a change."""
        faults: list[str] = self._content["faults"]
        return faults

    @property
    def codes(self) -> dict[str, int]:
        """The time step of each user's last one-time code; call ``save`` after a change."""
        codes: dict[str, int] = self._content["codes"]
        return codes

    def remember(self, host: str, pid: int) -> None:
        """Note a host's first process."""
        self._content["hosts"][host] = {"pid": pid, "start": start_of(pid)}
        self.save()

    def forget(self, host: str) -> None:
        """Note that the host is off."""
        self._content["hosts"].pop(host, None)
        self.save()

    def running(self) -> dict[str, int]:
        """Hosts that are on, with the id of their first process in the caller's namespace."""
        hosts = self._content["hosts"].items()
        return {host: it["pid"] for host, it in hosts if it["start"] and start_of(it["pid"]) == it["start"]}

    def pid(self, host: str) -> int:
        """The first process of a host.

        Raises:
            ClusterError: there is no such host, it is off, or nothing is up.
        """
        if host not in self.profile.hosts:
            raise ClusterError(f"there is no host '{host}'", f"The hosts are {', '.join(self.profile.hosts)}.")
        running = self.running()
        if host not in running:
            raise ClusterError(
                f"{host} is switched off" if running else "the mini cluster is not up",
                f"Switch it on: cluster heal node-kill {host}" if running else "Start it: make cluster-up",
            )
        return running[host]


@contextmanager
def locked(folder: Path) -> Iterator[State]:
    """The state, for one process that changes it; others wait. Makes the run folder if it is missing."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if not _is_still(folder, descriptor):  # somebody took the cluster down meanwhile
                continue
            yield State(folder)
            return
        finally:
            os.close(descriptor)


def _is_still(folder: Path, descriptor: int) -> bool:
    try:
        return folder.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
