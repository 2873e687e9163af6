"""Whether the kernel has killed something for want of memory: a killed process cannot say why it ended.

Control groups tell it, those of the second version in ``memory.events``, those of the first in ``memory.oom_control``.
Where they stand is read as cgroups(7) and proc(5) describe it: a job or a container may see a part of them only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_SELF = Path("/proc/self")
_VMSTAT = Path("/proc/vmstat")


def out_of_memory_kills(process: Path = _SELF) -> int:
    """How many processes of the control group of ``process``, a folder of proc, were killed; 0 where it is not told."""
    return max((_count(file, "oom_kill") or 0 for file in _files(process)), default=0)


def memory_shortages(process: Path = _SELF, vmstat: Path = _VMSTAT) -> int:
    """A number that grows when memory is short: kills on the whole machine, and where the kernel does not count those
    of a group (before Linux 4.13), how often that group was at its limit. 0 where nothing is told."""
    refusals = [
        _count(file.with_name("memory.failcnt"), "") or 0
        for file in _files(process)
        if file.name == "memory.oom_control" and _count(file, "oom_kill") is None
    ]
    return (_count(vmstat, "oom_kill") or 0) + max(refusals, default=0)


def _count(file: Path, name: str) -> int | None:
    """The number behind ``name`` in a file of such lines, or with an empty name the one that a line has alone; None
    where it is not told: the same groups may be seen in several places, and not everything is for everybody."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
        return next((int(words[-1]) for words in lines if words[:-1] == ([name] if name else [])), None)
    except (OSError, ValueError, IndexError):
        return None


def _files(process: Path) -> Iterator[Path]:
    try:
        groups = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        yield from list(_seen(groups, mounts))
    except (OSError, ValueError, IndexError):
        return


def _seen(groups: list[list[str]], mounts: list[list[str]]) -> Iterator[Path]:
    by_kind = {kind: Path(path) for _, kinds, path in groups for kind in kinds.split(",")}
    for root, folder, kind, options in ((each[3], each[4], each[each.index("-") + 1], each[-1]) for each in mounts):
        name = {"cgroup2": "memory.events", "cgroup": "memory.oom_control"}.get(kind)
        controller = "memory" if kind == "cgroup" else ""
        if name is None or (controller and controller not in options.split(",")) or controller not in by_kind:
            continue
        group = by_kind[controller]
        yield Path(folder, group.relative_to(root) if group.is_relative_to(root) else group.relative_to("/"), name)
