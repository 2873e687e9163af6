"""Whether the kernel has killed something because memory ran out: a killed process cannot say why it ended.

Control groups show it: version 2 in ``memory.events``, version 1 in ``memory.oom_control``. These files are found as
cgroups(7) and proc(5) describe; a job or a container may see only some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_SELF = Path("/proc/self")
_VMSTAT = Path("/proc/vmstat")


def out_of_memory_kills(process: Path = _SELF) -> int:
    """Returns how many processes of the control group of ``process``, a folder of proc, were killed; 0 if unknown."""
    return max((_count(file, "oom_kill") or 0 for file in _files(process)), default=0)


def memory_shortages(process: Path = _SELF, vmstat: Path = _VMSTAT) -> int:
    """A number that grows when memory is short: kills on the whole machine, and how often the group was at its limit.
    0 if unknown, and always 0 where the kernel counts the group's own kills (since Linux 4.13): ``out_of_memory_kills``
    has those, and kills elsewhere, such as in a job beside this one, do not matter."""
    files = list(_files(process))
    if any(_count(file, "oom_kill") is not None for file in files):
        return 0
    refusals = [_count(file.with_name("memory.failcnt"), "") or 0 for file in files]
    return (_count(vmstat, "oom_kill") or 0) + max(refusals, default=0)


def memory_groups(process: Path = _SELF) -> list[Path]:
    """Returns the folders of the memory control groups of ``process``, as far as they can be seen."""
    return [file.parent for file in _files(process)]


def _count(file: Path, name: str) -> int | None:
    """The number after ``name`` in a file of such lines, or, for an empty name, the line that is only a number. None if
    there is none: the same groups may be seen in several places, and not every file is readable."""
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
