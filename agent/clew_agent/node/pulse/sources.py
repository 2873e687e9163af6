"""What can be read of a run's processes and of their node. PROTOCOL.md (``pulse``) lists the names and units.

A source that cannot read a value leaves it out: unknown is never 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psutil

from clew_agent.node.memory_kills import memory_groups
from clew_shared.base import operating_system

Readings = dict[str, float]
_SCAN_SHARE = 0.002
"""Share of one core that looking for new processes may take: a node may have thousands."""
_PEERS = ("clew-agent peer", "clew_agent peer")
"""Words in the command line of a run's other processes, which are sampled by themselves."""
_POWERCAP = Path("/sys/class/powercap")
_UNLIMITED = 1 << 60
"""Version 1 of the control groups has no word for "no limit", only a huge number."""


class Source(Protocol):
    """Something that is read with every sample."""

    def read(self, now: float) -> Readings:
        """Returns what is known at ``now`` (monotonic seconds). What it raises costs this sample of this source."""


class Rates:
    """Makes rates per second of counters that only grow; the first reading gives none."""

    def __init__(self) -> None:
        self._then = 0.0
        self._counts: Mapping[str, float] = {}

    def of(self, now: float, counts: Mapping[str, float]) -> Readings:
        """The rates since the last call. A counter that has gone back counts from here on."""
        span, before = now - self._then, self._counts
        self._then, self._counts = now, counts
        if span <= 0:
            return {}
        return {
            name: (count - before[name]) / span for name, count in counts.items() if count >= before.get(name, 1e99)
        }


class ProcessTree:
    """A process and what it started, but no peers. ``pid`` returns the process, which may change."""

    def __init__(self, pid: Callable[[], int]) -> None:
        self._pid = pid
        self._root: psutil.Process | None = None
        self._members: dict[int, psutil.Process] = {}
        self._left_out: set[int] = set()
        self._scanned, self._pause = 0.0, 0.0
        self._rates = Rates()

    def read(self, now: float) -> Readings:
        """Processor use, memory, threads and disk. Raises ``psutil.NoSuchProcess`` when the process has ended."""
        self._find_members(now)
        memory, counts = Readings(memory=0.0, threads=0.0), Readings(cpu=0.0)
        for pid, process in list(self._members.items()):
            try:
                with process.oneshot():
                    memory["memory"] += process.memory_info().rss
                    memory["threads"] += process.num_threads()
                    _count(process, counts)
            except psutil.Error:
                if process is self._root:
                    raise
                del self._members[pid]
        rates = self._rates.of(now, counts)
        if "cpu" in rates:  # of a child that is found late all comes at once
            rates["cpu"] = min(rates["cpu"], float(psutil.cpu_count() or 1))
        return memory | rates

    def _find_members(self, now: float) -> None:
        if self._root is None or self._root.pid != self._pid():
            self._root = psutil.Process(self._pid())
            self._members, self._left_out = {self._root.pid: self._root}, set()
            self._pause = 0.0
        if now - self._scanned < self._pause:
            return
        begun = time.thread_time()
        for process in self._root.children(recursive=True):
            if process.pid not in self._members and not self._is_left_out(process):
                self._members[process.pid] = process
        self._scanned, self._pause = now, (time.thread_time() - begun) / _SCAN_SHARE

    def _is_left_out(self, process: psutil.Process) -> bool:
        """Whether it is a peer or was started by one."""
        with suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if process.ppid() in self._left_out or any(peer in words for peer in _PEERS):
                self._left_out.add(process.pid)
        return process.pid in self._left_out


def _count(process: psutil.Process, counts: Readings) -> None:
    """Adds what a process has done. On Linux it takes over what its children did when it waits for their end, so the
    sum over all of them never falls."""
    times = process.cpu_times()
    waited = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    counts["cpu"] += times.user + times.system + waited
    with suppress(psutil.AccessDenied, AttributeError, OSError):  # macOS does not count it
        disk = process.io_counters()
        counts["read"] = counts.get("read", 0.0) + disk.read_bytes
        counts["written"] = counts.get("written", 0.0) + disk.write_bytes


class Node:
    """The whole node: processor, network, and the cores that this run may use."""

    def __init__(self) -> None:
        self._rates = Rates()
        self._cores = float(operating_system.usable_cores())

    def read(self, now: float) -> Readings:
        """Processor time of everything on the node, and bytes over the network."""
        counts = {"node_cpu": _busy(psutil.cpu_times())}
        with suppress(OSError, RuntimeError):
            there = [one for name, one in psutil.net_io_counters(pernic=True).items() if not name.startswith("lo")]
            counts["received"] = float(sum(one.bytes_recv for one in there))
            counts["sent"] = float(sum(one.bytes_sent for one in there))
        return {"cores": self._cores, **self._rates.of(now, counts)}


def _busy(times: Any) -> float:
    """The seconds in which a processor, or all of them, did anything."""
    shared = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice already
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - shared)


class Memory:
    """The memory in use below the tightest limit: of a control group around ``process``, a folder of proc, or of the
    node. Caches that the kernel can drop do not count."""

    def __init__(self, process: Path = Path("/proc/self")) -> None:
        self._groups = list(_levels(process))

    def read(self, now: float) -> Readings:
        """What is in use and the limit, in bytes."""
        there = psutil.virtual_memory()
        found = [(float(there.total), float(there.total - there.available))]
        found += [usage for group in self._groups if (usage := _usage(group)) is not None]
        limit, used = min(found)
        return {"memory_used": used, "memory_limit": limit}


def _levels(process: Path) -> Iterator[Path]:
    """The control groups of a process with their parents, as far as they have limits."""
    for group in memory_groups(process):
        for folder in (group, *group.parents):
            if not (folder / "memory.max").exists() and not (folder / "memory.limit_in_bytes").exists():
                break
            yield folder


def _usage(group: Path) -> tuple[float, float] | None:
    """Limit and use of a control group; None where it has no limit."""
    newer = (group / "memory.max").exists()
    names = ("memory.max", "memory.current") if newer else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    cached = "inactive_file" if newer else "total_inactive_file"
    try:
        limit, used = (int((group / name).read_text()) for name in names)
        lines = [line.split() for line in (group / "memory.stat").read_text().splitlines()]
        cache = next((int(words[1]) for words in lines if words[:1] == [cached]), 0)
    except (OSError, ValueError, IndexError):  # "max": no limit
        return None
    return (float(limit), float(max(0, used - cache))) if limit < _UNLIMITED else None


class Packages:
    """The power of the node's processor packages, from the energy counters (RAPL) that Linux shows to some users."""

    def __init__(self, powercap: Path = _POWERCAP) -> None:
        self._files = [
            one for one in sorted(powercap.glob("intel-rapl:*/energy_uj")) if one.parent.name.count(":") == 1
        ]
        self._then = 0.0
        self._last: list[int] = []

    def read(self, now: float) -> Readings:
        """Watts since the last sample. Raises ``OSError`` where the counters may not be read."""
        counts = [int(file.read_text()) for file in self._files]
        before, span = self._last, now - self._then
        self._last, self._then = counts, now
        if not counts or not before or span <= 0:
            return {}
        pairs = zip(self._files, before, counts, strict=True)
        used = sum(new - old if new >= old else new - old + _range(file) for file, old, new in pairs)
        return {"power": used / 1e6 / span}


def _range(counter: Path) -> int:
    """The energy at which a counter begins again at 0."""
    return int(counter.with_name("max_energy_range_uj").read_text())
