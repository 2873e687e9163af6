"""Sends a job to a site: copies the agent, data and exercises there, writes the script and submits it to the scheduler.
Everything here waits for the network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from clew_gui.deploy import install, preflight, staging
from clew_gui.deploy.install import Installed
from clew_gui.jobs.background import pauses
from clew_gui.jobs.job import JobOrder, as_there
from clew_gui.schedulers.job import SCHEDULER_LOG, SCRIPT, JobSpec
from clew_gui.schedulers.verdict import ExitRecord, parse_record
from clew_gui.schedulers.words import asked
from clew_gui.sites.site import job_of
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec, to_toml

Say = Callable[[str], None]
"""Takes progress in sentences."""
Pause = Callable[[float], bool]
"""Waits so many seconds; false when nobody wants the rest any more."""

LOOK_AGAIN_S = 5.0
"""A submission that was given up may still be on its way into the scheduler's books."""
_SENDS = 3
_MOST_RECORDS = 200
_PRINTED_BYTES = 16384


class Deployer(msgspec.Struct, frozen=True):
    """The functions that copy things to a site and check there whether they are sufficient; replaced in tests."""

    ensure_agent: Callable[[SiteConnection, Say], Installed] = install.ensure_agent
    stage: Callable[[SiteConnection, str, Say], str] = staging.stage
    stage_exercises: Callable[[SiteConnection, Path, Say], str] = staging.stage_exercises
    check_runs: Callable[[SiteConnection, Mapping[str, str], Sequence[RunSpec], bool], None] = preflight.check_runs


def job_spec(line: SiteConnection, order: JobOrder, installed: Installed, exercises: str = "") -> JobSpec:
    """The scheduler's job for an order. ``exercises`` is the folder of own exercises on the site."""
    idle = ("--idle", "inf") if order.hold else ()
    ports = ("--ports", "-".join(map(str, line.site.ports))) if line.site.ports else ()
    own = ("--exercises", exercises) if exercises else ()
    agent = (*installed.command, "serve", "--job", *idle, *ports, *own)
    folder = line.layout().job(order.job)
    return job_of(line.site, order.job, folder, agent, order.allocation, agent_environment(line, installed))


def agent_environment(line: SiteConnection, installed: Installed) -> dict[str, str]:
    """Returns the environment variables that the agent needs, after the site's modules and prologue."""
    home = {"CLEW_HOME": line.layout().home} | ({"CLEW_COURSE_DATA": line.site.data} if line.site.data else {})
    return {**installed.environment, **home}


def there(spec: RunSpec, order: JobOrder, staged: str) -> RunSpec:
    """The spec as the site reads it: the laptop's data are where they were brought, the site's own are a path there."""
    if order.data and spec.data == order.data:
        return msgspec.structs.replace(spec, data=staged)
    return as_there(spec)


class Submitter:
    """Sends one job after the other. ``say`` gets progress, ``pause`` waits between two attempts, ``wanted`` says
    whether someone still wants the job. ``reach`` gives the line again after it was cut; it asks no person twice.
    A job that may have been taken is looked for once more after ``again`` seconds."""

    def __init__(
        self,
        reach: Callable[[], SiteConnection],
        deployer: Deployer,
        say: Say,
        pause: Pause,
        wanted: Callable[[], bool] = lambda: True,
        again: float = LOOK_AGAIN_S,
    ) -> None:
        self._reach = reach
        self._deployer = deployer
        self._say = say
        self._pause = pause
        self._wanted = wanted
        self._again = again

    def prepare(self, order: JobOrder, installed: Installed) -> JobSpec:
        """Bring what the job needs, check that it can run, and put its script and specs into its folder.

        Raises ``ProblemError``; what is refused leaves no folder on the site.
        """
        line = self._reach()
        preflight.check_time(line, order.allocation)
        staged = self._deployer.stage(line, order.data, self._say) if order.data else ""
        exercises = self.exercises(order)
        runs = [there(spec, order, staged) for spec in order.runs]
        self._deployer.check_runs(line, agent_environment(line, installed), runs, bool(order.exercises))
        job = job_spec(line, order, installed, exercises)
        script = line.scheduler.script(job)
        layout, connection = line.layout(), line.connection
        line.make_folder(layout.job_runs(order.job))
        for spec in runs:
            connection.write(f"{layout.job_runs(order.job)}/{spec.run}.toml", to_toml(spec).encode())
        connection.write(f"{job.folder}/{SCRIPT}", script.encode(), mode=0o700)
        return job

    def exercises(self, order: JobOrder) -> str:
        """The order's own exercises on the site, brought there; empty without any. Raises ``ProblemError``."""
        if not order.exercises:
            return ""
        return self._deployer.stage_exercises(self._reach(), Path(order.exercises).expanduser(), self._say)

    def submit(self, job: JobSpec) -> str:
        """Hand it to the scheduler, once; the scheduler's id.

        When the answer is lost the job is looked for by its name before it is sent again. Raises ``ProblemError`` when
        it is refused, or when nobody wants it any more.
        """
        for _ in range(_SENDS):
            line = self._reach()  # what is wrong before anything was sent is the caller's
            if not self._wanted():
                raise problem("job.cancelled", "You cancelled the job; nothing was sent.")
            try:
                answer = line.scheduler.submitted(line.run(line.scheduler.submit(job)))
            except ProblemError:
                self._say("The connection was lost while the job was sent; Clew is looking for it.")
            else:
                if answer.id:
                    return answer.id
                if answer.problem is not None and not answer.lost:
                    raise ProblemError(answer.problem)
                who = asked(line.scheduler)
                self._say(f"The {who} did not answer in time; Clew looks for the job before it sends it again.")
            found = self.find(job)
            if found:
                return found
        text = f"The {asked(line.scheduler)} accepted the job several times and lost it."
        raise problem("scheduler.silent", text, "Try again later.")

    def find(self, job: JobSpec) -> str:
        """The id of a job that may have been taken; empty when it was not, which is looked at twice.

        Waits until the site answers, whatever is wrong meanwhile. Raises ``ProblemError`` only when nobody waits any
        more.
        """
        for look in range(2):
            found = self._look(job)
            if found:
                return found
            if look == 0:
                self._rest_all(self._again)
        return ""

    def _look(self, job: JobSpec) -> str:
        pause = pauses()
        while True:
            try:
                line = self._reach()
                found = line.scheduler.found(job, line.run(line.scheduler.find(job)))
                if not found:
                    record = read_record(line, job.job)
                    found = record.id if record is not None else ""
                return found
            except ProblemError as error:
                self._say(error.problems[0].text)
            self._rest(pause())

    def _rest_all(self, seconds: float) -> None:
        """Waits the whole time, also when something changes meanwhile: the scheduler is no faster for that."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._rest(left)

    def _rest(self, seconds: float) -> None:
        if not self._pause(seconds):
            raise problem("job.ended", "Clew no longer waits for it.")


def read_record(line: SiteConnection, job: str) -> ExitRecord | None:
    """Reads the latest record that the job's keeper has left; None if there is none.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    folder, latest = line.layout().job(job), None
    for number in range(_MOST_RECORDS):
        path = f"{folder}/record.{number}"
        if line.connection.stat(path) is None:
            break
        latest = parse_record(line.connection.read(path, 0, 65536).decode(errors="replace"), job) or latest
    return latest


def read_printed(line: SiteConnection, job: str, log: str = SCHEDULER_LOG) -> str:
    """The end of what the scheduler wrote into the job's output, or of another log in its folder; empty when there is
    nothing that can be read.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    path = f"{line.layout().job(job)}/{log}"
    try:
        found = line.connection.stat(path)
        start = max(0, found.size - _PRINTED_BYTES) if found is not None else 0
        data = line.connection.read(path, start, _PRINTED_BYTES) if found is not None else b""
    except ProblemError as error:
        if error.problems[0].code != "ssh.file":
            raise
        return ""
    return data.decode(errors="replace")
