"""The procedure of one job, from a person's order to the scheduler's id, or how that id is found again.

``submit`` reads from top to bottom: log in, install the agent, stage data and exercises, check, write the script, hand
it to the scheduler. From then on the job is watched (``watch.py``), which also concludes how it ended, reached
(``agent_route.py``) and fetched (``job_files.py``). The job book has every stage, so that another program can take over
at any point: ``resume`` goes on. ``end`` asks the scheduler to end the job.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TypeVar

import msgspec

from clew_gui.deploy import preflight
from clew_gui.deploy.install import Installed
from clew_gui.jobs.access import Say, SiteAccess
from clew_gui.jobs.job import JobOrder, JobStage, as_there, not_ended
from clew_gui.jobs.job_files import read_records
from clew_gui.jobs.managed_job import ManagedJob
from clew_gui.schedulers.job import SCRIPT, JobRef, JobSpec
from clew_gui.schedulers.state import Phase
from clew_gui.schedulers.words import asked, describe
from clew_gui.sites.site import job_of
from clew_gui.sites.site_connection import CALL_LIMIT_S, SiteConnection
from clew_gui.ssh.errors import TRANSIENT
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.spec import RunSpec, to_toml

T = TypeVar("T")
_log = logging.getLogger(__name__)

_BOOK_S = 1.0
"""Seconds between two looks into the book while another program may be submitting the job."""
_TURN_S = 0.2
"""Seconds between two looks whether a job that is being submitted has made room."""
_MAYBE_SUBMITTED = frozenset({"scheduler.silent", "job.ended"})
"""The problems after which nobody knows whether the scheduler has the job."""
_TRIES = 3
"""A scheduler that has lost a job three times would lose it again."""


def submit(job: ManagedJob) -> None:
    """Submits a job of the book, which is watched then. Raises ``ProblemError`` when it is refused or nobody wants it
    any more."""
    _await_turn(job)
    connection = None
    try:
        job.say(JobStage.CONNECTING, f"Connects to {job.access.title}.")
        # The first connection is not tried twice: the person who asked learns at once what is wrong.
        connection = job.access.connected()
        spec = _insist(job, partial(_prepare, job), job.unreached, TRANSIENT)  # nothing is lost by trying again
        found = _hand_over(job, spec)
    except ProblemError as error:
        if error.problems[0].code not in _MAYBE_SUBMITTED | TRANSIENT and connection is not None:
            connection.remove_unbegun(job.id)
        raise
    finally:
        job.access.turns.release()
    _submitted(job, found)


def preview(access: SiteAccess, order: JobOrder) -> str:
    """The job script exactly as it would be sent. Installs the agent and stages exercises if that was not done before,
    since the script names where they are. Raises ``ProblemError``."""
    connection = access.connected()
    exercises = _stage_exercises(access, order, _log.info)
    return connection.scheduler.script(job_spec(connection, order, access.installed(), exercises))


# --- Log in -----------------------------------------------------------------------------------------------------------


def _await_turn(job: ManagedJob) -> None:
    while not job.access.turns.acquire(blocking=False):
        job.say(JobStage.DRAFT, "Waits until other jobs are sent.")
        _check_wanted(job)
        job.pause(_TURN_S)


# --- Install, stage, check, write -------------------------------------------------------------------------------------


def _prepare(job: ManagedJob) -> JobSpec:
    """Bring what the job needs, check that it can run, and put its script and specs into its folder.

    Raises ``ProblemError``; what is refused leaves no folder on the site.
    """
    order, access, say = job.order, job.access, partial(_say_preparing, job)
    say(f"Checks what {access.title} has of Clew.")
    installed = access.installed(say)
    connection = access.connected()
    preflight.check_time(connection, order.allocation)
    staged = access.deployer.stage(connection, order.data, say) if order.data else ""
    exercises = _stage_exercises(access, order, say)
    runs = [there(spec, order, staged) for spec in order.runs]
    environment = agent_environment(connection, installed)
    access.deployer.check_runs(connection, environment, runs, bool(order.exercises))
    return _write_job(connection, job_spec(connection, order, installed, exercises), runs)


def _stage_exercises(access: SiteAccess, order: JobOrder, say: Say) -> str:
    """The order's own exercises on the site, brought there; empty without any. Raises ``ProblemError``."""
    if not order.exercises:
        return ""
    return access.deployer.stage_exercises(access.connected(), Path(order.exercises).expanduser(), say)


def job_spec(connection: SiteConnection, order: JobOrder, installed: Installed, exercises: str = "") -> JobSpec:
    """The scheduler's job for an order. ``exercises`` is the folder of own exercises on the site."""
    site = connection.site
    idle = ("--idle", "inf") if order.hold else ()
    ports = ("--ports", "-".join(map(str, site.ports))) if site.ports else ()
    own = ("--exercises", exercises) if exercises else ()
    agent = (*installed.command, "serve", "--job", *idle, *ports, *own)
    folder = connection.layout().job(order.job)
    return connection.job(order.job, folder, agent, order.allocation, agent_environment(connection, installed))


def agent_environment(connection: SiteConnection, installed: Installed) -> dict[str, str]:
    """Returns the environment variables that the agent needs, after the site's modules and prologue."""
    data = connection.site.data
    home = {"CLEW_HOME": connection.layout().home} | ({"CLEW_COURSE_DATA": data} if data else {})
    return {**installed.environment, **home}


def there(spec: RunSpec, order: JobOrder, staged: str) -> RunSpec:
    """The spec as the site reads it: the laptop's data are where they were brought, the site's own are a path there."""
    if order.data and spec.data == order.data:
        return msgspec.structs.replace(spec, data=staged)
    return as_there(spec)


def _write_job(connection: SiteConnection, spec: JobSpec, runs: Sequence[RunSpec]) -> JobSpec:
    """Writes the job's script and the specs of its runs into its folder."""
    script = connection.scheduler.script(spec)
    folder = connection.layout().job_runs(spec.job)
    connection.make_folder(folder)
    for run in runs:
        connection.ssh.write(f"{folder}/{run.run}.toml", to_toml(run).encode())
    connection.ssh.write(f"{spec.folder}/{SCRIPT}", script.encode(), mode=0o700)
    return spec


def _say_preparing(job: ManagedJob, text: str) -> None:
    """A transfer reports its progress every second and is ended there if nobody wants the job any more."""
    _check_wanted(job)
    job.say(JobStage.PREPARING, text)


def _check_wanted(job: ManagedJob) -> None:
    news = job.book.news(job.id)
    if news.over and news.problem is not None:
        raise ProblemError(news.problem)
    if _given_up(job):
        raise problem("job.cancelled", "You cancelled the job; nothing was sent.")


def _given_up(job: ManagedJob) -> bool:
    """Whether the job was given up, also by another program: it was reported as never sent, so it must not run."""
    return job.book.end_request(job.id) is not None or job.book.news(job.id).over or job.closing


# --- Submit -----------------------------------------------------------------------------------------------------------


def _hand_over(job: ManagedJob, spec: JobSpec) -> str:
    """Hand it to the scheduler, once; the scheduler's id.

    When the answer is lost the job is looked for by its name before it is handed over again. Raises ``ProblemError``
    when it is refused, or when nobody wants it any more.
    """
    title, scheduler = job.access.title, job.access.connected().scheduler
    say = partial(job.say, JobStage.SUBMITTING)
    exported = spec.allocation.account if not job.order.allocation.account else ""
    charged = f", charged to {exported}, which {scheduler.account_variable} names there" if exported else ""
    say(f"Goes to {scheduler.label} on {title}{charged}." if scheduler.has_queue else f"Starts on {title}.")
    for _ in range(_TRIES):
        connection = job.access.connected()  # what is wrong before anything was sent is the caller's
        if _given_up(job):
            raise problem("job.cancelled", "You cancelled the job; nothing was sent.")
        try:
            answer = scheduler.submitted(connection.run(scheduler.submit(spec)))
        except ProblemError:
            say("The connection was lost while the job was sent; Clew is looking for it.")
        else:
            if answer.id:
                return answer.id
            if answer.problem is not None and not answer.lost:
                raise ProblemError(answer.problem)
            say(f"The {asked(scheduler)} did not answer in time; Clew looks for the job before it sends it again.")
        if found := _find(job, spec, say):
            return found
    text = f"The {asked(scheduler)} accepted the job several times and lost it."
    raise problem("scheduler.silent", text, "Try again later.")


def _find(job: ManagedJob, spec: JobSpec, say: Say, pause_s: float = 0.0) -> str:
    """The id of a job that the scheduler may have; empty when it has not, which is looked at twice, after ``pause_s``
    seconds at least.

    Waits until the site answers, whatever is wrong meanwhile. Raises ``ProblemError`` only when nobody waits any more.
    """
    found = _look(job, spec, say)
    if not found:
        _rest_all(job, max(job.watch.sure, pause_s))
        found = _look(job, spec, say, again=True)
    return found


def _look(job: ManagedJob, spec: JobSpec, say: Say, again: bool = False) -> str:
    """The id of a job that the scheduler lists, or that has left a record. ``again``: in another way as well."""

    def look() -> str:
        connection = job.access.connected()
        scheduler = connection.scheduler
        found = scheduler.found(spec, connection.run(scheduler.find(spec)))
        state = connection.asked_again(JobRef("", spec.job)) if again and not found else None
        if state is not None and state.phase is Phase.SILENT:
            raise problem("scheduler.silent", describe(state, scheduler).text)
        found = state.id if state is not None else found
        record = read_records(connection, (spec.job,)).get(spec.job) if not found else None
        return record.id if record is not None else found

    return _insist(job, look, lambda found: say(found.text))


def _insist(job: ManagedJob, work: Callable[[], T], report: Callable[[Problem], None], only: Collection[str] = ()) -> T:
    """Does ``work``, again and again while it cannot be done, whatever the problem is, or if it is one of ``only``.
    Raises ``ProblemError`` when nobody waits any more."""
    pauses = _pauses()
    while True:
        try:
            return work()
        except ProblemError as error:
            if only and error.problems[0].code not in only:
                raise
            report(error.problems[0])
        _rest(job, next(pauses))


def _pauses() -> Iterator[float]:
    """The seconds before each further attempt."""
    return chain((1.0, 2.0, 4.0, 8.0, 16.0), repeat(30.0))


def _rest_all(job: ManagedJob, seconds: float) -> None:
    """Waits the whole time, also when something changes meanwhile: the scheduler is no faster for that."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _rest(job, left)


def _rest(job: ManagedJob, seconds: float) -> None:
    if not job.pause(seconds):
        raise problem("job.ended", "Clew no longer waits for it.")


def _submitted(job: ManagedJob, job_id: str) -> None:
    job.submitted(job_id)
    if job.book.end_request(job.id) is not None:
        end(job)


# --- Found again ------------------------------------------------------------------------------------------------------


def resume(job: ManagedJob) -> None:
    """Goes on with a job of the book that may or may not have been submitted: it is watched if it was, or left to the
    program that handles it. Raises ``ProblemError`` if it was not submitted."""
    if found := found_again(job):
        _submitted(job, found)


def found_again(job: ManagedJob) -> str:
    """Finds the id of a job in the book that may or may not have been submitted; empty if another program handles it.
    Raises ``ProblemError`` if it was not, or this program closes."""
    if not _await_lock(job):
        return ""
    if job.book.news(job.id).stage is not JobStage.SUBMITTING:
        text = "The job was never sent: the program that was about to send it has ended."
        raise problem("job.unsent", text, "Send it again.")
    say = partial(job.say, JobStage.SUBMITTING)
    say("It is not known whether the job was sent; Clew is looking for it.")
    connection = _insist(job, job.access.connected, job.unreached)
    spec = job_of(connection.site, job.id, "/", (), job.order.allocation)  # it is found by its name
    # What a program ran there may outlive it: until then the scheduler may still get the job.
    if found := _find(job, spec, say, CALL_LIMIT_S - job.book.age_s(job.id)):
        return found
    raise problem("job.unsent", "The scheduler did not get the job.", "Send it again.")


def _await_lock(job: ManagedJob) -> bool:
    """Wait until no other program submits the job; False when it was submitted or ended meanwhile, or this program
    closes."""
    while True:
        job.sending = job.sending or job.book.lock(job.id)
        job.book.refresh()
        news = job.book.news(job.id)
        if job.sending is not None and not (news.over or news.id):
            return True
        job.take_over()
        if news.over or news.id or not job.pause(_BOOK_S):
            return False


# --- End --------------------------------------------------------------------------------------------------------------


def end(job: ManagedJob) -> None:
    """Asks the scheduler to end the job, until it was asked; a thread that submits it does that afterwards."""
    ref, pauses = JobRef(job.news.id, job.id), _pauses()
    while ref.id and not job.news.over:
        try:
            connection = job.access.connected()
            done = connection.run(connection.scheduler.cancel(ref))
        except ProblemError as error:
            job.unreached(error.problems[0])
        else:
            job.watch.hurry()  # it may be over already
            if not done.late and not done.code:
                return
            job.publish(partial(not_ended, done=done))
        if not job.pause(next(pauses)):
            return
