"""Runs jobs without a scheduler: the job is a process on the SSH host itself, in a session of its own, with the same
keeper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clew_gui.schedulers.job import GRACE_S, SCHEDULER_LOG, SCRIPT, JobRef, JobSpec, keeper
from clew_gui.schedulers.scheduler import Command, Scheduler, SitePreset, all_silent, submission
from clew_gui.schedulers.state import JobState, Output, PartitionLimits, Phase, Reason, Submitted
from clew_shared.base.problem import problem

_START = f'cd -- "$1" && {{ setsid bash -l "$1/{SCRIPT}" </dev/null >>{SCHEDULER_LOG} 2>&1 & echo "$!"; }}'
_LIST = ("ps", "-ww", "-x", "-o", "pid=,pgid=,args=")
_LOOK = rf"""{" ".join(_LIST)}
clew_code=$?
for clew_job; do
    if grep -qszxF "CLEW_JOB=$clew_job" /proc/[0-9]*/environ; then echo "at work $clew_job"; fi
done
exit $clew_code"""
"""The processes, and which of the jobs have one that descends from their agent: those outlive a keeper that was
killed."""
_END = f"""
case $(ps -ww -o args= -p "$1") in *"$2/"*) kill -s TERM "$1" && exit ;; esac
clew_job=$2 clew_grace={GRACE_S} clew_agent='' clew_own='' clew_left=0
[ -z "$(clew_marked)" ] || clew_end_processes </dev/null >/dev/null 2>&1 &
"""
"""Sends TERM to the keeper, if the process is still the keeper. If it was killed, its functions end what it left, after
the call."""


class NoScheduler(Scheduler):
    """A plain SSH host. An id is a process id; the command line of the process names the job, so another one that
    has got the same id later is not taken for it."""

    name = "none"
    label = "no scheduler"
    has_queue = False
    directives = None
    signature = None
    preset = SitePreset("ssh", "A machine with SSH")
    usual_time = ""

    def header(self, job: JobSpec, plain: str = "") -> list[str]:
        """No lines: nobody reads them."""
        return []

    def submit(self, job: JobSpec) -> Command:
        """Start the script and print its process id; it outlives the connection."""
        return ("sh", "-c", _START, "sh", job.folder)

    def submitted(self, output: Output) -> Submitted:
        """The process id."""
        return submission(output, r"([0-9]{1,10})", ())

    def find(self, job: JobSpec) -> Command:
        """Looks among the user's own processes."""
        return _LIST

    def found(self, job: JobSpec, output: Output) -> str:
        """The leader of the job's process group."""
        if output.failed:
            raise problem("scheduler.silent", "The host does not list its processes.", "Try again in a minute.")
        return next((str(pid) for pid, name in _keepers(output.out) if name == job.job), "")

    def status(self, jobs: Sequence[JobRef]) -> Command:
        """Looks among the user's own processes; one call for all jobs."""
        return ("sh", "-c", _LOOK, "sh", *(job.job for job in jobs))

    def states(self, jobs: Sequence[JobRef], output: Output) -> dict[str, JobState]:
        """Reads the jobs' states: a job with a process is running; nothing is known of one without."""
        if output.late or output.code not in (0, 1):
            return all_silent(jobs, output)
        alive = {(str(pid), name) for pid, name in _keepers(output.out)}
        at_work = set(re.findall(r"(?m)^at work ([0-9a-f-]{36})$", output.out))
        return {
            job.id: JobState(
                id=job.id,
                name=job.job,
                phase=Phase.RUNNING if (job.id, job.job) in alive or job.job in at_work else Phase.GONE,
            )
            for job in jobs
        }

    def cancel(self, job: JobRef) -> Command:
        """Sends TERM to the keeper, which ends the rest; if the keeper is gone, the rest is ended in the same way."""
        return ("bash", "-c", keeper() + _END, "bash", job.id, job.job)

    def hold(self, job: JobSpec) -> Command:
        """A login shell."""
        return ("bash", "-l")

    def explain(self, state: JobState, limits: PartitionLimits | None = None) -> Reason:
        """Says that the job does not wait."""
        return Reason("It starts at once.")


def _keepers(text: str) -> Iterator[tuple[int, str]]:
    """Process id and job of each keeper that leads its process group, in the output of ``ps``."""
    form = re.compile(rf"\s*([0-9]{{1,10}})\s+([0-9]{{1,10}})\s.*/([0-9a-f-]{{36}})/{re.escape(SCRIPT)}\s*")
    for line in text.splitlines():
        match = form.fullmatch(line)
        if match is not None and match[1] == match[2]:
            yield int(match[1]), match[3]
