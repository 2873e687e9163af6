"""What every scheduler can be asked. Commands are argument lists for the login node; nothing is run here.

Times that an answer names are read as UTC: commands are to be run with ``environment()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from clew_gui.schedulers.job import SCRIPT, JobRef, JobSpec
from clew_gui.schedulers.reasons import Reason
from clew_gui.schedulers.state import JobState, Output, PartitionLimits, Phase, Submitted

Command = tuple[str, ...]


class Scheduler(Protocol):
    """One scheduler's dialect. All methods are pure."""

    name: str
    """slurm, pbs, mnsubmit or none."""
    label: str
    """As people call it."""
    has_queue: bool
    """Whether it keeps a queue, and may start a job again; if not, a job is no more than its processes on the host."""

    def script(self, job: JobSpec) -> str:
        """The job script, exactly as it is sent. Raises ``ProblemError`` for a job that cannot be written safely."""

    def submit(self, job: JobSpec) -> Command:
        """Submit the script that lies as ``job.sh`` in the job's folder."""

    def submitted(self, output: Output) -> Submitted:
        """The id that the scheduler gave, or its refusal in a sentence."""

    def find(self, job: JobSpec) -> Command:
        """Look for the job by its name, after the answer to its submission was lost."""

    def found(self, job: JobSpec, output: Output) -> str:
        """The id of the job of that name; empty when there is none. Raises ``ProblemError`` when nobody answered."""

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """Ask for all of ``jobs`` in one call."""

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """The state of each of ``jobs`` by its id: GONE where the scheduler has no such job, SILENT without answer."""

    def history(self, jobs: Sequence[JobRef]) -> Command | None:
        """Ask for jobs that the scheduler's queue has forgotten; None where nobody keeps such accounts."""

    def ended(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """What the accounts say, by id; jobs that they do not know are left out."""

    def cancel(self, job: JobRef) -> Command:
        """End the job, or take it out of the queue."""

    def hold(self, job: JobSpec) -> Command:
        """Get an interactive shell on an allocation like the job's. It wants a terminal, and ends with it."""

    def relay(self, job: JobRef, command: Command) -> Command | None:
        """Run ``command`` on the job's first node with this end's standard input and output; None where that is not to
        be had."""

    def attach(self, job: JobRef, command: Command) -> Command | None:
        """Run ``command`` on the job's first node before this end's terminal; None where that is not to be had."""

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """Why the job waits, as a sentence; with the partition's ``limits`` it has numbers."""

    def ask_limits(self, partition: str) -> Command | None:
        """Ask what the partition allows; None where the scheduler has no short answer to that."""

    def limits(self, output: Output) -> PartitionLimits:
        """What the partition allows."""


def environment() -> Mapping[str, str]:
    """What the commands need in their environment: one clock, one language, one form of dates, no colours."""
    return {"TZ": "UTC0", "LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}


def in_folder(folder: str, *command: str) -> Command:
    """``command`` with the script as its last argument, in the job's folder."""
    return ("sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", folder, *command, SCRIPT)


def by_number(job: str) -> tuple[int, str]:
    """A sorting key: the latest of several ids of one scheduler is the greatest."""
    return len(job), job


def all_silent(jobs: Sequence[JobRef], output: Output, reason: str = "") -> dict[str, JobState]:
    """SILENT for all of ``jobs``, with the last line that was said as the reason."""
    lines = [line.strip() for line in output.said.splitlines() if line.strip()]
    said = reason or ("no answer in time" if output.late else (lines[-1][:300] if lines else f"status {output.code}"))
    return {job.id: JobState(id=job.id, phase=Phase.SILENT, reason=said) for job in jobs}
