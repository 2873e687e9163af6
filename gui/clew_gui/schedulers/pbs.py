"""PBS: Torque and OpenPBS, and Slurm's front end in their style. qsub, qstat -f, qdel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from clew_gui.base.times import read_clock
from clew_gui.schedulers import slurm
from clew_gui.schedulers.allocation import AllocationRequest, Partition, clock_asked
from clew_gui.schedulers.job import (
    DIRECTIVE_VALUE,
    SCHEDULER_LOG,
    Directives,
    JobRef,
    JobSpec,
    check_job,
    short_name,
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
    in_folder,
    is_silent,
    not_heard,
    submission,
)
from clew_gui.schedulers.state import ENDED, JobState, JobUse, Output, PartitionLimits, Phase, Reason, Submitted, waited
from clew_shared.base.problem import problem

_ID = r"([0-9]{1,12}(?:\[[0-9]{0,9}\])?(?:\.[A-Za-z0-9_.-]{1,200})?)"
_UNKNOWN = re.compile(r"Unknown Job Id|Job has finished|invalid job id", re.IGNORECASE)
_PHASES = {
    "Q": Phase.PENDING,
    "H": Phase.PENDING,
    "W": Phase.PENDING,
    "T": Phase.PENDING,
    "R": Phase.RUNNING,
    "B": Phase.RUNNING,
    "S": Phase.SUSPENDED,
    "U": Phase.SUSPENDED,
    "E": Phase.COMPLETING,
}
_OVER = frozenset("CFX")
_LONGEST = 100_000
_BYTES = {"b": 1.0, "kb": 2.0**10, "mb": 2.0**20, "gb": 2.0**30, "tb": 2.0**40}
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


_MEMORY = re.compile(r"job killed: v?mem \S+ exceeded limit", re.IGNORECASE)


class Pbs(Scheduler):
    """The dialect of Torque; of OpenPBS where the job says ``select``."""

    name = "pbs"
    label = "PBS"
    has_queue = True
    directives = Directives(
        re.compile(rf"-(?P<name>[A-Za-z]) {DIRECTIVE_VALUE}"),
        "-l mem=8gb or -W group_list=course",
        "N o e j q A I t z S d D r v V C f",
    )
    signature = Signature("qsub", others=("qconf",), version=("qsub", "--version"), select="pbs_version")
    """Excludes Grid Engine by ``qconf``, because its submission command is called qsub as well."""
    preset = SitePreset("pbs", "A PBS or Torque cluster")
    usual_time = "01:00:00"
    enter_folder = 'cd "$PBS_O_WORKDIR"'

    def header(self, job: JobSpec, plain: str = "") -> list[str]:
        """Lines that begin with ``#PBS``."""
        own = [f"-o {plain}.log" if plain else f"-o {SCHEDULER_LOG}", "-j oe"]
        own += [] if plain else [f"-r {'y' if job.requeue else 'n'}"]
        options = _options(job, plain[:15] or short_name(job.job))  # no more than 15 characters
        return [f"#PBS {option}" for option in [*options, *own, *job.extra]]

    def submit(self, job: JobSpec) -> Command:
        """``qsub`` in the job's folder."""
        return in_folder(job.folder, "qsub")

    def submitted(self, output: Output) -> Submitted:
        """The id with the server's name, such as ``8231.login``."""
        return submission(output, _ID, REFUSALS)

    def find(self, job: JobSpec) -> Command:
        """Looks for the job by its name; without ``qselect`` among all jobs."""
        line = 'if command -v qselect >/dev/null; then exec qselect -N "$1"; fi; exec qstat -f'
        return ("sh", "-c", line, "sh", short_name(job.job))

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the latest job of that name."""
        if output.late or not _is_answer(output):
            raise problem("scheduler.silent", "The scheduler does not answer.", "Try again in a minute.")
        listed = [match[1] for line in output.out.splitlines() if (match := re.fullmatch(_ID, line.strip()))]
        named = [one for one, fields in parse_qstat(output.out) if _is(JobRef("", job.job), one, fields)]
        return max([*listed, *named], key=_number, default="")

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """Asks with one ``qstat -f`` for all jobs."""
        return ("qstat", "-f", *(job.id for job in jobs))

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """Reads the jobs' states. Jobs that the server calls unknown are gone; those it does not mention only if it
        said anything."""
        found = {_number(one): fields for one, fields in parse_qstat(output.out)}
        answered = bool(found) or output.code in _UNKNOWN_CODES or _UNKNOWN.search(output.said) is not None
        if output.late or not (answered or (output.code == 0 and not is_silent(output.said))):
            return all_silent(jobs, output)
        states = {}
        for job in jobs:
            fields = found.get(_number(job.id))
            states[job.id] = _state(job.id, fields) if fields else JobState(id=job.id, phase=Phase.GONE)
        return states

    def ask_again(self, job: JobRef) -> Command | None:
        """Asks for all of one's own jobs; without ``qselect`` for everybody's."""
        return ("sh", "-c", _OWN_JOBS)

    def heard_again(self, job: JobRef, output: Output) -> JobState | None:
        """Looks for the job among them, without an id by its name."""
        mine = {one: fields for one, fields in parse_qstat(output.out) if _is(job, one, fields)}
        last = max(mine, key=_number, default="")
        return _state(job.id or last, mine[last]) if last else not_heard(job, output, _is_answer(output))

    def history(self, jobs: Sequence[JobRef]) -> Question[dict[str, JobState]]:
        """Asks for ended jobs. OpenPBS keeps them for a while; Torque prints something else here, which is ignored."""
        return Question(("qstat", "-x", "-f", *(job.id for job in jobs)), partial(_ended, jobs))

    def queue(self, asked: AllocationRequest) -> Question[list[JobState] | None] | None:
        """``qstat -f`` of the queue, which is what a reservation is for OpenPBS; those of Torque no server knows."""
        known = asked.partition and not asked.reservation
        return Question(("qstat", "-f", asked.partition), _in_queue) if known else None

    def cancel(self, job: JobRef) -> Command:
        """Sends TERM to the job, and KILL some seconds later."""
        return ("qdel", job.id)

    def hold(self, job: JobSpec) -> Command:
        """``qsub -I``: a shell on the first node."""
        check_job(job, self.directives)
        words = [word for option in [*_options(job, short_name(job.job)), *job.extra] for word in option.split(" ", 1)]
        return ("qsub", "-I", *words)

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """PBS' comment as a sentence."""
        return pbs_reason(state.reason)

    def limits(self, partition: str) -> Question[PartitionLimits] | None:
        """``qstat -Q -f`` of one queue."""
        return Question(("qstat", "-Q", "-f", partition), parse_limits) if partition else None

    def partitions(self) -> Question[tuple[Partition, ...]]:
        """One line for each queue, without GPUs; some commands end with a status that means nothing."""
        return Question(("qstat", "-q"), lambda output: parse_queues(output.out))

    def most_gpus(self) -> Question[int | None]:
        """The most GPUs of all nodes: queues do not name theirs."""
        return Question(("pbsnodes", "-a"), lambda output: None if output.failed else most_gpus(output.out))

    def node_up(self) -> Question[str]:
        """The first node that is free, or has a job."""
        return Question(("pbsnodes", "-a"), lambda output: first_node(output.out))

    def ran_out_of_memory(self, printed: str) -> bool:
        """Whether the node's daemon says so, or Slurm through its PBS front end."""
        return _MEMORY.search(printed) is not None or slurm.memory_ran_out(printed)


_OWN_JOBS = """command -v qselect >/dev/null || exec qstat -f
jobs=$(qselect -u "$(id -un)") || exit
[ -z "$jobs" ] || exec qstat -f $jobs"""


def _in_queue(output: Output) -> list[JobState] | None:
    return None if output.failed else [_state(one, fields) for one, fields in parse_qstat(output.out)]


def _ended(jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
    """What the server remembers of jobs that have ended."""
    found = {_number(one): fields for one, fields in parse_qstat(output.out)} if not output.late else {}
    states = {job.id: _state(job.id, found[_number(job.id)]) for job in jobs if _number(job.id) in found}
    return {one: state for one, state in states.items() if state.phase in ENDED}


def _is_answer(output: Output) -> bool:
    """Whether the server has answered: Slurm's qstat calls an empty queue an unknown job."""
    return output.code == 0 or (output.code in _UNKNOWN_CODES and not is_silent(output.said))


def _is(job: JobRef, one: str, fields: Mapping[str, str]) -> bool:
    if job.id:
        return _number(one) == _number(job.id)
    return fields.get("Job_Name") == short_name(job.job) and not _was_refused(fields)


def _options(job: JobSpec, name: str) -> list[str]:
    """Returns the request as qsub's options."""
    asked = job.allocation
    options = [f"-N {name}", f"-l {_size(job)}"]
    clock = clock_asked(asked)
    options += [f"-l walltime={clock}"] if clock else []
    options += [f"-q {asked.partition}"] if asked.partition else []
    options += [f"-A {asked.account}"] if asked.account else []
    options += [f"-l qos={asked.qos}"] if asked.qos else []
    return options + ([f"-W x=FLAGS:ADVRES:{asked.reservation}"] if asked.reservation else [])


def _size(job: JobSpec) -> str:
    """Torque: ``nodes=8:ppn=16:xk``. OpenPBS: ``select=2:ncpus=16:ngpus=4``, where a feature is a resource, such as
    ``gpu_model=a100``."""
    asked = job.allocation
    nodes, cores, gpus = ("select", "ncpus", "ngpus") if job.select else ("nodes", "ppn", "gpus")
    parts = [f"{nodes}={asked.nodes}", f"{cores}={asked.cpus or 1}"]
    parts += [f"{job.gres or gpus}={asked.gpus}"] if asked.gpus else []
    return ":".join([*parts, *([asked.features] if asked.features else [])])


def _number(job: str) -> tuple[int, str]:
    """Ids are given with and without the server's name: the number and the part of an array count."""
    match = re.match(r"([0-9]{1,12})(\[[0-9]{0,9}\])?", job)
    return (int(match[1]), match[2] or "") if match is not None else (-1, job)


def parse_qstat(text: str) -> list[tuple[str, dict[str, str]]]:
    """The jobs in the output of ``qstat -f``: id and attributes.

    Torque and OpenPBS indent attributes by blanks and continue a long one after a tab; Slurm's qstat has tabs only.
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
    phase, signal = _PHASES.get(letter, Phase.UNKNOWN), None
    if letter in _OVER:
        phase, signal = _end(code, used, asked, began="exec_host" in fields)
    nodes = fields.get("exec_host", "")
    start = _date(fields.get("start_time", "") or fields.get("stime", ""))
    over = letter in _OVER
    return JobState(
        id=job,
        phase=phase,
        name=fields.get("Job_Name", ""),
        reason=_reason(letter, fields),
        nodes="" if phase is Phase.PENDING else _hosts(nodes),
        start=start,
        end=_date(fields.get("comp_time", "") or fields.get("mtime", "")) if over else _until(start, asked),
        limit=asked,
        exit_code=code if signal is None else None,
        signal=signal,
        use=JobUse(waited=waited(_date(fields.get("qtime", "")), start), memory=_memory(fields)),
    )


def _memory(fields: Mapping[str, str]) -> float | None:
    """The bytes of ``123456kb``; nothing and 0 mean that nobody measured."""
    match = re.fullmatch(r"([0-9]{1,15})(b|kb|mb|gb|tb)", fields.get("resources_used.mem", ""))
    return float(match[1]) * _BYTES[match[2]] or None if match is not None else None


def _was_refused(fields: Mapping[str, str]) -> bool:
    """Whether the job was refused: Slurm's qstat lists it as completed for a while."""
    return fields.get("job_state", "")[:1].upper() in _OVER and not fields.get("exec_host")


def _until(start: float | None, asked: int | None) -> float | None:
    return start + asked if start is not None and asked is not None else None


def _exit_status(fields: Mapping[str, str]) -> int | None:
    text = fields.get("exit_status", fields.get("Exit_status", ""))
    return int(text) if re.fullmatch(r"-?[0-9]{1,6}", text) else None


def _end(code: int | None, used: int | None, asked: int | None, began: bool) -> tuple[Phase, int | None]:
    """Returns how the job ended, and the signal. A job that was ended at its limit had used it up; TERM before that is
    a qdel.

    GONE for a job that has begun and whose end is not reported: others must say how it ended.
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
    if letter not in _PHASES and letter not in _OVER:
        return fields.get("job_state", "")[:20]
    return "waiting" if letter == "W" else fields.get("comment", "")[:300]


def _hosts(text: str) -> str:
    """``node1/1+node1/0+node2/0*4`` are node1 and node2."""
    names = (part.strip("() ").split("/")[0].split(":")[0] for part in text[:_LONGEST].split("+"))
    return ",".join(dict.fromkeys(name for name in names if re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", name)))


def _date(text: str) -> float | None:
    """``Sat Nov 21 20:13:00 2026``, in UTC."""
    return slurm.moment(text, "%a %b %d %H:%M:%S %Y")


# --- Queues and nodes -------------------------------------------------------------------------------------------------


def parse_limits(output: Output) -> PartitionLimits:
    """A queue's greatest walltime and number of nodes."""
    pairs = dict(re.findall(r"^\s*resources_max\.(walltime|nodect)\s*=\s*(\S{1,40})\s*$", output.out, re.MULTILINE))
    return PartitionLimits(time=read_clock(pairs.get("walltime", "")), nodes=_count(pairs.get("nodect", "")))


def parse_queues(text: str) -> tuple[Partition, ...]:
    """Queues in the table of ``qstat -q``, whose sixth column from the end is the number of nodes."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) != 10 or not re.fullmatch(r"[ED]", cells[8]) or not re.fullmatch(r"[RS]", cells[9]):
            continue
        up = cells[8] == "E" and cells[9] == "R"
        found.append(Partition(name=cells[0], seconds=_wall(cells[3]), nodes=_count(cells[4]), up=up))
    return tuple(found)


def _wall(text: str) -> int | None:
    """``02:00:00`` or, as Torque also prints it, ``02:00`` for hours and minutes."""
    return read_clock(f"{text}:00" if re.fullmatch(r"[0-9]+:[0-9]{2}", text) else text)


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def first_node(pbsnodes: str) -> str:
    """A node that is up, in the answer of ``pbsnodes -a``: its name comes before its indented lines."""
    match = re.search(
        r"^([A-Za-z0-9][\w.-]{0,200})\s*\n(?:[ \t]+(?!state =).*\n)*[ \t]+state = (?:free|job)", pbsnodes, re.MULTILINE
    )
    return match[1] if match is not None else ""


def most_gpus(pbsnodes: str) -> int | None:
    """The most GPUs that one node has in the answer of ``pbsnodes -a``: Torque's words and OpenPBS'. None where no node
    says: a site may have a resource of its own for them."""
    return max(_each(r"^\s*(?:gpus|resources_available\.ngpus) = ([0-9]{1,4})\s*$", pbsnodes), default=None)


def _each(pattern: str, text: str) -> Iterator[int]:
    return (int(match[1]) for match in re.finditer(pattern, text, re.MULTILINE))


# --- Why a job waits --------------------------------------------------------------------------------------------------

_REASONS: Sequence[tuple[re.Pattern[str], Reason]] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (
            r"can never run.*\bngpus\b|can never run.*\bgpus\b",
            Reason("It will not start: no node has that many GPUs.", True),
        ),
        (r"can never run", Reason("It will not start: no node has what it asks for.", True)),
        (r"too many failed attempts", Reason("It will not start: its start failed too often.", True)),
        (r"walltime.*(exceed|limit)|exceed.*walltime", Reason("It will not start: it asks for too much time.", True)),
        (r"insufficient amount of.*gpus", Reason("It waits until enough GPUs are free.")),
        (r"insufficient amount of|not enough", Reason("It waits until enough of what it asks for is free.")),
        (r"node is in use|no free nodes|would conflict", Reason("It waits until nodes are free.")),
        (
            r"queue.*(not started|stopped|disabled)",
            Reason("It will not start yet: the queue does not start jobs.", True),
        ),
        (
            r"(user|group|project|server|queue).*(has reached|exceed|limit)",
            Reason("A limit on running jobs is reached."),
        ),
        (r"dependency", Reason("It waits for another job.")),
        (r"reservation", Reason("It waits for its reservation to begin.")),
        (r"dedicated time", Reason("It waits: the machine is kept for something else now.")),
        (r"not running.*draining|starving", Reason("Other jobs come first.")),
    )
)
_HELD = {
    "u": Reason("It will not start: you have held it. `qrls` lets it go.", True),
    "o": Reason("It will not start: an operator has held it. Ask the site's support.", True),
    "s": Reason("It will not start: the system has held it. Ask the site's support.", True),
    "": Reason("It will not start: it is held. `qrls` lets it go if you have held it.", True),
}


def pbs_reason(word: str) -> Reason:
    """PBS' comment, or ``held:u`` and the like for jobs in the state H, as a sentence."""
    if word.startswith("held:"):
        return next((_HELD[kind] for kind in "uos" if kind in word[5:]), _HELD[""])
    if word == "waiting":
        return Reason("It may not begin before a set time.")
    for pattern, reason in _REASONS:
        if pattern.search(word):
            return reason
    return Reason(
        f"It waits. The scheduler says: {word[:200]}" if word else "Other jobs come first, or nodes are busy."
    )


# --- Why a job is refused ---------------------------------------------------------------------------------------------

REFUSALS: Sequence[Refusal] = (
    Refusal(
        r"unknown queue|illegal queue|Invalid partition",
        "partition",
        "partition",
        "There is no such queue.",
        "`qstat -q` lists what there is.",
    ),
    Refusal(
        r"unauthorized request|not permitted to use|access to queue is denied|ACL",
        "access",
        "partition",
        "You may not send this job to this queue.",
        "Choose another one, or ask the site's support.",
    ),
    Refusal(
        r"invalid account|invalid project|unknown project|account.*(invalid|not)",
        "account",
        "account",
        "The scheduler does not accept this account.",
        "Ask the site's support which one is yours.",
    ),
    Refusal(
        r"exceeds (queue|server|available).*(resource|walltime|partition|limit)|job exceeds queue resource limits|"
        r"violates queue and/or server resource limits",
        "limit",
        "time",
        "More time, nodes or cores are asked for than this queue allows.",
        "`qstat -q` shows the queues' limits.",
    ),
    Refusal(
        r"(unknown|illegal).*(resource|attribute)|invalid resource|cannot set attribute|nodes file|node spec",
        "nodes",
        "nodes",
        "The scheduler does not know what the job asks for: nodes, GPUs or features.",
        "`pbsnodes -a` shows what the nodes have.",
    ),
    Refusal(
        r"cannot locate feasible nodes|no nodes.*available|can never run|Requested node configuration is not available",
        "nodes",
        "nodes",
        "No node, or not enough of them, has what the job asks for.",
        "Ask for fewer GPUs, cores or nodes, or choose another queue.",
    ),
    Refusal(
        r"maximum number of jobs|would exceed.*limit|too many queued",
        "limit",
        "",
        "You have as many jobs as you may have.",
        "Wait until other jobs have ended.",
    ),
    Refusal(
        r"reservation",
        "reservation",
        "reservation",
        "The reservation does not exist, is over, or is not for you.",
        "Ask the teacher for today's name, or leave it empty.",
    ),
    *UNREACHED,
)
