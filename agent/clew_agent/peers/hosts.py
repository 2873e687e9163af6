"""Chooses the nodes of the job around a run on which its peers run, and makes the commands that start them there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_shared.base import operating_system
from clew_shared.base.problem import os_refused, problem

_ASK_WITHIN_S = 30.0
"""Seconds that the program that lists the nodes gets: a busy Slurm controller answers late; ``scontrol show hostnames``
itself asks nobody."""
_HANDED_ON = ("CLEW_", "CUDA_", "GRPC_", "KERAS_", "LANG", "LC_", "LD_LIBRARY_PATH", "OMP_", "PATH", "PYTHON", "TF_")
"""Beginnings of the environment variables that PBS and aprun may not bring to another node."""


class JobHosts(msgspec.Struct, frozen=True):
    """The job's nodes in the scheduler's own order and words; ``names`` is empty outside of a job.

    ``starter`` is the program that starts a process on another of them: srun, pbsdsh or aprun. ``slots`` are the
    numbers by which pbsdsh knows them, ``here`` is this node, ``cores`` how many a process of a Slurm step may use.
    """

    names: tuple[str, ...] = ()
    here: str = ""
    starter: str = ""
    slots: tuple[int, ...] = ()
    cores: str = ""

    def command(self, host: str, words: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the command that starts ``words`` on ``host``."""
        if self.starter == "srun":
            cores = (f"--cpus-per-task={self.cores}",) if self.cores else ()
            step = ("srun", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={host}", *cores)
            return (*step, "--quiet", "--input=none", "--unbuffered", *words)
        handed = [f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(_HANDED_ON)]
        if self.starter == "pbsdsh":
            slot = self.slots[self.names.index(host)]
            return ("pbsdsh", "-n", str(slot), "--", "/usr/bin/env", *handed, *words)
        return ("aprun", "-q", "-b", "-n", "1", "-N", "1", "-L", host, "/usr/bin/env", *handed, *words)


def read_hosts(environment: Mapping[str, str] = os.environ) -> JobHosts:
    """The nodes of the job in ``environment``. Raises ``ProblemError`` when the scheduler does not name them."""
    nodes = environment.get("SLURM_JOB_NODELIST", "")
    if nodes:
        here = environment.get("SLURMD_NODENAME", "") or operating_system.host_name()
        cores = environment.get("SLURM_CPUS_PER_TASK", "") or _fewest_cores(environment)
        return JobHosts(_slurm_names(nodes), here, "srun", cores=cores)
    file = environment.get("PBS_NODEFILE", "")
    if not file:
        return JobHosts()
    lines = _lines(Path(file))
    names = tuple(dict.fromkeys(lines))
    starter = next((name for name in ("pbsdsh", "aprun") if shutil.which(name, path=environment.get("PATH"))), "")
    if len(names) > 1 and not starter:
        text = "The job has several nodes, and neither pbsdsh nor aprun is on the PATH to start processes there."
        raise problem("peers.starter", text, "Load the scheduler's module in the site's prologue.", "PATH")
    return JobHosts(names, operating_system.host_name(), starter, tuple(lines.index(name) for name in names))


def place(count: int, hosts: JobHosts) -> tuple[str, ...]:
    """The node of each of ``count`` workers, the chief's first; empty: the chief's own node.

    Workers take the nodes in turn, so that each node has one when there are as many.
    """
    others = [name for name in hosts.names if not same_host(name, hosts.here)]
    turn = ["", *others]
    return tuple(turn[number % len(turn)] for number in range(count))


def same_host(one: str, other: str) -> bool:
    """Whether two names mean the same node; one may have its domain."""
    short = (one.partition(".")[0], other.partition(".")[0])
    return one == other or (short[0] == short[1] and not ("." in one and "." in other))


def _slurm_names(nodes: str) -> tuple[str, ...]:
    if "[" not in nodes and "," not in nodes:
        return (nodes,)
    said = "no answer"
    with suppress(OSError, subprocess.TimeoutExpired):
        asked = ["scontrol", "show", "hostnames", nodes]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=_ASK_WITHIN_S, check=False)
        names = tuple(answer.stdout.split())
        if answer.returncode == 0 and names:
            return names
        said = answer.stderr.strip() or f"exit code {answer.returncode}"
    text = f"`scontrol show hostnames {nodes}` does not say which nodes the job has: {said[:200]}."
    raise problem("peers.hosts", text, "Start the run with one node, or ask the site's support.", "SLURM_JOB_NODELIST")


def _fewest_cores(environment: Mapping[str, str]) -> str:
    """Returns the cores that every node of the job has: Slurm may give them different numbers, as in ``4,2(x3)``."""
    listed = environment.get("SLURM_JOB_CPUS_PER_NODE", "")
    counts = [int(one) for one in re.findall(r"(?:^|,)(\d+)", listed)]
    return str(min(counts)) if counts else environment.get("SLURM_CPUS_ON_NODE", "")


def _lines(path: Path) -> list[str]:
    text = f"The list of the job's nodes, {path}, cannot be read"
    with os_refused("peers.hosts", text, "Start the run with one node.", "PBS_NODEFILE"):
        return path.read_text(encoding="utf-8", errors="replace").split()
