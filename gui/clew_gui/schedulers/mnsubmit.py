"""MinoTauro's commands over Slurm: mnsubmit, mnq, mncancel, mnsh, with ``# @`` lines in the script.

The machine is gone and its programs are not to be had; the dialect follows the lines that the course shows, and
answers are read by their headings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clew_gui.base.times import read_time
from clew_gui.schedulers.allocation import clock_asked
from clew_gui.schedulers.job import (
    DIRECTIVE_VALUE,
    SCHEDULER_LOG,
    Directives,
    JobRef,
    JobSpec,
    check_job,
    short_name,
)
from clew_gui.schedulers.scheduler import Command, Scheduler, Signature, all_silent, by_number, in_folder, is_silent
from clew_gui.schedulers.slurm import Slurm, moment, of_jobs, phase_of, requeue_option
from clew_gui.schedulers.state import JobState, Output, Phase
from clew_shared.base.problem import problem

_COLUMNS = {
    "JOBID": "id",
    "JOB_ID": "id",
    "ID": "id",
    "NAME": "name",
    "JOBNAME": "name",
    "ST": "state",
    "STATE": "state",
    "STATUS": "state",
    "TIMELIMIT": "limit",
    "TIME_LIMIT": "limit",
    "NODELIST(REASON)": "where",
    "NODELIST": "where",
    "REASON": "reason",
    "START_TIME": "start",
}


class MnSubmit(Slurm):
    """The dialect of MinoTauro. For what it has no command of its own Slurm's is asked, if the machine has it."""

    name = "mnsubmit"
    label = "mnsubmit (MinoTauro)"
    directives = Directives(
        re.compile(rf"(?P<name>[a-z][a-z0-9_]{{1,40}}) = {DIRECTIVE_VALUE}"),
        "tasks_per_node = 4",
        """job_name initialdir output error total_tasks cpus_per_task gpus_per_node wall_clock_limit features
        class partition reservation account qos""",
    )
    signature = Signature("mnsubmit")
    preset = None

    @staticmethod
    def name_of(job: str) -> str:
        """See ``Slurm``."""
        return short_name(job)

    def header(self, job: JobSpec, plain: str = "") -> list[str]:
        """Lines that begin with ``# @``, and Slurm's own for what they have no word for."""
        own = [] if plain else [requeue_option(job)]
        header = [f"# @ {line}" for line in [*_lines(job, plain), *job.extra]]
        return header + [f"#SBATCH {option}" for option in _slurm_options(job, own)]

    def submit(self, job: JobSpec) -> Command:
        """``mnsubmit`` in the job's folder."""
        return in_folder(job.folder, "mnsubmit")

    def find(self, job: JobSpec) -> Command:
        """The list of one's own jobs."""
        return ("mnq",)

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the latest job whose name is the job's, also when the list shows only its beginning."""
        if output.failed:
            raise problem("scheduler.silent", "The scheduler does not answer.", "Try again in a minute.")
        name = short_name(job.job)
        ids = [one.id for one in parse_mnq(output.out) if len(one.name) >= 8 and name.startswith(one.name)]
        return max(ids, key=by_number, default="")

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """The list of one's own jobs."""
        return ("mnq",)

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """Reads the jobs' states; jobs that are not in the list are gone."""
        if output.failed or is_silent(output.said):
            return all_silent(jobs, output)
        return {job.id: JobState(id=job.id, phase=Phase.GONE) for job in jobs} | of_jobs(jobs, parse_mnq(output.out))

    def cancel(self, job: JobRef) -> Command:
        """``mncancel``."""
        return ("mncancel", job.number)

    def hold(self, job: JobSpec) -> Command:
        """``mnsh``: ``-k`` for the nodes with K80, ``-g`` for GPUs."""
        check_job(job, self.directives)
        kind = ("-k",) if "k80" in job.allocation.features.lower() else ()
        return ("mnsh", *kind, *(("-g",) if job.allocation.gpus else ()))

    # The course shows no command for these.
    history = Scheduler.history
    relay = Scheduler.relay
    attach = Scheduler.attach
    queue = Scheduler.queue
    limits = Scheduler.limits
    ask_acceptance = Scheduler.ask_acceptance


def _lines(job: JobSpec, plain: str) -> list[str]:
    asked = job.allocation
    log = f"{plain}.log" if plain else SCHEDULER_LOG
    values = {
        "job_name": plain or short_name(job.job),
        "initialdir": ".",
        "output": log,
        "error": log,
        "total_tasks": str(asked.nodes),
        "cpus_per_task": str(asked.cpus) if asked.cpus else "",
        "gpus_per_node": str(asked.gpus) if asked.gpus else "",
        "wall_clock_limit": clock_asked(asked),
        "features": asked.features,
        "class": asked.partition,
    }
    return [f"{name} = {value}" for name, value in values.items() if value]


def _slurm_options(job: JobSpec, own: list[str]) -> list[str]:
    """Returns the options for which the dialect has no word; the course writes its reservation like this as well."""
    asked = job.allocation
    named = {"reservation": asked.reservation, "account": asked.account, "qos": asked.qos}
    options = [f"--{name}={value}" for name, value in named.items() if value]
    return [*options, *own, *(["--ntasks-per-node=1"] if asked.nodes > 1 else [])]


def parse_mnq(text: str) -> list[JobState]:
    """The jobs in a table with headings; lines that do not fit are passed over."""
    columns: list[str] = []
    jobs: list[JobState] = []
    for line in text.splitlines():
        words = line.split()
        names = [_COLUMNS.get(word.upper(), word) for word in words]
        if "id" in names and "state" in names:
            columns = names
        elif columns and len(words) >= len(columns):
            cells = dict(zip(columns, [*words[: len(columns) - 1], " ".join(words[len(columns) - 1 :])], strict=True))
            state = _state(cells)
            jobs += [state] if state is not None else []
    return jobs


def _state(cells: dict[str, str]) -> JobState | None:
    if not re.fullmatch(r"[0-9]{1,12}", cells["id"]):
        return None
    phase = phase_of(cells["state"])
    where = cells.get("where", "")
    bracketed = re.fullmatch(r"\((.*)\)", where)
    return JobState(
        id=cells["id"],
        phase=phase,
        name=cells.get("name", ""),
        reason=cells["state"] if phase is Phase.UNKNOWN else bracketed[1] if bracketed else cells.get("reason", ""),
        nodes="" if bracketed is not None else where,
        start=moment(cells.get("start", "")),
        limit=read_time(cells.get("limit", "")),
    )
