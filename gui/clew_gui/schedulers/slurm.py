"""Slurm: sbatch, squeue, sacct, scancel, salloc. Tried with 22.05; only options are used that 20.02 has as well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from clew_gui.base.times import read_time
from clew_gui.schedulers.allocation import AllocationRequest, Partition, clock_asked
from clew_gui.schedulers.job import (
    DIRECTIVE_VALUE,
    SCHEDULER_LOG,
    Directives,
    JobRef,
    JobSpec,
    check_job,
    long_name,
)
from clew_gui.schedulers.scheduler import (
    UNREACHED,
    Command,
    Question,
    Refusal,
    Scheduler,
    Signature,
    SitePreset,
    all_silent,
    by_number,
    in_folder,
    not_heard,
    submission,
)
from clew_gui.schedulers.slurm_reasons import slurm_reason
from clew_gui.schedulers.state import ENDED, JobState, JobUse, Output, PartitionLimits, Phase, Reason, Submitted, waited
from clew_shared.base.problem import problem

_FORMAT = "%i|%T|%r|%N|%S|%e|%l|%D|%j"
_ACCOUNTS = "JobID,State,ExitCode,Start,End,NodeList,TimelimitRaw,Submit,MaxRSS,ConsumedEnergyRaw,JobName"
_JOB_ID = re.compile(r"(?P<job>[0-9]{1,12}(?:_[^\s.]{1,40}|\+[0-9]{1,6})?)(?P<step>\.\S{1,60})?")
_NO_VALUES = (2**32 - 2, 2**32 - 1)
"""What older versions write for an energy that is not known."""
_BYTES = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_UNKNOWN = "Invalid job id specified"
_FORBIDDEN = "Access/permission denied"
"""Says ``scontrol`` on a site that lets nobody ask for jobs."""
SUBMITTED = r"(?:Submitted batch job )?([0-9]{1,12})(?:(?:;| on cluster )([A-Za-z0-9_.-]{1,100}))?"
"""The answer to a submission: the id, and the cluster where that is named."""
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
    "BOOT_FAIL": Phase.NODE_FAILED,
    "NODE_FAIL": Phase.NODE_FAILED,
    "CANCELLED": Phase.CANCELLED,
    "PREEMPTED": Phase.CANCELLED,
    "TIMEOUT": Phase.TIMED_OUT,
    "DEADLINE": Phase.TIMED_OUT,
    "OUT_OF_MEMORY": Phase.OUT_OF_MEMORY,
    "REQUEUED": Phase.REQUEUED,
    "REQUEUE_FED": Phase.REQUEUED,
    "REQUEUE_HOLD": Phase.REQUEUED,
    "SPECIAL_EXIT": Phase.REQUEUED,
    "RESV_DEL_HOLD": Phase.PENDING,
    "EXPEDITING": Phase.PENDING,
    "LAUNCH_FAILED": Phase.PENDING,
    "POWER_UP_NODE": Phase.PENDING,
}
"""What Slurm calls flags of a state (https://slurm.schedmd.com/job_state_codes.html) ends no job. The others, such as
REVOKED, of a job that another cluster of a federation may run, and words of newer versions are UNKNOWN."""
_REASONS_OF_WORDS = {
    "RESV_DEL_HOLD": "ReservationDeleted",
    "LAUNCH_FAILED": "JobLaunchFailure",
    "REQUEUE_HOLD": "job requeued in held state",
    "SPECIAL_EXIT": "job requeued in held state",
}
"""Words that say why a job waits better than the reason beside them."""
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
    "RD": "RESV_DEL_HOLD",
    "RH": "REQUEUE_HOLD",
    "RF": "REQUEUE_FED",
    "LF": "LAUNCH_FAILED",
    "PO": "POWER_UP_NODE",
    "SE": "SPECIAL_EXIT",
}


_UP = re.compile(r"(idle|mix|alloc)[^*~%!]*$")
"""The state of a node that jobs run on: with ``*`` it does not answer, with ``~``, ``%`` or ``!`` it is off."""
_GRES = re.compile(
    r"gpus?(?::(?!\d+(?:\(|$)|no_consume)([\w.+-]+))?(?::no_consume)?(?::(\d{1,6}))?(?:\(.*\))?", re.ASCII
)
"""A kind of GPU in a node's generic resources, as ``gpu:2080Ti:8(S:0-1)``: its type, if it has one, and how many."""
_MEMORY = re.compile(r"exceeded (job )?memory limit|\boom[-_]kill", re.IGNORECASE)
"""Matches Slurm's message for too much memory: if no control groups keep the limit, it ends the job, calls it FAILED,
and says why in its output alone."""


class Slurm(Scheduler):
    """The dialect of Slurm."""

    name = "slurm"
    label = "Slurm"
    has_queue = True
    directives = Directives(
        re.compile(rf"--(?P<name>[a-z][a-z0-9-]{{1,40}})(={DIRECTIVE_VALUE})?"),
        "--mem=8G or --exclusive",
        """job-name output error input open-mode no-requeue requeue nodes ntasks-per-node cpus-per-task
        time partition account reservation qos gres constraint signal wrap array chdir uid gid get-user-env test-only
        wait parsable export export-file comment""",
    )
    signature = Signature("sbatch")
    preset: SitePreset | None = SitePreset("slurm", "A Slurm cluster")
    usual_time = "01:00:00"
    account_variable = "SBATCH_ACCOUNT"

    def header(self, job: JobSpec, plain: str = "") -> list[str]:
        """Lines that begin with ``#SBATCH``."""
        own = [f"--output={plain}.log"] if plain else _for_keeper(job)
        options = _options(job, plain or long_name(job.job))
        return [f"#SBATCH {option}" for option in [*options, *own, *job.extra]]

    @staticmethod
    def name_of(job: str) -> str:
        """What the job with this UUID is called."""
        return long_name(job)

    def settings(self, extra: Sequence[str]) -> Mapping[str, str]:
        """The other cluster that the directive ``--clusters`` names, for all of Slurm's programs."""
        named = [match[1] for line in extra if (match := re.fullmatch(r"--clusters?=(\S+)", line))]
        return {"SLURM_CLUSTERS": named[-1]} if named else {}

    def submit(self, job: JobSpec) -> Command:
        """``sbatch`` in the job's folder."""
        return in_folder(job.folder, "sbatch", "--parsable")

    def submitted(self, output: Output) -> Submitted:
        """The id, with or without ``--parsable``."""
        return submission(output, SUBMITTED, REFUSALS)

    def find(self, job: JobSpec) -> Command:
        """Looks for the job by its whole name, also among jobs that have just ended."""
        return ("squeue", "--noheader", "--states=all", f"--name={long_name(job.job)}", f"--format={_FORMAT}")

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the latest job of that name."""
        if output.failed:
            raise problem("scheduler.silent", "The scheduler does not answer.", "Try again in a minute.")
        return latest_named(parse_squeue(output.out), long_name(job.job))

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """Asks with one ``squeue`` for all jobs; those that have ended are shown for some minutes (MinJobAge)."""
        return ("squeue", "--noheader", "--states=all", *_on_cluster(*jobs), f"--format={_FORMAT}")

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """A job that is not among the lines is gone; Slurm says so in words only when one job was asked for."""
        if output.late or (output.code != 0 and _UNKNOWN not in output.said):
            return all_silent(jobs, output)
        return {job.id: JobState(id=job.id, phase=Phase.GONE) for job in jobs} | of_jobs(jobs, parse_squeue(output.out))

    def ask_again(self, job: JobRef) -> Command | None:
        """``scontrol``, which filters nothing."""
        if not job.id:
            return ("sh", "-c", _BY_NAME, "sh", self.name_of(job.job))
        return ("scontrol", "--oneliner", *_clusters(job), "show", "job", job.number)

    def heard_again(self, job: JobRef, output: Output) -> JobState | None:
        """Reads what ``scontrol`` says of the job."""
        found = [_of_scontrol(line) for line in output.out.splitlines() if line.startswith("JobId=")]
        wanted = job.number or latest_named(found, self.name_of(job.job))
        state = next((state for state in found if state.id == wanted), None)
        if state is None:
            return not_heard(job, output, output.code == 0 or _UNKNOWN in output.said or _FORBIDDEN in output.said)
        return replace(state, id=job.id or state.id)

    def history(self, jobs: Sequence[JobRef]) -> Question[dict[str, JobState]] | None:
        """``sacct``, which many sites do not have."""
        asked = ("sacct", "--noheader", "--parsable2", *_on_cluster(*jobs), f"--format={_ACCOUNTS}")
        return Question(asked, lambda output: {} if output.failed else of_jobs(jobs, parse_sacct(output.out)))

    def queue(self, asked: AllocationRequest) -> Question[list[JobState] | None] | None:
        """``squeue`` for one of them; the site may list one's own jobs only."""
        there = f"--reservation={asked.reservation}" if asked.reservation else f"--partition={asked.partition}"
        command = ("squeue", "--noheader", there, f"--format={_FORMAT}")
        return Question(command, lambda output: None if output.failed else list(parse_squeue(output.out)))

    def cancel(self, job: JobRef) -> Command:
        """Sends TERM to all of the job, and KILL half a minute later."""
        return ("scancel", *_clusters(job), job.number)

    def hold(self, job: JobSpec) -> Command:
        """An allocation with a shell on its first node."""
        check_job(job, self.directives)
        return ("salloc", *_options(job, long_name(job.job)), *job.extra, "srun", "--pty", "bash", "-l")

    def relay(self, job: JobRef, command: Command) -> Command | None:
        """A further step beside those that run; without ``--overlap`` it would wait for free cores for ever.

        Without ``--unbuffered`` bytes are kept back until the end of a line, or until the step ends.
        """
        return (*_step(job), "--unbuffered", *command)

    def attach(self, job: JobRef, command: Command) -> Command | None:
        """A further step, as in ``relay``, with a terminal."""
        return (*_step(job), "--pty", *command)

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """Slurm's reason as a sentence."""
        return slurm_reason(state.reason, limits, state.limit)

    def limits(self, partition: str) -> Question[PartitionLimits] | None:
        """One line for each partition."""
        only = (f"--partition={partition}",) if partition else ()
        return Question(("sinfo", "--noheader", *only, "--format=%l|%s|%D|%P"), parse_limits)

    def partitions(self) -> Question[tuple[Partition, ...]]:
        """One line for each partition, or several if its nodes differ, with GPUs and features."""
        asked = ("sinfo", "--noheader", "--format=%P|%l|%D|%G|%f|%a")
        return Question(asked, lambda output: () if output.failed else parse_sinfo(output.out))

    def node_up(self) -> Question[str]:
        """The first node that jobs run on, or could, in one line for each node and partition."""
        return Question(("sinfo", "--noheader", "--Node", "--format=%N %t"), lambda output: first_node(output.out))

    def accounts(self) -> Question[tuple[str, ...]]:
        """``sacctmgr``, which answers only where Slurm keeps accounts."""
        asked = ("sh", "-c", 'exec sacctmgr -nP show assoc user="$(id -un)" format=account')
        return Question(asked, _accounts)

    def ask_acceptance(self) -> Command | None:
        """``sbatch --test-only``."""
        return ("sbatch", "--test-only")

    def ran_out_of_memory(self, printed: str) -> bool:
        """Whether slurmstepd says so."""
        return memory_ran_out(printed)


def _for_keeper(job: JobSpec) -> list[str]:
    own = [f"--output={SCHEDULER_LOG}", "--open-mode=append", requeue_option(job)]
    # Without a clock the keeper cannot know when its time is up.
    return own if clock_asked(job.allocation) else [*own, "--signal=B:USR1@60"]


def _options(job: JobSpec, name: str) -> list[str]:
    """Returns the request as options, for sbatch and salloc alike."""
    asked = job.allocation
    options = [f"--job-name={name}", f"--nodes={asked.nodes}", "--ntasks-per-node=1"]
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
    """Returns the option in any case: without it, the site's setting would decide."""
    return "--requeue" if job.requeue else "--no-requeue"


def _clusters(*jobs: JobRef) -> tuple[str, ...]:
    """The option for a job that is not on the login node's own cluster; all of ``jobs`` are on the same."""
    return (f"--clusters={jobs[0].cluster}",) if jobs[0].cluster else ()


def _on_cluster(*jobs: JobRef) -> tuple[str, ...]:
    return (*_clusters(*jobs), f"--jobs={','.join(job.number for job in jobs)}")


def _step(job: JobRef) -> Command:
    return ("srun", *_clusters(job), f"--jobid={job.number}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet")


def of_jobs(jobs: Sequence[JobRef], states: Iterable[JobState]) -> dict[str, JobState]:
    """The states of ``jobs`` by their ids: an answer may leave the cluster's name out."""
    numbers = {job.number: job.id for job in jobs}
    found = ((numbers.get(state.id.partition(";")[0]), state) for state in states)
    return {job: replace(state, id=job) for job, state in found if job is not None}


def latest_named(states: Iterable[JobState], name: str) -> str:
    """The id of the latest job of that name. What was refused is listed as well for a while, as failed and without
    nodes; that is none."""
    ids = [state.id for state in states if state.name == name and (state.nodes or state.phase not in ENDED)]
    return max(ids, key=by_number, default="")


def parse_squeue(text: str) -> Iterator[JobState]:
    """Parses what ``squeue`` prints; what is something else, such as a site's greeting, is passed over. A line with
    the name of another cluster is about those that follow."""
    cluster = ""
    for line in text.splitlines():
        if line.startswith("CLUSTER: "):
            cluster = f";{line.removeprefix('CLUSTER: ').strip()}"
        parts = line.strip().split("|", 8)
        if len(parts) == 9 and re.fullmatch(r"[0-9]{1,12}(_\S{1,40}|\+[0-9]{1,6})?", parts[0]):
            job, word, reason, nodes, start, end, limit, _, name = parts
            yield _listed(job + cluster, word.strip(), reason, nodes, start, end, limit, name)


def _listed(job: str, word: str, reason: str, nodes: str, start: str, end: str, limit: str, name: str) -> JobState:
    phase = phase_of(word)
    waits = phase in (Phase.PENDING, Phase.REQUEUED)
    full = _SHORT.get(word, word)
    return JobState(
        id=job,
        phase=phase,
        name=name.strip(),
        reason=word if phase is Phase.UNKNOWN else _REASONS_OF_WORDS.get(full, reason.strip()),
        nodes="" if waits else nodes.strip(),
        start=moment(start),
        end=None if waits else moment(end),
        limit=read_time(limit),
    )


_BY_NAME = 'jobs=$(scontrol -o show job) || exit; printf "%s\\n" "$jobs" | grep -F " JobName=$1 " || :'


def _of_scontrol(line: str) -> JobState:
    """Reads a line such as ``JobId=7 JobName=wrap … JobState=PENDING Reason=job requeued in held state …``."""
    known: dict[str, str] = {}
    for name, value in re.findall(r"([A-Za-z]+)=(.*?)(?= [A-Za-z:/]+=|$)", line):
        known.setdefault(name, "" if value == "(null)" else value)
    names = ("JobId", "JobState", "Reason", "NodeList", "StartTime", "EndTime", "TimeLimit", "JobName")
    return _listed(*(known.get(name, "") for name in names))


def parse_sacct(text: str) -> list[JobState]:
    """Parses what ``sacct`` prints: a line for each job and, because only these have their memory, for each of its
    steps (``31.batch``)."""
    jobs: dict[str, JobState] = {}
    memory: dict[str, float] = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 10)
        if len(parts) != 11 or (match := _JOB_ID.fullmatch(parts[0])) is None:
            continue
        memory[match["job"]] = max(memory.get(match["job"], 0.0), _size(parts[8]))
        if not match["step"]:
            jobs[match["job"]] = _accounted(match["job"], parts[1:])
    return [replace(job, use=replace(job.use, memory=memory[one] or None)) for one, job in jobs.items()]


def _accounted(job_id: str, fields: Sequence[str]) -> JobState:
    word, code, start, end, nodes, minutes, submitted, _, energy, name = fields
    exit_code, signal = _exit(code)
    by = re.fullmatch(r"CANCELLED by (\S{1,60})", word.strip())
    return JobState(
        id=job_id,
        phase=phase_of(word),
        name=name.strip(),
        reason=word.strip(),
        nodes="" if nodes.startswith("None") else nodes.strip(),
        start=moment(start),
        end=moment(end),
        limit=int(minutes) * 60 if re.fullmatch(r"[0-9]{1,7}", minutes) else None,
        exit_code=exit_code,
        signal=signal,
        by=by[1] if by is not None else "",
        use=JobUse(waited=waited(moment(submitted), moment(start)), energy=_joules(energy)),
    )


def _size(text: str) -> float:
    """The bytes of ``123456K`` or ``1.5G``; 0 for nothing."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGT]?)", text.strip())
    return float(match[1]) * _BYTES[match[2]] if match is not None else 0.0


def _joules(text: str) -> float | None:
    """Energy that was measured: a site without sensors has 0 or nothing, and what is not known is a huge number."""
    match = re.fullmatch(r"[0-9]{1,15}", text.strip())
    return float(match[0]) or None if match is not None and int(match[0]) not in _NO_VALUES else None


def phase_of(word: str) -> Phase:
    """The phase for ``RUNNING``, ``R``, ``CANCELLED by 1001``, ``CANCELLED+``."""
    first = word.strip().split(" ")[0].rstrip("+").upper()
    return _PHASES.get(_SHORT.get(first, first), Phase.UNKNOWN)


def _exit(text: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"([0-9]{1,5}):([0-9]{1,5})", text.strip())
    if match is None:
        return None, None
    return int(match[1]), int(match[2]) or None


def moment(text: str, form: str = "%Y-%m-%dT%H:%M:%S") -> float | None:
    """Seconds since 1970 of ``2026-11-21T20:13:00`` (or another ``form``) in UTC, or of such a number itself; None for
    N/A and the like."""
    word = text.strip()
    if re.fullmatch(r"[0-9]{9,11}", word):
        return float(word)
    try:
        return datetime.strptime(word, form).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


# --- Partitions and nodes ---------------------------------------------------------------------------------------------


def _accounts(output: Output) -> tuple[str, ...]:
    """The accounts, each once."""
    names = filter(None, map(str.strip, output.out.splitlines()))
    return () if output.failed else tuple(dict.fromkeys(names))


def parse_limits(output: Output) -> PartitionLimits:
    """The limits of a partition, of the default one where several are listed."""
    rows = [line.strip().split("|") for line in output.out.splitlines() if line.count("|") == 3]
    if output.failed or not rows:
        return PartitionLimits()
    row = next((row for row in rows if row[3].endswith("*")), rows[0])
    sizes = [row[1].rpartition("-")[2], row[2]]  # 1-64 or 1-infinite, and how many nodes there are
    numbers = [int(size) for size in sizes if re.fullmatch(r"[0-9]{1,9}", size)]
    return PartitionLimits(time=read_time(row[0]), nodes=min(numbers, default=None))


def parse_sinfo(text: str) -> tuple[Partition, ...]:
    """Partitions in the lines of ``sinfo``; Slurm prints several for one whose nodes differ."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 6 or not cells[0]:
            continue
        name = cells[0].rstrip("*")
        gpus, kinds = _gpus(cells[3])
        before = found.get(name, Partition(name=name, nodes=0, gpus=0))
        count = int(cells[2]) if re.fullmatch(r"[0-9]{1,7}", cells[2]) else None
        features = [] if cells[4] == "(null)" else [one for one in cells[4].split(",") if one]
        found[name] = Partition(
            name=name,
            default=before.default or cells[0].endswith("*"),
            seconds=read_time(cells[1]),
            nodes=None if count is None or before.nodes is None else before.nodes + count,
            gpus=None if gpus is None or before.gpus is None else max(before.gpus, gpus),
            kinds=tuple(dict.fromkeys([*before.kinds, *kinds])),
            features=tuple(dict.fromkeys([*before.features, *features])),
            up=cells[5].startswith("up"),
        )
    return tuple(found.values())


def _gpus(gres: str) -> tuple[int | None, list[str]]:
    """Number and names of GPUs in a node's generic resources: ``gpu:tesla:4(S:0-1),nvme:1``. None for the number where
    one that is about GPUs is not understood."""
    entries = [one.strip() for one in re.split(r",(?![^(]*\))", gres)]
    matches = [_GRES.fullmatch(one) for one in entries if re.match(r"gpus?\b", one)]
    found = [match for match in matches if match is not None]
    count = sum(int(match[2] or 1) for match in found) if len(found) == len(matches) else None
    return count, [match[1] for match in found if match[1]]


def first_node(sinfo: str) -> str:
    """A node that is up, in the lines of ``sinfo --Node``: its name and its state."""
    lines = (line.split() for line in sinfo.splitlines() if len(line.split()) == 2)
    return next((name for name, state in lines if _UP.match(state)), "")


def memory_ran_out(printed: str) -> bool:
    """Whether Slurm ended a job for its memory, by what it wrote into the job's output."""
    return _MEMORY.search(printed) is not None


# --- Why a job is refused ---------------------------------------------------------------------------------------------

REFUSALS: Sequence[Refusal] = (
    Refusal(
        r"invalid partition", "partition", "partition", "There is no such partition.", "`sinfo -s` lists what there is."
    ),
    Refusal(
        r"user'?s? group not permitted to use this partition|not permitted to use .*partition|Job violates "
        r"accounting/QOS policy.*partition",
        "partition",
        "partition",
        "You may not use this partition.",
        "Choose another one, or ask the site's support.",
    ),
    Refusal(
        r"invalid account|not a member of account|account .*(does not exist|expired)",
        "account",
        "account",
        "The scheduler does not accept this account, or not in this partition.",
        "`sacctmgr show assoc user=$USER` lists yours.",
    ),
    Refusal(r"invalid qos", "qos", "qos", "There is no such QOS, or you may not use it.", "Leave it empty."),
    Refusal(
        r"reservation.*(invalid|not.*exist|expired)|requested reservation|access denied to.*reservation|"
        r"problem using reservation",
        "reservation",
        "reservation",
        "The reservation does not exist, is over, or is not for you.",
        "Ask the teacher for today's name, or leave it empty.",
    ),
    Refusal(
        r"requested time limit is invalid|time limit.*(exceeds|too)|partition time limit|PartitionTimeLimit",
        "time",
        "time",
        "More time is asked for than is allowed here.",
        "`sinfo -o '%P %l'` shows the limits.",
    ),
    Refusal(
        r"invalid generic resource|invalid (gres|tres) spec|gres.*(invalid|not.*available)",
        "gpus",
        "gpus",
        "There are no GPUs of this name here.",
        "`sinfo -o '%P %G'` shows what they are called.",
    ),
    Refusal(
        r"requested node configuration is not available|node count specification invalid|more processors requested|"
        r"invalid node name",
        "nodes",
        "nodes",
        "No node, or not enough of them, has what the job asks for.",
        "Ask for fewer GPUs, cores or nodes, or choose another partition.",
    ),
    Refusal(
        r"invalid feature",
        "features",
        "features",
        "No node has these features.",
        "`sinfo -o '%P %f'` shows what there is.",
    ),
    Refusal(
        r"job violates accounting/qos policy|QOSMax|AssocMax|AssocGrp|job submit limit",
        "limit",
        "",
        "The job would exceed what your account or QOS allows.",
        "Ask for less, or wait until other jobs have ended.",
    ),
    Refusal(
        r"unrecognized option|invalid option|unknown directive",
        "directive",
        "extra",
        "The scheduler does not know one of the lines.",
        "Look at the site's extra lines.",
    ),
    Refusal(
        r"memory specification can not be satisfied|memory.*(exceeds|invalid)",
        "memory",
        "extra",
        "More memory is asked for than a node has.",
        "Ask for less in the site's extra lines.",
    ),
    Refusal(r"disk quota|no space left", "disk", "", "There is no room left on the site's disk.", "Make room there."),
    *UNREACHED,
)
