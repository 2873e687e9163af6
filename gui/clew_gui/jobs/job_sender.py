"""The procedure of one job, from a person's order to the scheduler's id, or how that id is found again.

``JobSender.send`` reads from top to bottom: log in, install the agent, stage data and exercises, check, write the
script, submit. What follows is watched (``watch.py``), reached (``target.py``) and fetched (``journal_files.py``).
The job book has every stage, so that another program can take over at any point.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from clew_gui.deploy import install, preflight, staging
from clew_gui.deploy.install import Installed
from clew_gui.jobs import job_news
from clew_gui.jobs.background import BackgroundTasks, pauses
from clew_gui.jobs.job import JobNews, JobOrder, JobStage, as_there
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.job_files import read_record
from clew_gui.jobs.status_store import JobStatusStore
from clew_gui.schedulers.job import SCRIPT, JobSpec
from clew_gui.schedulers.words import asked
from clew_gui.sites.site import job_of
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.errors import TRANSIENT
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.spec import RunSpec, to_toml

_log = logging.getLogger(__name__)

Say = Callable[[str], None]
"""Takes progress in sentences."""

_SENDERS = 2
"""Jobs that are sent at the same time: more would only share the same line."""
_BOOK_S = 1.0
"""Seconds between two looks into the book while another program may be sending the job."""
BEAT_S = 15.0
"""The seconds between two notes in the book by a program that sends a job."""
QUIET_S = 60.0
"""The seconds without a note after which a program that does not run here is assumed not to send any more: four notes
in a row are missing, longer than a network disk makes anybody wait."""
_MAYBE_SENT = frozenset({"scheduler.silent", "job.ended"})
"""The problems after which nobody knows whether the scheduler has the job."""
_BEAT = "beat "
_UNSURE = "The program that was about to send the job is not seen any more; if it is silent for a minute, it has ended."
_NO_AGENT = Installed(command=("?",), environment={}, python="", tensorflow="")
_SENDS = 3
"""A scheduler that has lost a job three times would lose it again."""


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


class JobSender:
    """Sends jobs of one site, a few at a time, and notes in ``statuses`` how far each is. ``reach`` is the site's
    connection, which asks no person twice; ``installed`` brings the agent there; both may wait and raise
    ``ProblemError``. ``title`` is the site's. A job that may have been taken is looked for once more after ``sure``
    seconds. ``clock`` measures how long something lasts, ``today`` seconds since 1970.
    """

    def __init__(
        self,
        reach: Callable[[], SiteConnection],
        installed: Callable[[Say], Installed],
        title: Callable[[], str],
        book: JobBook,
        statuses: JobStatusStore,
        tasks: BackgroundTasks,
        deployer: Deployer,
        sure: float,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], float] = time.time,
    ) -> None:
        self._reach = reach
        self._installed = installed
        self._title = title
        self._book = book
        self._statuses = statuses
        self._tasks = tasks
        self._deployer = deployer
        self._sure = sure
        self._clock = clock
        self._today = today
        self._places = threading.Semaphore(_SENDERS)

    def send(self, order: JobOrder) -> str:
        """Send the job; the scheduler's id. Raises ``ProblemError`` when it is refused or nobody wants it any more."""
        job = order.job
        self._tasks.start(_BEAT + job, lambda: self._beat(job))
        self._await_turn(job)
        connection = None
        try:
            connection = self._log_in(job)
            spec = self._patiently(job, lambda: self._prepare(order))
            return self._submit(spec)
        except ProblemError as error:
            if error.problems[0].code not in _MAYBE_SENT | TRANSIENT and connection is not None:
                connection.remove_unbegun(job)
            raise
        finally:
            self._places.release()

    def preview(self, order: JobOrder) -> str:
        """The job script exactly as it would be sent. Installs the agent and stages exercises if that was not done
        before, since the script names where they are. Raises ``ProblemError``."""
        connection = self._reach()
        exercises = self._stage_exercises(order, _log.info)
        return connection.scheduler.script(job_spec(connection, order, self._installed(_log.info), exercises))

    # --- Log in -------------------------------------------------------------------------------------------------------

    def _await_turn(self, job: str) -> None:
        if not self._places.acquire(blocking=False):
            self._at(job, JobStage.DRAFT, "Waits until other jobs are sent.")
            self._places.acquire()

    def _log_in(self, job: str) -> SiteConnection:
        """Connects to the site. The first connection is not tried twice: the person who asked learns at once what is
        wrong."""
        self._at(job, JobStage.CONNECTING, f"Connects to {self._title()}.")
        return self._reach()

    # --- Install, stage, check, write ---------------------------------------------------------------------------------

    def _prepare(self, order: JobOrder) -> JobSpec:
        """Bring what the job needs, check that it can run, and put its script and specs into its folder.

        Raises ``ProblemError``; what is refused leaves no folder on the site.
        """
        say = partial(self._say_preparing, order.job)
        say(f"Prepares {self._title()}.")
        installed = self._installed(say)
        connection = self._reach()
        preflight.check_time(connection, order.allocation)
        staged = self._deployer.stage(connection, order.data, say) if order.data else ""
        exercises = self._stage_exercises(order, say)
        runs = [there(spec, order, staged) for spec in order.runs]
        environment = agent_environment(connection, installed)
        self._deployer.check_runs(connection, environment, runs, bool(order.exercises))
        return _write_job(connection, job_spec(connection, order, installed, exercises), runs)

    def _stage_exercises(self, order: JobOrder, say: Say) -> str:
        """The order's own exercises on the site, brought there; empty without any. Raises ``ProblemError``."""
        if not order.exercises:
            return ""
        return self._deployer.stage_exercises(self._reach(), Path(order.exercises).expanduser(), say)

    def _patiently(self, job: str, work: Callable[[], JobSpec]) -> JobSpec:
        """Do ``work``, again and again while the network is away: nothing is lost by that."""
        pause = pauses()
        while True:
            self._check_wanted(job)
            try:
                return work()
            except ProblemError as error:
                if error.problems[0].code not in TRANSIENT:
                    raise
                self._unreached(job, error.problems[0])
            self._tasks.pause(pause())

    def _say_preparing(self, job: str, text: str) -> None:
        """A transfer reports its progress every second and is ended there if nobody wants the job any more."""
        self._check_wanted(job)
        self._at(job, JobStage.PREPARING, text)

    def _check_wanted(self, job: str) -> None:
        news = self._book.news(job)
        if news.over and news.problem is not None:
            raise ProblemError(news.problem)
        if self._given_up(job):
            raise problem("job.cancelled", "You cancelled the job; nothing was sent.")

    def _given_up(self, job: str) -> bool:
        """Whether the job was given up, also by another program: it was reported as never sent, so it must not run."""
        return self._book.wish(job) is not None or self._book.news(job).over or self._tasks.closing

    # --- Submit -------------------------------------------------------------------------------------------------------

    def _submit(self, spec: JobSpec) -> str:
        """Hand it to the scheduler, once; the scheduler's id.

        When the answer is lost the job is looked for by its name before it is sent again. Raises ``ProblemError`` when
        it is refused, or when nobody wants it any more.
        """
        job, title, scheduler = spec.job, self._title(), self._reach().scheduler
        say = self._say(job, JobStage.SUBMITTING)
        say(f"Goes to {scheduler.label} on {title}." if scheduler.has_queue else f"Starts on {title}.")
        for _ in range(_SENDS):
            connection = self._reach()  # what is wrong before anything was sent is the caller's
            if self._given_up(job):
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
                who = asked(scheduler)
                say(f"The {who} did not answer in time; Clew looks for the job before it sends it again.")
            found = self._find(spec, say)
            if found:
                return found
        text = f"The {asked(scheduler)} accepted the job several times and lost it."
        raise problem("scheduler.silent", text, "Try again later.")

    def _find(self, spec: JobSpec, say: Say) -> str:
        """The id of a job that may have been taken; empty when it was not, which is looked at twice.

        Waits until the site answers, whatever is wrong meanwhile. Raises ``ProblemError`` only when nobody waits any
        more.
        """
        for look in range(2):
            found = self._look(spec, say)
            if found:
                return found
            if look == 0:
                self._rest_all(self._sure)
        return ""

    def _look(self, spec: JobSpec, say: Say) -> str:
        pause = pauses()
        while True:
            try:
                connection = self._reach()
                scheduler = connection.scheduler
                found = scheduler.found(spec, connection.run(scheduler.find(spec)))
                if not found:
                    record = read_record(connection, spec.job)
                    found = record.id if record is not None else ""
                return found
            except ProblemError as error:
                say(error.problems[0].text)
            self._rest(pause())

    def _rest_all(self, seconds: float) -> None:
        """Waits the whole time, also when something changes meanwhile: the scheduler is no faster for that."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._rest(left)

    def _rest(self, seconds: float) -> None:
        if not self._tasks.pause(seconds):
            raise problem("job.ended", "Clew no longer waits for it.")

    # --- Found again --------------------------------------------------------------------------------------------------

    def find(self, job: str) -> str:
        """Finds the id of a job in the book that may or may not have been sent; empty if another program handles it, or
        the manager closes. Raises ``ProblemError`` if it was not sent."""
        while self._await_silence(job):
            if self._book.news(job).stage is not JobStage.SUBMITTING:
                text = "The job was never sent: the program that was about to send it has ended."
                raise problem("job.unsent", text, "Send it again.")
            before = self._book.written(job)
            say = self._say(job, JobStage.SUBMITTING)
            say("It is not known whether the job was sent; Clew is looking for it.")
            connection = self._found_home(job)
            if connection is None:
                return ""
            spec = job_spec(connection, self._book.order(job), _NO_AGENT)  # it is found by its name
            found = self._find(spec, say)
            if found:
                return found
            self._book.refresh()
            if self._book.written(job) == before:  # else the program that sends it has come back meanwhile
                raise problem("job.unsent", "The scheduler did not get the job.", "Send it again.")
        return ""

    def _await_silence(self, job: str) -> bool:
        """Wait until nobody sends the job any more; False when it was sent or ended meanwhile, or the manager closes.

        That its sender is not seen here proves nothing: it may run in a container, or on another computer with the same
        home. So it must have been silent as well. What was written long ago counts at once, unless by another
        computer's clock; otherwise the silence is awaited here.
        """
        self._book.refresh()
        sender, heard, since = self._book.sender(job), self._book.written(job), self._clock()
        if sender is None or sender.is_me:
            return True
        long_ago = sender.is_here and self._today() - heard[1] >= QUIET_S
        while True:
            news = self._book.news(job)
            if not (news.over or news.id or sender.alive):
                if long_ago or self._clock() - since >= QUIET_S:
                    return True
                news = replace(news, text=_UNSURE)
            self._statuses.publish(job, partial(_instead, now=news))
            if news.over or news.id or not self._tasks.pause(_BOOK_S):
                return False
            self._book.refresh()
            if sender.alive or self._book.written(job) != heard:
                heard, since, long_ago = self._book.written(job), self._clock(), False

    def _found_home(self, job: str) -> SiteConnection | None:
        """The connection, when it is known where things lie; None when the manager closes before."""
        pause = pauses()
        while True:
            try:
                connection = self._reach()
                connection.layout()
                return connection
            except ProblemError as error:
                self._unreached(job, error.problems[0])
            if not self._tasks.pause(pause()):
                return None

    # --- Helpers ------------------------------------------------------------------------------------------------------

    def _beat(self, job: str) -> None:
        """Say so in the book as long as it is being sent, also while a person is asked or much is brought there."""
        due = self._clock() + BEAT_S
        while self._tasks.pause(BEAT_S) and self._tasks.is_busy(job):
            if self._clock() < due:  # woken for something else
                continue
            try:
                self._book.note_beat(job)
            except OSError as error:
                _log.warning("It cannot be recorded that a job is being sent: %s", error)
            due = self._clock() + BEAT_S

    def _say(self, job: str, stage: JobStage) -> Say:
        return lambda text: self._at(job, stage, text)

    def _at(self, job: str, stage: JobStage, text: str) -> None:
        self._statuses.publish(job, lambda news: replace(news, stage=stage, text=text, problem=None))

    def _unreached(self, job: str, found: Problem) -> None:
        self._statuses.publish(job, lambda news: job_news.unreached(news, found, self._title()))


def _instead(_before: JobNews, now: JobNews) -> JobNews:
    return now


def _write_job(connection: SiteConnection, job: JobSpec, runs: Sequence[RunSpec]) -> JobSpec:
    """Writes the job's script and the specs of its runs into its folder."""
    script = connection.scheduler.script(job)
    folder = connection.layout().job_runs(job.job)
    connection.make_folder(folder)
    for spec in runs:
        connection.connection.write(f"{folder}/{spec.run}.toml", to_toml(spec).encode())
    connection.connection.write(f"{job.folder}/{SCRIPT}", script.encode(), mode=0o700)
    return job
