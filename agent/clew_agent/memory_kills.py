"""Whether the kernel has killed something for want of memory: a killed process cannot say why it ended.

Control groups tell it, those of the second version in ``memory.events``, those of the first in ``memory.oom_control``.
Where they stand is read as cgroups(7) and proc(5) describe it: a job or a container may see a part of them only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_SELF = Path("/proc/self")


def out_of_memory_kills(process: Path = _SELF) -> int:
    """How many processes of the control group of ``process``, a folder of proc, were killed; 0 where it is not told."""
    try:
        groups = [line.split(":", 2) for line in (process / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        return max((_kills(file) for file in _files(groups, mounts)), default=0)
    except (OSError, ValueError, IndexError):
        return 0


def _kills(file: Path) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:  # the same groups may be seen in several places, and not everything is for everybody
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _files(groups: list[list[str]], mounts: list[list[str]]) -> Iterator[Path]:
    by_kind = {kind: Path(path) for _, kinds, path in groups for kind in kinds.split(",")}
    for root, folder, kind, options in ((each[3], each[4], each[each.index("-") + 1], each[-1]) for each in mounts):
        name = {"cgroup2": "memory.events", "cgroup": "memory.oom_control"}.get(kind)
        controller = "memory" if kind == "cgroup" else ""
        if name is None or (controller and controller not in options.split(",")) or controller not in by_kind:
            continue
        group = by_kind[controller]
        yield Path(folder, group.relative_to(root) if group.is_relative_to(root) else group.relative_to("/"), name)
