"""A site: how to reach a machine, what to ask of its scheduler, and what its jobs need. Plain data, without a secret.

A site is kept in a TOML file that a teacher can hand to a class (``site_file``), and is checked as a whole
(``check``). ``job_of`` makes the scheduler's job from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from clew_gui.base.checked_text import join_address, split_address
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.job import JobSpec
from clew_gui.schedulers.registry import NO_SCHEDULER, SchedulerName

SITE_FORMAT = 1
LOCAL = "local"
"""The name of this computer among the sites."""

Launch = Literal["", "aprun", "srun"]


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, or one route to it. Empty fields mean that nothing special is needed.

    ``host`` is the login node, empty for this computer; an entry of ``~/.ssh/config`` is a host as well. ``port`` 0 is
    that entry's, or 22. ``key`` is the path of a private key on this computer. ``jump`` are hosts on the way, the first
    one first. ``fingerprints`` are those of the host's keys, as the site publishes them: shown beside the question
    whether to trust a host, never trusted by themselves.

    ``gres`` is what the scheduler calls GPUs (Slurm ``gpu`` or ``gpu:tesla``; PBS ``gpus``), ``select`` the request
    form of OpenPBS, ``launch`` the program that reaches the compute node from a script, ``extra`` further directives.
    With ``requeue`` the scheduler may put a job that it has started back into its queue and start it again.
    ``modules`` are loaded and ``prologue`` is run in each job before the agent. ``python`` is the interpreter on the
    nodes, ``venv`` a virtual environment there, ``data`` the course's data folder, ``scratch`` where runs are kept.
    ``ports`` bounds the ports that the agent may choose from, first and last. ``note`` is for anyone who uses the site.
    """

    format: int = SITE_FORMAT
    title: str = ""
    host: str = ""
    user: str = ""
    port: int = 0
    key: str = ""
    jump: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    scheduler: SchedulerName = NO_SCHEDULER
    gres: str = ""
    select: bool = False
    launch: Launch = ""
    requeue: bool = False
    extra: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    prologue: str = ""
    python: str = ""
    venv: str = ""
    data: str = ""
    scratch: str = ""
    ports: tuple[int, ...] = ()
    note: str = ""
    allocation: AllocationRequest = AllocationRequest()


def is_local(site: Site) -> bool:
    """Whether the site is this computer."""
    return not site.host


def title_of(name: str, site: Site | None) -> str:
    """Returns what a person reads in lists and messages: the site's title, else its name."""
    return (site.title.strip() if site is not None else "") or name


def address(site: Site) -> str:
    """Returns the address for people: ``student@login.example.org:2222``, or this computer."""
    if is_local(site):
        return "this computer"
    return join_address(site.user, site.host, site.port)


def with_address(site: Site) -> Site:
    """``user@host:port`` as the host, as a terminal has it, is three fields, unless the others say something else."""
    user, host, port = split_address(site.host) or ("", site.host, 0)
    if (user and site.user not in ("", user)) or (port and site.port not in (0, port)):
        return site
    return msgspec.structs.replace(site, host=host, user=user or site.user, port=port or site.port)


def launcher(site: Site, allocation: AllocationRequest) -> tuple[str, ...]:
    """Returns what comes before the agent's command in the job script: on a Cray the script itself does not run on the
    nodes."""
    cores = str(allocation.cpus) if allocation.cpus else ""
    if site.launch == "aprun":  # -b: the program lies where the node can read it, do not copy it
        return ("aprun", "-q", "-b", "-n", "1", "-N", "1", *(("-d", cores) if cores else ()))
    if site.launch == "srun":
        return ("srun", "--nodes=1", "--ntasks=1", "--overlap", *((f"--cpus-per-task={cores}",) if cores else ()))
    return ()


def job_of(
    site: Site,
    job: str,
    folder: str,
    agent: tuple[str, ...],
    allocation: AllocationRequest | None = None,
    environment: Mapping[str, str] = {},
) -> JobSpec:
    """The job with the UUID ``job`` that serves on this site, with the site's own allocation or another one."""
    asked = allocation if allocation is not None else site.allocation
    return JobSpec(
        job=job,
        folder=folder,
        agent=agent,
        allocation=asked,
        launch=launcher(site, asked),
        gres=site.gres,
        select=site.select,
        requeue=site.requeue,
        extra=site.extra,
        modules=site.modules,
        prologue=site.prologue,
        environment=environment,
    )
