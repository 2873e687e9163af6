"""Who keeps a job within the memory that it asked for.

If this computer has control groups of the first version, Slurm's ``task/cgroup`` lets the kernel do it: it kills
processes that use more, and Slurm says OUT_OF_MEMORY. Elsewhere Slurm itself looks every two seconds and ends the job,
which it then calls FAILED; only the job's output mentions the memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory")
_LINK = "memory"
"""In the run folder: points to the cluster's own group. Each host sees a group below that as the root of all groups."""
_END_LIMIT_S = 10.0
"""Until the kernel has removed processes that have ended."""
_BY_KERNEL = "TaskPlugin=task/cgroup\n"
_BY_SLURM = "TaskPlugin=task/none\nJobAcctGatherParams=OverMemoryKill\n"


def limits(folder: Path) -> str:
    """Lines of slurm.conf. Makes the cluster's group, except with ``CLEW_CLUSTER_GROUPS=no``."""
    return _BY_KERNEL if os.environ.get("CLEW_CLUSTER_GROUPS") != "no" and _make_group(folder) else _BY_SLURM


def who_keeps(folder: Path) -> str:
    """Who enforces the memory limit: ``kernel`` or ``slurm``."""
    return "kernel" if (folder / _LINK).is_symlink() else "slurm"


def _make_group(folder: Path) -> bool:
    try:
        group = Path(tempfile.mkdtemp(prefix="clew-cluster-", dir=_GROUPS))
    except OSError:  # there is no such folder, or it is read-only
        return False
    (folder / _LINK).symlink_to(group)
    if (group / "memory.limit_in_bytes").exists():
        return True
    remove_group(folder)
    return False


def remove_group(folder: Path) -> None:
    """Remove the cluster's group and everything in it, if there is one; every process has ended, or is about to."""
    link = folder / _LINK
    if not link.is_symlink():
        return
    group = link.readlink()
    deadline = time.monotonic() + _END_LIMIT_S
    while group.exists() and time.monotonic() < deadline:
        for path, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):  # its last process is being reaped
                Path(path).rmdir()
        time.sleep(0.005)
    link.unlink()
