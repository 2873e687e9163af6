"""PBS: Torque and OpenPBS, and Slurm's front end in their style. qsub, qstat -f, qdel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from clew_gui.base.times import read_clock
from clew_gui.schedulers.allocation import clock_asked
from clew_gui.schedulers.job import SCHEDULER_LOG, JobRef, JobSpec, check_job, render, short_name
from clew_gui.schedulers.reasons import Reason, pbs_reason
from clew_gui.schedulers.refusals import PBS, is_silent, submission
from clew_gui.schedulers.scheduler import Command, all_silent, in_folder
from clew_gui.schedulers.state import ENDED, JobState, Output, PartitionLimits, Phase, Submitted
from clew_shared.base.problem import problem

_ID = r"([0-9]{1,12}(?:\[[0-9]{0,9}\])?(?:\.[A-Za-z0-9_.-]{1,200})?)"
_UNKNOWN = re.compile(r"Unknown Job Id|Job has finished|invalid job id", re.IGNORECASE)
_PHASES = {
    "Q": Phase.PENDING,
    "H": Phase.PENDING,
    "W": Phase.PENDING,
    "T": Phase.PENDING,
    "M": Phase.PENDING,
    "R": Phase.RUNNING,
    "B": Phase.RUNNING,
    "S": Phase.SUSPENDED,
    "U": Phase.SUSPENDED,
    "E": Phase.COMPLETING,
}
_OVER = frozenset("CFX")
_LONGEST = 100_000
_UNKNOWN_CODES = frozenset({153, 35})
"""The last byte of PBSE_UNKJOBID and of OpenPBS' PBSE_HISTJOBID; Slurm's qstat says nothing else."""
_EXITS = {
    -10: Phase.OUT_OF_MEMORY,
    -11: Phase.TIMED_OUT,
    -26: Phase.OUT_OF_MEMORY,
    -27: Phase.OUT_OF_MEMORY,
    -29: Phase.TIMED_OUT,
    -4: Phase.NODE_FAILED,
    -5: Phase.NODE_FAILED,
    -6: Phase.NODE_FAILED,
}
"""Torque's JOB_EXEC_OVERLIMIT_MEM and _WT and the aborts at a node's start; OpenPBS' KILL_VMEM, _MEM, _WALLTIME."""
_TERM, _KILL = 15, 9


class Pbs:
    """The dialect of Torque; of OpenPBS where the job says ``select``."""

    name = "pbs"
    label = "PBS"
    has_queue = True

    def script(self, job: JobSpec) -> str:
        """The job script. Raises ``ProblemError`` for a job that cannot be written safely."""
        check_job(job, self.name)
        own = [f"-o {SCHEDULER_LOG}", "-j oe", f"-r {'y' if job.requeue else 'n'}"]
        return render(job, [f"#PBS {option}" for option in [*_options(job), *own, *job.extra]])

    def submit(self, job: JobSpec) -> Command:
        """``qsub`` in the job's folder."""
        return in_folder(job.folder, "qsub")

    def submitted(self, output: Output) -> Submitted:
        """The id with the server's name, such as ``8231.login``."""
        return submission(output, _ID, PBS)

    def find(self, job: JobSpec) -> Command:
        """By the name; without ``qselect`` among all jobs."""
        line = 'if command -v qselect >/dev/null; then exec qselect -N "$1"; fi; exec qstat -f'
        return ("sh", "-c", line, "sh", short_name(job.job))

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the latest job of that name."""
        empty = output.code in _UNKNOWN_CODES and not is_silent(output.said)  # Slurm's qstat says so of an empty queue
        if output.late or (output.code and not empty):
            raise problem("scheduler.silent", "The scheduler does not answer.", "Try again in a minute.")
        listed = [match[1] for line in output.out.splitlines() if (match := re.fullmatch(_ID, line.strip()))]
        named = [
            one
            for one, fields in parse_qstat(output.out)
            if fields.get("Job_Name") == short_name(job.job) and not _was_refused(fields)
        ]
        return max([*listed, *named], key=_number, default="")

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """One ``qstat -f`` for all."""
        return ("qstat", "-f", *(job.id for job in jobs))

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """Jobs that the server calls unknown are gone; those it says nothing of only if it said anything."""
        found = {_number(one): fields for one, fields in parse_qstat(output.out)}
        answered = bool(found) or output.code in _UNKNOWN_CODES or _UNKNOWN.search(output.said) is not None
        if output.late or not (answered or (output.code == 0 and not is_silent(output.said))):
            return all_silent(jobs, output)
        states = {}
        for job in jobs:
            fields = found.get(_number(job.id))
            states[job.id] = _state(job.id, fields) if fields else JobState(id=job.id, phase=Phase.GONE)
        return states

    def history(self, jobs: Sequence[JobRef]) -> Command | None:
        """OpenPBS keeps jobs that have ended for a while; Torque prints something else here, which is passed over."""
        return ("qstat", "-x", "-f", *(job.id for job in jobs))

    def ended(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """What the server remembers of jobs that have ended."""
        found = {_number(one): fields for one, fields in parse_qstat(output.out)} if not output.late else {}
        states = {job.id: _state(job.id, found[_number(job.id)]) for job in jobs if _number(job.id) in found}
        return {one: state for one, state in states.items() if state.phase in ENDED}

    def cancel(self, job: JobRef) -> Command:
        """TERM to the job, and KILL some seconds later."""
        return ("qdel", job.id)

    def hold(self, job: JobSpec) -> Command:
        """``qsub -I``: a shell on the first node."""
        check_job(job, self.name)
        words = [word for option in [*_options(job), *job.extra] for word in option.split(" ", 1)]
        return ("qsub", "-I", *words)

    def relay(self, job: JobRef, command: Command) -> Command | None:
        """Nothing of PBS passes standard input on to a node."""
        return None

    def attach(self, job: JobRef, command: Command) -> Command | None:
        """PBS gives a terminal to a new job only."""
        return None

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """PBS' comment as a sentence."""
        return pbs_reason(state.reason)

    def ask_limits(self, partition: str) -> Command | None:
        """``qstat -Q -f`` of one queue."""
        return ("qstat", "-Q", "-f", partition) if partition else None

    def limits(self, output: Output) -> PartitionLimits:
        """The queue's greatest walltime and number of nodes."""
        pairs = dict(re.findall(r"^\s*resources_max\.(walltime|nodect)\s*=\s*(\S{1,40})\s*$", output.out, re.MULTILINE))
        nodes = pairs.get("nodect", "")
        return PartitionLimits(
            time=read_clock(pairs.get("walltime", "")), nodes=int(nodes) if re.fullmatch("[0-9]{1,9}", nodes) else None
        )


def _options(job: JobSpec) -> list[str]:
    """What is asked for, as qsub's options."""
    asked = job.allocation
    options = [f"-N {short_name(job.job)}", f"-l {_select(job) if job.select else _nodes(job)}"]
    clock = clock_asked(asked)
    options += [f"-l walltime={clock}"] if clock else []
    options += [f"-q {asked.partition}"] if asked.partition else []
    options += [f"-A {asked.account}"] if asked.account else []
    options += [f"-l qos={asked.qos}"] if asked.qos else []
    return options + ([f"-W x=FLAGS:ADVRES:{asked.reservation}"] if asked.reservation else [])


def _nodes(job: JobSpec) -> str:
    """Torque: ``nodes=8:ppn=16:xk``."""
    asked = job.allocation
    parts = [f"nodes={asked.nodes}", f"ppn={asked.cpus or 1}"]
    parts += [f"{job.gres or 'gpus'}={asked.gpus}"] if asked.gpus else []
    return ":".join([*parts, *([asked.features] if asked.features else [])])


def _select(job: JobSpec) -> str:
    """OpenPBS: ``select=2:ncpus=16:ngpus=4``. A feature is a resource there, such as ``gpu_model=a100``."""
    asked = job.allocation
    parts = [f"select={asked.nodes}", f"ncpus={asked.cpus or 1}"]
    parts += [f"{job.gres or 'ngpus'}={asked.gpus}"] if asked.gpus else []
    return ":".join([*parts, *([asked.features] if asked.features else [])])


def _number(job: str) -> tuple[int, str]:
    """Ids are given with and without the server's name: the number and the part of an array count."""
    match = re.match(r"([0-9]{1,12})(\[[0-9]{0,9}\])?", job)
    return (int(match[1]), match[2] or "") if match is not None else (-1, job)


def parse_qstat(text: str) -> list[tuple[str, dict[str, str]]]:
    """The jobs in the output of ``qstat -f``: id and attributes.

    Torque and OpenPBS indent attributes by blanks and go on with a long one behind a tab; Slurm's qstat has tabs only.
    """
    jobs: list[tuple[str, dict[str, str]]] = []
    last, tabs = "", False
    for line in text.splitlines():
        head = re.match(rf"Job Id:?\s*{_ID}\s*$", line)
        attribute = re.match(r"(\s{1,8})([A-Za-z][A-Za-z0-9_.]{0,60}) = ?(.*)$", line)
        if head is not None:
            jobs.append((head[1], {}))
            last, tabs = "", False
        elif not jobs or not line.strip():
            last = ""
        elif attribute is not None and (not line.startswith("\t") or tabs or not jobs[-1][1]):
            tabs = tabs or line.startswith("\t")
            last = attribute[2]
            jobs[-1][1][last] = attribute[3].strip()
        elif last and len(jobs[-1][1][last]) < _LONGEST:
            jobs[-1][1][last] += line.strip()
    return jobs


def _state(job: str, fields: Mapping[str, str]) -> JobState:
    letter = fields.get("job_state", "")[:1].upper()
    code = _exit_status(fields)
    used = read_clock(fields.get("resources_used.walltime", ""))
    asked = read_clock(fields.get("Resource_List.walltime", ""))
    phase, signal = _PHASES.get(letter), None
    if letter in _OVER:
        phase, signal = _end(code, used, asked, began="exec_host" in fields)
    nodes = fields.get("exec_host", "")
    start = _date(fields.get("start_time", "") or fields.get("stime", ""))
    over = letter in _OVER
    return JobState(
        id=job,
        phase=phase or Phase.GONE,
        name=fields.get("Job_Name", ""),
        reason=_reason(letter, fields),
        nodes="" if phase is Phase.PENDING else _hosts(nodes),
        start=start,
        end=_date(fields.get("comp_time", "") or fields.get("mtime", "")) if over else _until(start, asked),
        limit=asked,
        exit_code=code if signal is None else None,
        signal=signal,
    )


def _was_refused(fields: Mapping[str, str]) -> bool:
    """Slurm's qstat lists what was never taken as completed, for a while."""
    return fields.get("job_state", "")[:1].upper() in _OVER and not fields.get("exec_host")


def _until(start: float | None, asked: int | None) -> float | None:
    return start + asked if start is not None and asked is not None else None


def _exit_status(fields: Mapping[str, str]) -> int | None:
    text = fields.get("exit_status", fields.get("Exit_status", ""))
    return int(text) if re.fullmatch(r"-?[0-9]{1,6}", text) else None


def _end(code: int | None, used: int | None, asked: int | None, began: bool) -> tuple[Phase, int | None]:
    """How it ended, and the signal. A job that was ended at its limit had used it up; TERM before that is a qdel.

    GONE for a job that has begun and of whose end nothing is told: others must say how it ended.
    """
    if code is None:
        return Phase.GONE if began else Phase.CANCELLED, None
    if code in _EXITS:
        return _EXITS[code], None
    signal = code - 256 if code > 256 else code - 128 if code > 128 else None
    at_limit = used is not None and asked is not None and used >= asked
    if signal in (_TERM, _KILL) and at_limit:
        return Phase.TIMED_OUT, signal
    if signal == _TERM:
        return Phase.CANCELLED, signal
    return (Phase.FAILED if code else Phase.COMPLETED), signal


def _reason(letter: str, fields: Mapping[str, str]) -> str:
    if letter == "H":
        return f"held:{fields.get('Hold_Types', '')[:8]}"
    return "waiting" if letter == "W" else fields.get("comment", "")[:300]


def _hosts(text: str) -> str:
    """``node1/1+node1/0+node2/0*4`` are node1 and node2."""
    names = (part.strip("() ").split("/")[0].split(":")[0] for part in text[:_LONGEST].split("+"))
    return ",".join(dict.fromkeys(name for name in names if re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", name)))


def _date(text: str) -> float | None:
    """``Sat Nov 21 20:13:00 2026``, in UTC."""
    if re.fullmatch(r"[0-9]{9,11}", text):
        return float(text)
    try:
        return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
