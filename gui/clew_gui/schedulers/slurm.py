"""Slurm: sbatch, squeue, sacct, scancel, salloc. Tried with 22.05; only options are used that 20.02 has as well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from clew_gui.base.times import read_time
from clew_gui.schedulers.allocation import clock_asked
from clew_gui.schedulers.job import SCHEDULER_LOG, JobRef, JobSpec, check_job, long_name, render
from clew_gui.schedulers.reasons import Reason, slurm_reason
from clew_gui.schedulers.refusals import SLURM, submission
from clew_gui.schedulers.scheduler import Command, all_silent, by_number, in_folder
from clew_gui.schedulers.state import ENDED, JobState, Output, PartitionLimits, Phase, Submitted
from clew_shared.base.problem import problem

_FORMAT = "%i|%T|%r|%N|%S|%e|%l|%D|%j"
_UNKNOWN = "Invalid job id specified"
_PHASES = {
    "PENDING": Phase.PENDING,
    "CONFIGURING": Phase.PENDING,
    "RUNNING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "SUSPENDED": Phase.SUSPENDED,
    "STOPPED": Phase.SUSPENDED,
    "COMPLETING": Phase.COMPLETING,
    "STAGE_OUT": Phase.COMPLETING,
    "COMPLETED": Phase.COMPLETED,
    "FAILED": Phase.FAILED,
    "SPECIAL_EXIT": Phase.FAILED,
    "BOOT_FAIL": Phase.NODE_FAILED,
    "NODE_FAIL": Phase.NODE_FAILED,
    "CANCELLED": Phase.CANCELLED,
    "PREEMPTED": Phase.CANCELLED,
    "REVOKED": Phase.CANCELLED,
    "TIMEOUT": Phase.TIMED_OUT,
    "DEADLINE": Phase.TIMED_OUT,
    "OUT_OF_MEMORY": Phase.OUT_OF_MEMORY,
    "REQUEUED": Phase.REQUEUED,
    "REQUEUE_FED": Phase.REQUEUED,
    "REQUEUE_HOLD": Phase.REQUEUED,
}
_SHORT = {
    "PD": "PENDING",
    "CF": "CONFIGURING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "ST": "STOPPED",
    "CG": "COMPLETING",
    "CD": "COMPLETED",
    "F": "FAILED",
    "BF": "BOOT_FAIL",
    "NF": "NODE_FAIL",
    "CA": "CANCELLED",
    "PR": "PREEMPTED",
    "RV": "REVOKED",
    "TO": "TIMEOUT",
    "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "SE": "SPECIAL_EXIT",
}


class Slurm:
    """The dialect of Slurm."""

    name = "slurm"
    label = "Slurm"
    has_queue = True

    def script(self, job: JobSpec) -> str:
        """The job script. Raises ``ProblemError`` for a job that cannot be written safely."""
        check_job(job, self.name)
        own = [f"--output={SCHEDULER_LOG}", "--open-mode=append", requeue_option(job)]
        if not clock_asked(job.allocation):  # the keeper cannot know when its time is up
            own.append("--signal=B:USR1@60")
        return render(job, [f"#SBATCH {option}" for option in [*_options(job), *own, *job.extra]])

    def submit(self, job: JobSpec) -> Command:
        """``sbatch`` in the job's folder."""
        return in_folder(job.folder, "sbatch", "--parsable")

    def submitted(self, output: Output) -> Submitted:
        """The id, with or without ``--parsable``."""
        return submission(output, r"(?:Submitted batch job )?([0-9]{1,12})(?:;\S+| on cluster \S+)?", SLURM)

    def find(self, job: JobSpec) -> Command:
        """By the whole name, also among jobs that have just ended."""
        return ("squeue", "--noheader", "--states=all", f"--name={long_name(job.job)}", f"--format={_FORMAT}")

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the latest job of that name."""
        if output.late or output.code:
            raise problem("scheduler.silent", "The scheduler does not answer.", "Try again in a minute.")
        states = [state for line in output.out.splitlines() if (state := parse_squeue_line(line)) is not None]
        # What was refused is listed as well for a while, as failed and without nodes.
        taken = (state for state in states if state.nodes or state.phase not in ENDED)
        ids = [state.id for state in taken if state.name == long_name(job.job)]
        return max(ids, key=by_number, default="")

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """One ``squeue`` for all; jobs that have ended are shown for some minutes (MinJobAge)."""
        ids = ",".join(job.id for job in jobs)
        return ("squeue", "--noheader", "--states=all", f"--jobs={ids}", f"--format={_FORMAT}")

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """A job that is not among the lines is gone; Slurm says so in words only when one job was asked for."""
        if output.late or (output.code != 0 and _UNKNOWN not in output.said):
            return all_silent(jobs, output)
        wanted = {job.id for job in jobs}
        lines = (parse_squeue_line(line) for line in output.out.splitlines())
        found = {state.id: state for state in lines if state is not None and state.id in wanted}
        return {one: found.get(one) or JobState(id=one, phase=Phase.GONE) for one in wanted}

    def history(self, jobs: Sequence[JobRef]) -> Command | None:
        """``sacct``, which many sites do not have."""
        ids = ",".join(job.id for job in jobs)
        fields = "JobID,State,ExitCode,Start,End,NodeList,TimelimitRaw,JobName"
        return ("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={ids}", f"--format={fields}")

    def ended(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """What the accounts say; nothing where there are none."""
        if output.late or output.code != 0:
            return {}
        wanted = {job.id for job in jobs}
        lines = (parse_sacct_line(line) for line in output.out.splitlines())
        return {state.id: state for state in lines if state is not None and state.id in wanted}

    def cancel(self, job: JobRef) -> Command:
        """TERM to all of the job, and KILL half a minute later."""
        return ("scancel", job.id)

    def hold(self, job: JobSpec) -> Command:
        """An allocation with a shell on its first node."""
        check_job(job, self.name)
        return ("salloc", *_options(job), *job.extra, "srun", "--pty", "bash", "-l")

    def relay(self, job: JobRef, command: Command) -> Command | None:
        """A further step beside those that run; without ``--overlap`` it would wait for free cores for ever.

        Without ``--unbuffered`` bytes are kept back until the end of a line, or until the step ends.
        """
        step = ("srun", f"--jobid={job.id}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--unbuffered")
        return (*step, *command)

    def attach(self, job: JobRef, command: Command) -> Command | None:
        """A further step, as in ``relay``, with a terminal."""
        return ("srun", f"--jobid={job.id}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--pty", *command)

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """Slurm's reason as a sentence."""
        return slurm_reason(state.reason, limits, state.limit)

    def ask_limits(self, partition: str) -> Command | None:
        """One line for each partition."""
        only = (f"--partition={partition}",) if partition else ()
        return ("sinfo", "--noheader", *only, "--format=%l|%s|%D|%P")

    def limits(self, output: Output) -> PartitionLimits:
        """The limits of the partition, of the default one where several are told."""
        rows = [line.strip().split("|") for line in output.out.splitlines() if line.count("|") == 3]
        if output.code or output.late or not rows:
            return PartitionLimits()
        row = next((row for row in rows if row[3].endswith("*")), rows[0])
        sizes = [row[1].rpartition("-")[2], row[2]]  # 1-64 or 1-infinite, and how many nodes there are
        numbers = [int(size) for size in sizes if re.fullmatch(r"[0-9]{1,9}", size)]
        return PartitionLimits(time=read_time(row[0]), nodes=min(numbers, default=None))


def _options(job: JobSpec) -> list[str]:
    """What is asked for, for sbatch and salloc alike."""
    asked = job.allocation
    options = [f"--job-name={long_name(job.job)}", f"--nodes={asked.nodes}", "--ntasks-per-node=1"]
    options += [f"--cpus-per-task={asked.cpus}"] if asked.cpus else []
    options += [f"--gres={job.gres or 'gpu'}:{asked.gpus}"] if asked.gpus else []
    named = {
        "time": clock_asked(asked),
        "partition": asked.partition,
        "account": asked.account,
        "reservation": asked.reservation,
        "qos": asked.qos,
        "constraint": asked.features,
    }
    return options + [f"--{name}={value}" for name, value in named.items() if value]


def requeue_option(job: JobSpec) -> str:
    """Said in any case: what holds for a job that says nothing is the site's setting."""
    return "--requeue" if job.requeue else "--no-requeue"


def parse_squeue_line(line: str) -> JobState | None:
    """One line of ``squeue``; None when it is something else, such as a site's greeting."""
    parts = line.strip().split("|", 8)
    if len(parts) != 9 or not re.fullmatch(r"[0-9]{1,12}(_\S{1,40}|\+[0-9]{1,6})?", parts[0]):
        return None
    job_id, word, reason, nodes, start, end, limit, _, name = parts
    phase = phase_of(word)
    if phase is None:
        return None
    waits = phase in (Phase.PENDING, Phase.REQUEUED)
    return JobState(
        id=job_id,
        phase=phase,
        name=name.strip(),
        reason=reason.strip(),
        nodes="" if waits else nodes.strip(),
        start=moment(start),
        end=None if waits else moment(end),
        limit=read_time(limit),
    )


def parse_sacct_line(line: str) -> JobState | None:
    """One line of ``sacct``; None when it is something else."""
    parts = line.strip().split("|", 7)
    if len(parts) != 8 or not re.fullmatch(r"[0-9]{1,12}(_\S{1,40}|\+[0-9]{1,6})?", parts[0]):
        return None
    job_id, word, code, start, end, nodes, minutes, name = parts
    phase = phase_of(word)
    if phase is None:
        return None
    exit_code, signal = _exit(code)
    by = re.fullmatch(r"CANCELLED by (\S{1,60})", word.strip())
    return JobState(
        id=job_id,
        phase=phase,
        name=name.strip(),
        reason=word.strip(),
        nodes="" if nodes.startswith("None") else nodes.strip(),
        start=moment(start),
        end=moment(end),
        limit=int(minutes) * 60 if re.fullmatch(r"[0-9]{1,7}", minutes) else None,
        exit_code=exit_code,
        signal=signal,
        by=by[1] if by is not None else "",
    )


def phase_of(word: str) -> Phase | None:
    """The phase for ``RUNNING``, ``R``, ``CANCELLED by 1001``, ``CANCELLED+``; None for an unknown word."""
    first = word.strip().split(" ")[0].rstrip("+").upper()
    return _PHASES.get(_SHORT.get(first, first))


def _exit(text: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"([0-9]{1,5}):([0-9]{1,5})", text.strip())
    if match is None:
        return None, None
    return int(match[1]), int(match[2]) or None


def moment(text: str) -> float | None:
    """Seconds since 1970 of ``2026-11-21T20:13:00`` in UTC, or of such a number itself; None for N/A and the like."""
    word = text.strip()
    if re.fullmatch(r"[0-9]{9,11}", word):
        return float(word)
    try:
        return datetime.strptime(word, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
