"""The job script: the scheduler's lines, the site's modules and prologue, and the agent's keeper.

The keeper itself is a file of shell beside this one, the same for every scheduler and every job.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files

from clew_gui.remote.allocation import seconds_asked
from clew_gui.remote.schedulers.job import LOG, JobSpec

GRACE_S = 20
"""So long the agent's processes may take to end by themselves: less than Slurm's usual 30 s between TERM and KILL."""
HEALTHY_S = 60
"""An agent that lived so long has not crashed at its start."""


def render(job: JobSpec, header: Sequence[str]) -> str:
    """The whole script, with the scheduler's lines ``header`` at its top. ``job`` must have been checked."""
    top = ["#!/bin/bash -l", *header, f"# Clew {job.job}: written by Clew, started by the scheduler."]
    parts = ["\n".join(top), _constants(job), keeper().rstrip(), _start_agent(job), _body(job)]
    return "\n\n".join(parts) + "\n"


def keeper() -> str:
    """The keeper's functions, as text."""
    return files("clew_gui.remote.schedulers").joinpath("keeper.sh").read_text(encoding="utf-8")


def _constants(job: JobSpec) -> str:
    return "\n".join(
        [
            "set -u",
            f"clew_job={shlex.quote(job.job)}",
            f"clew_folder={shlex.quote(job.folder)}",
            f"clew_grace={GRACE_S} clew_healthy={HEALTHY_S}",
            "clew_agent='' clew_timer='' clew_pause='' clew_code='' clew_starts=0 clew_own='' clew_left=0",
        ]
    )


def _start_agent(job: JobSpec) -> str:
    words = [f"    export {name}={shlex.quote(value)}" for name, value in sorted(job.environment.items())]
    command = shlex.join([*job.launch, *job.agent])
    marks = '    export CLEW_JOB="$clew_job" CLEW_JOB_FOLDER="$clew_folder" CLEW_JOB_UNTIL="$clew_until"'
    count = '    export CLEW_JOB_RESTART="$clew_restart"'
    return "\n".join(["clew_start_agent() {", *words, marks, count, f"    exec {command} </dev/null", "}"])


def _body(job: JobSpec) -> str:
    log = f'if : >>"$clew_folder/{LOG}"; then exec >>"$clew_folder/{LOG}" 2>&1; fi'
    lines = [log, f"clew_begin {seconds_asked(job.allocation)}"]
    if job.modules or job.prologue.strip():
        lines.append("set +u  # modules and prologues are written by others")
        lines += ["clew_find_modules"] if job.modules else []
        lines += [f"clew_load {shlex.quote(name)}" for name in job.modules]
        lines += (
            ["# --- the site's prologue ---", job.prologue.strip("\n"), "# --- end of the prologue ---"]
            if (job.prologue.strip())
            else []
        )
        lines.append("set +e; set -u")
    return "\n".join([*lines, "clew_serve_until_end"])
