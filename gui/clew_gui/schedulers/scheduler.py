"""The interface of every scheduler. Commands are argument lists for the login node; nothing is run here.

Times that an answer names are read as UTC: commands are to be run as ``without_exports`` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from clew_gui.schedulers.allocation import AllocationRequest, Partition
from clew_gui.schedulers.job import SCRIPT, UNEXPORT, Directives, JobRef, JobSpec, check_job, render, render_plain
from clew_gui.schedulers.state import JobState, Output, PartitionLimits, Phase, Reason, Submitted
from clew_shared.base.problem import Problem

Command = tuple[str, ...]
NOT_FOUND = 127
"""A shell's status if there is no such command."""


class Refusal(NamedTuple):
    """A pattern in the scheduler's answer, the code for programs, the field concerned, the sentence and the hint."""

    pattern: str
    code: str
    where: str
    text: str
    hint: str


UNREACHED = (
    Refusal(
        r"unable to contact slurm controller|slurm backup controller in standby|unexpected message received|"
        r"cannot connect|connection refused|timed? ?out|end of file|pbs_iff|no default server|batch protocol error",
        "silent",
        "",
        "The scheduler does not answer.",
        "Clew looks for the job by its name before it is sent again.",
    ),
    Refusal(
        r"command not found|(sbatch|mnsubmit|qsub): not found|No such file or directory: 'sbatch'",
        "command",
        "scheduler",
        "The scheduler's commands are not found on this host.",
        "Is this the login node, and is the site's scheduler the right one?",
    ),
)
"""What commands say that could not reach their scheduler: PBS', Slurm's, and front ends of it."""


T = TypeVar("T")


class Question(NamedTuple, Generic[T]):
    """A command that asks the scheduler something, and the function that reads its answer."""

    command: Command
    read: Callable[[Output], T]


class Signature(NamedTuple):
    """The signs by which a scheduler is recognised on a host: the ``command`` that submits its jobs, unless one of
    ``others`` is there too, which shows that the command is another scheduler's. What ``version`` prints has ``select``
    in it if jobs must be asked for with ``select=``."""

    command: str
    others: tuple[str, ...] = ()
    version: Command = ()
    select: str = ""


class SitePreset(NamedTuple):
    """The site to begin with on any machine with this scheduler: its ``name`` in commands, its ``title`` in menus."""

    name: str
    title: str


class Scheduler(Protocol):
    """One scheduler's dialect. All methods are pure; those with a body are for schedulers that cannot be asked that."""

    name: str
    """The name in site files."""
    label: str
    """The name for people."""
    has_queue: bool
    """Whether it keeps a queue, and may start a job again; if not, a job is no more than its processes on the host."""
    directives: Directives | None
    """The further lines that a site may give it; None if it reads none."""
    signature: Signature | None
    """The signs by which it is recognised on a host; None if a person has to choose it."""
    preset: SitePreset | None
    """The site to begin with; None if no machine is left that could have this scheduler."""
    usual_time: str
    """The time that a new site asks for; empty if nobody needs to ask."""
    account_variable: str = ""
    """The variable in which a person's start files may name the account for all jobs; empty if there is none."""
    enter_folder: str = ""
    """The line of shell that enters the folder of submission; empty if jobs begin there."""

    def header(self, job: JobSpec, plain: str = "") -> list[str]:
        """The lines for the scheduler at the top of the script: of Clew's job, or of one that is called ``plain`` and
        runs a command without Clew."""

    def script(self, job: JobSpec, plain: str = "") -> str:
        """The job script, exactly as it is sent; with the name ``plain`` the one that a person would write to run the
        same command. Raises ``ProblemError`` for a job that cannot be written safely."""
        check_job(job, self.directives)
        header = self.header(job, plain)
        return render_plain(job, header, self.enter_folder) if plain else render(job, header)

    def settings(self, extra: Sequence[str]) -> Mapping[str, str]:
        """The variables that the scheduler's programs need for a site with these directives of its own."""
        return {}

    def submit(self, job: JobSpec) -> Command:
        """Submit the script that lies as ``job.sh`` in the job's folder."""

    def submitted(self, output: Output) -> Submitted:
        """The id that the scheduler gave, or its refusal in a sentence."""

    def find(self, job: JobSpec) -> Command:
        """Look for the job by its name, after the answer to its submission was lost."""

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the job of that name; empty when there is none. Raises ``ProblemError`` when nobody answered."""

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """Ask for all of ``jobs``, which are on one cluster, in one call."""

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """The state of each of ``jobs`` by its id: GONE where the scheduler has no such job, SILENT without answer."""

    def ask_again(self, job: JobRef) -> Command | None:
        """Ask for one job in another way than ``status`` and ``find`` do; without an id by its name. None where there
        is no other way."""
        return None

    def heard_again(self, job: JobRef, output: Output) -> JobState | None:
        """The job's state in the answer to ``ask_again``: SILENT if it is none, None if the scheduler has no such
        job, or cannot be asked like that."""
        return None

    def history(self, jobs: Sequence[JobRef]) -> Question[dict[str, JobState]] | None:
        """The states by id of jobs that the scheduler's queue has forgotten; those that the accounts do not know are
        left out. None if nobody keeps such accounts."""
        return None

    def queue(self, asked: AllocationRequest) -> Question[list[JobState] | None] | None:
        """Everybody's jobs where such a job would be: in its reservation, else in its partition; None as the answer
        where nobody knows. None where the scheduler has no short answer to that."""
        return None

    def cancel(self, job: JobRef) -> Command:
        """End the job, or take it out of the queue."""

    def hold(self, job: JobSpec) -> Command:
        """Get an interactive shell on an allocation like the job's. It wants a terminal, and ends with it."""

    def relay(self, job: JobRef, command: Command) -> Command | None:
        """Run ``command`` on the job's first node with this end's standard input and output; None where that is not to
        be had."""
        return None

    def attach(self, job: JobRef, command: Command) -> Command | None:
        """Run ``command`` on the job's first node before this end's terminal; None where that is not to be had."""
        return None

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """Says why the job waits; with the partition's ``limits`` the sentence has numbers."""

    def limits(self, partition: str) -> Question[PartitionLimits] | None:
        """What the partition allows; None where the scheduler has no short answer to that."""
        return None

    def partitions(self) -> Question[tuple[Partition, ...]] | None:
        """All partitions, none if they are not known; None where the scheduler does not list them."""
        return None

    def most_gpus(self) -> Question[int | None] | None:
        """The most GPUs that one node has, where the partitions' answer does not name them."""
        return None

    def node_up(self) -> Question[str] | None:
        """A node that is up, empty if none is named; None where the scheduler does not list them."""
        return None

    def accounts(self) -> Question[tuple[str, ...]] | None:
        """The user's own accounts, none if the site keeps none; None where the scheduler does not list them."""
        return None

    def ask_acceptance(self) -> Command | None:
        """Ask whether the job whose script is on standard input would be taken, and ``submitted`` reads why not; None
        where only a job can show it."""
        return None

    def ran_out_of_memory(self, printed: str) -> bool:
        """Whether the scheduler wrote so into the job's output; some call such a job failed everywhere else."""
        return False


def environment() -> Mapping[str, str]:
    """Returns the environment that the commands need: one clock, one language, one form of dates, no colours."""
    return {"TZ": "UTC0", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}


def without_exports(command: Command, settings: Mapping[str, str]) -> Command:
    """``command`` with these variables, and without those by which a person's own start files would change what the
    scheduler's programs do."""
    words = (f"{name}={value}" for name, value in settings.items())
    return ("sh", "-c", f'{UNEXPORT}\nexec env "$@"', "sh", *words, *command)


def in_folder(folder: str, *command: str) -> Command:
    """``command`` with the script as its last argument, in the job's folder."""
    return ("sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", folder, *command, SCRIPT)


def by_number(job: str) -> tuple[int, str]:
    """A sorting key: the latest of several ids of one scheduler is the greatest."""
    return len(job), job


def is_silent(said: str) -> bool:
    """Whether this is the answer of a command that could not reach its scheduler."""
    return any(re.search(one.pattern, said, re.IGNORECASE) for one in UNREACHED)


def not_heard(job: JobRef, output: Output, is_answer: bool) -> JobState | None:
    """The result of ``heard_again`` where no job is listed: None for an answer, or without such a command."""
    return None if (is_answer and not output.late) or output.code == NOT_FOUND else all_silent([job], output)[job.id]


def all_silent(jobs: Sequence[JobRef], output: Output, reason: str = "") -> dict[str, JobState]:
    """SILENT for all of ``jobs``, with the last line that was said as the reason."""
    lines = [line.strip() for line in output.said.splitlines() if line.strip()]
    said = reason or ("no answer in time" if output.late else (lines[-1][:300] if lines else f"status {output.code}"))
    return {job.id: JobState(id=job.id, phase=Phase.SILENT, reason=said) for job in jobs}


def submission(output: Output, id_form: str, refusals: Sequence[Refusal]) -> Submitted:
    """The job's id where a line of the output has the form ``id_form``, of which a second group is the cluster's name;
    else the refusal that is recognised.

    Sites' wrappers print lines of their own before and after, so all lines are looked at, the last one first.
    """
    if output.late:
        return Submitted()
    if output.code == 0:
        for line in reversed(output.out.splitlines()):
            match = re.fullmatch(id_form, line.strip())
            if match is not None:
                return Submitted(id=";".join(filter(None, match.groups())))
    problem = _recognise(output, refusals)
    return Submitted() if output.code == 0 and problem.code == "scheduler.refused" else Submitted(problem=problem)


def _recognise(output: Output, refusals: Sequence[Refusal]) -> Problem:
    said = " / ".join(line.strip() for line in output.said.splitlines() if line.strip())[:400]
    for refusal in refusals:
        if re.search(refusal.pattern, output.said, re.IGNORECASE):
            text = f"{refusal.text} It said: {said}{'' if said.endswith(('.', '!')) else '.'}"
            return Problem(f"scheduler.{refusal.code}", text, refusal.hint, refusal.where)
    text = (
        f"The scheduler did not accept the job: {said}"
        if said
        else (f"The scheduler's command ended with exit code {output.code} and printed nothing.")
    )
    return Problem("scheduler.refused", text, "Look for this message in the site's documentation.")
