"""A job before it is sent: what is asked for, checked, and the script that is written from it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import msgspec

from clew_gui.base.checked_text import is_module
from clew_gui.schedulers.allocation import AllocationRequest, check_allocation, seconds_asked
from clew_shared.base.file_names import is_uuid
from clew_shared.base.problem import Problem, raise_all

DIRECTIVE_VALUE = r"[A-Za-z0-9_.,:=@%+/&|*\[\]-]{1,200}"
"""A value in a directive: it cannot end the line, and the shell sees nothing in it."""


class Directives(NamedTuple):
    """Further lines that a scheduler takes in its script: the ``form`` of one, with its ``name``, and an ``example``.

    ``ours`` are the names that Clew writes itself, or that would change which script runs, as whom or where its output
    goes, with blanks between them.
    """

    form: re.Pattern[str]
    example: str
    ours: str


def check_directive(line: str, directives: Directives | None) -> list[Problem]:
    """The problem with one line for the scheduler, if there is one. None: there is no scheduler."""
    if directives is None:
        text = f"There is no scheduler here that would read {line[:60]!r}."
        return [Problem("site.directive", text, "Remove the line.", "extra")]
    match = directives.form.fullmatch(line)
    if match is None:
        text = f"{line[:60]!r} is not a directive that Clew can pass on."
        return [Problem("site.directive", text, f"Write it like {directives.example}, one for each entry.", "extra")]
    # Schedulers take abbreviations: --outp is --output.
    if any(own.startswith(match["name"]) for own in directives.ours.split()):
        hint = "Use the field of that name, where there is one."
        return [Problem("site.directive", f"{line[:60]!r} is something that Clew decides itself.", hint, "extra")]
    return []


# --- Script -----------------------------------------------------------------------------------------------------------
# The job script: the scheduler's lines, the site's modules and prologue, and the agent's keeper.
#
# The keeper itself is a file of shell beside this one, the same for every scheduler and every job.


GRACE_S = 20
"""The seconds that the agent's processes may take to end by themselves: less than Slurm's usual 30 s between TERM and
KILL."""
HEALTHY_S = 60
"""The seconds after which an agent has not crashed at its start."""


def render(job: JobSpec, header: Sequence[str]) -> str:
    """The whole script, with the scheduler's lines ``header`` at its top. ``job`` must have been checked."""
    top = ["#!/bin/bash -l", *header, f"# Clew {job.job}: written by Clew, started by the scheduler."]
    parts = ["\n".join(top), _constants(job), keeper().rstrip(), _start_agent(job), _body(job)]
    return "\n\n".join(parts) + "\n"


def render_plain(job: JobSpec, header: Sequence[str], enter_folder: str) -> str:
    """A script that loads the site's modules and runs the command where it was submitted, without the keeper. ``job``
    must have been checked."""
    modules = [f"module load {' '.join(map(shlex.quote, job.modules))}"] if job.modules else []
    prologue = [job.prologue.strip("\n")] if job.prologue.strip() else []
    parts = [
        "\n".join(["#!/bin/bash -l", *header]),
        "\n".join([*modules, *prologue]),
        "\n".join(filter(None, [enter_folder, shlex.join([*job.launch, *job.agent])])),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def keeper() -> str:
    """The keeper's functions, as text."""
    return files("clew_gui.schedulers").joinpath("keeper.sh").read_text(encoding="utf-8")


def _constants(job: JobSpec) -> str:
    return "\n".join(
        [
            "set -u",
            f"clew_job={shlex.quote(job.job)}",
            f"clew_folder={shlex.quote(job.folder)}",
            f"clew_grace={GRACE_S} clew_healthy={HEALTHY_S}",
            f"clew_unexport() {{\n{UNEXPORT}\n}}",
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


# --- Job --------------------------------------------------------------------------------------------------------------
# A job before it is sent: what the script is written from, checked so that nothing in it can break out of its line.


SCRIPT = "job.sh"
"""The script's name in the job's folder on the site."""
LOG = "job.log"
"""The file with the output of the keeper and the agent."""
SCHEDULER_LOG = "scheduler.log"
"""The file with the scheduler's own output about the job."""
UNEXPORT = """IFS='
' && set -f
for clew_name in $(export -p); do
    clew_name=${clew_name#export } && clew_name=${clew_name#declare -x } && clew_name=${clew_name%%=*}
    case $clew_name in
        *[!A-Za-z0-9_]*) ;; # a line of a longer value: a shell ends if it is to unset what is no name
        SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_HOME | SLURM_ROOT | SLURM_SACK_*) ;;
        PBS_CONF_FILE | PBS_EXEC | PBS_HOME) ;;
        SACCT_* | SACCTMGR_* | SALLOC_* | SATTACH_* | SBATCH_* | SBCAST_* | SCANCEL_* | SCONTROL_* | SCRONTAB_* | \\
        SDIAG_* | SINFO_* | SLURM_* | SLURMD_* | SPRIO_* | SQUEUE_* | SREPORT_* | SRUN_* | SSHARE_* | SSTAT_* | \\
        STRIGGER_* | PBS*) unset "$clew_name" ;;
    esac
done
unset IFS && set +f"""
"""Shell that takes variables out of the environment that change what the programs of Slurm and PBS do or say (their
manual pages), but for those that say where the cluster is and how to prove who one is (decision 256)."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_GRES = re.compile(r"[A-Za-z0-9_]{1,40}(:[A-Za-z0-9_.-]{1,40})?")
_SECRET = re.compile(r"PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|CREDENTIAL", re.IGNORECASE)
MAX_PROLOGUE = 20_000


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One job. ``job`` is a UUID made by the program that submits; ``folder`` is an absolute path on the site, the
    job's own.

    ``agent`` is the command line that serves, such as ``(".../python", "-m", "clew_agent", "serve")``, and ``launch``
    what must come before it to reach a compute node (``aprun -n 1``). ``gres`` is what the site's scheduler calls
    GPUs: Slurm's ``gpu`` or ``gpu:tesla``, PBS' ``gpus``. ``select`` chooses the request form of OpenPBS. ``requeue``
    allows the scheduler to start the job a second time. ``extra`` are further directives in the scheduler's own words.
    ``environment`` is for the agent, and holds no secret: others may read a job's environment.
    """

    job: str
    folder: str
    agent: tuple[str, ...]
    allocation: AllocationRequest = AllocationRequest()
    launch: tuple[str, ...] = ()
    gres: str = ""
    select: bool = False
    requeue: bool = False
    extra: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    prologue: str = ""
    environment: Mapping[str, str] = {}


class JobRef(msgspec.Struct, frozen=True):
    """A job that was sent: the scheduler's ``id`` and our own UUID ``job``, which its name carries. The id of a job on
    another cluster than the login node's has that cluster's name behind a semicolon, as Slurm says it."""

    id: str
    job: str

    @property
    def number(self) -> str:
        """The id on its cluster."""
        return self.id.partition(";")[0]

    @property
    def cluster(self) -> str:
        """The name of the other cluster; empty if it is the login node's."""
        return self.id.partition(";")[2]


def long_name(job: str) -> str:
    """The job's name where names may be long; the whole UUID is in it."""
    return f"clew-{job}"


def short_name(job: str) -> str:
    """The job's name where 15 characters are the limit (PBS): 56 of the UUID's 122 random bits."""
    return f"c{job.replace('-', '')[:14]}"


def check_job(job: JobSpec, directives: Directives | None) -> None:
    """Raise ``ProblemError`` with everything that is wrong in ``job`` for a scheduler with these ``directives``."""
    found = check_allocation(job.allocation)
    found += [_wrong("job", "The job's id", job.job)] if not is_uuid(job.job) else []
    found += [_wrong("folder", "The job's folder", job.folder)] if not _is_folder(job.folder) else []
    if not job.agent or not all(_is_argument(word) for word in (*job.agent, *job.launch)):
        found.append(_wrong("agent", "The agent's command", " ".join(job.agent)))
    found += [_wrong("gres", "The GPU resource", job.gres)] if job.gres and not is_gres(job.gres) else []
    found += [_wrong("modules", "The module", name) for name in job.modules if not is_module(name)]
    found += [problem for line in job.extra for problem in check_directive(line, directives)]
    found += check_prologue(job.prologue)
    for name, value in job.environment.items():
        found += _check_variable(name, value)
    raise_all(found)


def is_gres(text: str) -> bool:
    """A generic resource without its number: ``gpu``, ``gpu:tesla``."""
    return _GRES.fullmatch(text) is not None


def check_prologue(text: str) -> list[Problem]:
    """The problem with a site's own lines of shell: control characters could hide what they do."""
    hidden = [char for char in text if not char.isprintable() and char not in "\n\t"]
    if hidden:
        words = f"The prologue contains an invisible character (U+{ord(hidden[0]):04X})."
        return [Problem("site.prologue", words, "Retype that line.", "prologue")]
    if len(text) > MAX_PROLOGUE:
        words = f"The prologue has {len(text):,} characters; {MAX_PROLOGUE:,} are allowed."
        return [Problem("site.prologue", words, "Put it into a file on the site and source that.", "prologue")]
    return []


def _check_variable(name: str, value: str) -> list[Problem]:
    if not _VARIABLE.fullmatch(name) or not _is_argument(value):
        return [_wrong("environment", "The variable", f"{name}={value}")]
    if _SECRET.search(name):
        text = f"The variable {name} looks like a secret; a job's environment can be read by others."
        return [Problem("job.secret", text, where="environment")]
    return []


def _is_folder(text: str) -> bool:
    return text.startswith("/") and text.isprintable() and ".." not in text.split("/") and len(text) <= 1024


def _is_argument(text: str) -> bool:
    """Whether a command line can hold the text: no NUL, and nothing that UTF-8 cannot write."""
    return re.search("[\0\ud800-\udfff]", text) is None


def _wrong(where: str, label: str, value: str) -> Problem:
    return Problem(
        "job.field",
        f"{label} cannot be {value[:60]!r}.",
        "Only characters that are safe in a script are allowed.",
        where,
    )
