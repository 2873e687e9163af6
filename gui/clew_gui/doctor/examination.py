"""What the doctor's checks share: their results, what is known of a machine so far, and how they follow one another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import msgspec

from clew_gui.deploy.probe import Probe
from clew_gui.schedulers.allocation import Partition
from clew_gui.schedulers.registry import scheduler_of
from clew_gui.schedulers.scheduler import Command, Scheduler
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import STILL_S, SiteConnection
from clew_gui.ssh.connection import Connection, Hop, ssh_files
from clew_gui.ssh.dial import ReconnectingConnection
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter, PromptKind, no_one_to_ask
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import Remedy, check_node


class Verdict(StrEnum):
    """The outcome. Only BAD keeps runs from working; WARN is worth knowing; SKIPPED was not tried."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    SKIPPED = "skipped"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check.

    ``check`` is its stable name for programs ("hostkey"), ``where`` the hop, user and host, for those that are looked
    at once for each hop; both together are unique. ``title`` is for people, ``text`` whole sentences, ``hint`` how to
    fix it. ``code`` is that of the ``Problem`` of a bad finding, where there is one. ``seconds`` is how long it
    took, with the time in which a person was asked. ``remedies`` are ways out, as a ``Problem`` has them.
    """

    check: str
    title: str
    verdict: Verdict
    text: str
    hint: str = ""
    where: str = ""
    code: str = ""
    seconds: float = 0.0
    remedies: tuple[Remedy, ...] = ()


class CheckResult(NamedTuple):
    """The result of one check: the part of a ``Finding`` that the check decides."""

    verdict: Verdict
    text: str
    hint: str = ""
    code: str = ""
    remedies: tuple[Remedy, ...] = ()


def fine(text: str, *remedies: Remedy) -> CheckResult:
    """Returns a result with nothing to fix."""
    return CheckResult(Verdict.OK, text, remedies=remedies)


def note(text: str, hint: str = "", *remedies: Remedy) -> CheckResult:
    """Returns the result of something that works, and is worth knowing."""
    return CheckResult(Verdict.WARN, text, hint, remedies=remedies)


def wrong(text: str, hint: str, code: str = "", *remedies: Remedy) -> CheckResult:
    """Runs will not work before this is fixed."""
    return CheckResult(Verdict.BAD, text, hint, code, remedies)


def refused(found: Problem) -> CheckResult:
    """Returns the result for a problem with which runs will not work."""
    return wrong(found.text, found.hint, found.code, *found.remedies)


def untried(text: str, *remedies: Remedy) -> CheckResult:
    """Returns the result of a check that was not tried; ``text`` says why."""
    return CheckResult(Verdict.SKIPPED, text, remedies=remedies)


# --- What is known so far ---------------------------------------------------------------------------------------------


CALL_S = 20.0
"""The bound on one command, but for modules and Python, which may take their time. A scheduler that is away keeps its
commands for longer; that is a finding then."""
TOTAL_S = 180.0
"""The bound on everything but a job's waiting and what people are asked; what is left then is not tried."""


class Questions(Prompter):
    """Passes questions on to a person and remembers them, without the answers. ``quiet``: nobody is asked."""

    def __init__(self, prompter: Prompter) -> None:
        self._prompter = prompter
        self.asked: list[Prompt] = []
        self.accepted: list[Prompt] = []
        """Server keys that the person said yes to."""
        self.quiet = False
        self.said = False
        """Whether a message was shown: a person may have something to do elsewhere."""
        self.seconds = 0.0
        """The seconds that people took to answer."""

    def ask(self, prompt: Prompt) -> str | None:
        """Asks as ``Prompter.ask`` does."""
        self.asked.append(prompt)
        if self.quiet:
            raise no_one_to_ask(prompt)
        started = time.monotonic()
        try:
            answer = self._prompter.ask(prompt)
        finally:
            self.seconds += time.monotonic() - started
        if prompt.kind is PromptKind.CONFIRM and answer == "yes":
            self.accepted.append(prompt)
        return answer

    def refused(self, prompt: Prompt) -> None:
        """See ``Prompter``."""
        self._prompter.refused(prompt)

    def show_message(self, text: str) -> None:
        """See ``Prompter``."""
        self.said = True
        self._prompter.show_message(text)


class _BoundedConnection(SiteConnection):
    """Lets no command take longer than the doctor has time, but while something moves."""

    def __init__(self, site: Site, connection: ReconnectingConnection, examination: Examination) -> None:
        super().__init__(examination.name, site, connection)
        self._examination = examination

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = CALL_S) -> Output:
        return super().run(command, stdin=stdin, timeout=max(1.0, min(timeout, self._examination.left_s)))

    def work(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        still: float = STILL_S,
        moved: Callable[[], None] = lambda: None,
    ) -> Output:
        def go_on() -> None:
            if self._examination.stop.is_set():
                raise problem("job.ended", "Clew no longer waits for it.")
            moved()

        started = time.monotonic()
        limit = max(1.0, min(still, self._examination.left_s))
        done = super().work(command, stdin=stdin, still=limit, moved=go_on)
        self._examination.more_time(0.0 if done.late else time.monotonic() - started)
        return done


class Examination:
    """What is known of the machine ``name`` so far. ``stop`` set from any thread ends it after the check under way."""

    def __init__(self, name: str, places: Places, stop: threading.Event) -> None:
        self.name = name
        self.places = places
        self.stop = stop
        self.findings: dict[str, Finding] = {}
        self.causes: dict[str, str] = {}
        """The reasons why checks failed or were not tried: the ends of "Not tried, because …"."""
        self._started = time.monotonic()

    @property
    def left_s(self) -> float:
        """Returns how much of the total time is left, in seconds."""
        return TOTAL_S - (time.monotonic() - self._started)

    def more_time(self, seconds: float) -> None:
        """Adds time: seconds that are waited on purpose do not count."""
        self._started += seconds


class Diagnosis(Examination):
    """The examination of a site, through its login node."""

    def __init__(self, name: str, site: Site, places: Places, prompter: Prompter, stop: threading.Event) -> None:
        super().__init__(name, places, stop)
        self.site = site
        self.files = ssh_files(places)
        self.questions = Questions(prompter)
        self.asker = AskOnce(self.questions)
        self.hops: tuple[Hop, ...] = ()
        self.partitions: tuple[Partition, ...] = ()
        self.refused_modules: tuple[str, ...] = ()
        self.probed: Probe | None = None
        self.node: NodeAnswer | None = None
        self._connection: SiteConnection | None = None

    @property
    def left_s(self) -> float:
        """Returns how much of the total time is left, in seconds: what people take to answer does not count."""
        return super().left_s + self.questions.seconds

    @property
    def scheduler(self) -> Scheduler:
        """The dialect of the site's scheduler."""
        return scheduler_of(self.site.scheduler)

    def arrive(self, connection: Connection) -> None:
        """Takes the connection, because the site's login node was reached."""
        there = [connection]

        def once() -> Connection:
            if not there:
                text = "The connection was lost during the examination."
                raise problem("ssh.lost", text, "Start the doctor again.", self.name)
            return there.pop()

        self._connection = self._bounded(self.site, ReconnectingConnection(once))

    def _bounded(self, site: Site, connection: ReconnectingConnection) -> SiteConnection:
        return _BoundedConnection(site, connection, self)

    def connection_with(self, modules: Sequence[str]) -> SiteConnection:
        """The same connection for a site that loads only these modules."""
        site = msgspec.structs.replace(self.site, modules=tuple(modules))
        return self._bounded(site, self.connection.ssh)

    @property
    def connection(self) -> SiteConnection:
        """The site as commands. Checks that use it need a login."""
        if self._connection is None:
            raise problem("ssh.lost", f"There is no connection to {self.site.title or self.name}.", where=self.name)
        return self._connection

    def sh(self, script: str, *arguments: str) -> Output:
        """Run a script for ``/bin/sh`` there, as ``SiteConnection.run`` does commands."""
        return self.connection.run(("sh", "-c", script, "sh", *arguments))

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()


def last_line(output: Output, limit: int = 300) -> str:
    """Returns the last line of a command's output, for a sentence; empty if there is none."""
    lines = [line.strip() for line in output.said.splitlines() if line.strip()]
    return lines[-1][:limit].rstrip(".") if lines else ""


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a sentence, the first ones of many."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


# --- Node answer ------------------------------------------------------------------------------------------------------
# What the doctor's job said of the node that it ran on.


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a job on a node. ``host`` is the node's own name. ``python`` is empty if the login node's Python
    does not run there.

    ``clock`` is seconds since 1970 when it was written, ``gpus`` what the scheduler gave (``CUDA_VISIBLE_DEVICES``)
    and ``cards`` what ``nvidia-smi`` lists. ``port`` is one that was free, 0 when none of the site's was.
    ``temporary`` is why its folder for temporary files cannot be written; empty: it can.
    ``tensorflow`` is the version once it was imported there, ``devices`` how many GPUs it sees, ``trouble`` why it
    could not be. ``whole``: nothing more will come; ``moves`` grows while TensorFlow is imported.

    The rest is seen from outside while the job ran. ``reached``: the login node could connect to the port; ``refusal``
    is what it said instead. ``ahead``: how many seconds the node's clock is ahead of this computer's. ``no_login``: why
    one could not log in there by SSH; None: one could.
    """

    host: str
    python: str = ""
    clock: float = 0.0
    gpus: str = ""
    cards: tuple[str, ...] = ()
    port: int = 0
    temporary: str = ""
    tensorflow: str = ""
    devices: int = 0
    trouble: str = ""
    whole: bool = False
    moves: int = 0
    reached: bool = False
    refusal: str = ""
    no_login: Problem | None = None
    ahead: float = 0.0


# --- Checks in their order --------------------------------------------------------------------------------------------


E = TypeVar("E", bound=Examination)


class Check(NamedTuple, Generic[E]):
    """One check. ``needs`` are checks that must not be bad or untried before, or what one of them may find not to be
    there ("queue"); ``cause`` ends the sentence "Not tried, because …" of those that need this one. ``job``: only with
    a job on a node."""

    name: str
    title: str
    run: Callable[[E], CheckResult]
    cause: str = ""
    needs: Sequence[str] = ("login", "shell")
    job: bool = False


def follow(diagnosis: E, checks: Sequence[Check[E]], want_job: bool) -> Iterator[Finding]:
    """Runs the checks and yields one finding for each; a check that cannot run because another one failed says so."""
    for check in checks:
        if diagnosis.stop.is_set():
            return
        started = time.monotonic()
        result = _hindered(diagnosis, check, want_job) or _run(diagnosis, check)
        if result.verdict in (Verdict.BAD, Verdict.SKIPPED):
            diagnosis.causes[check.name] = _cause(diagnosis, check) or check.cause or f"{check.title} is not in order"
        seconds = round(time.monotonic() - started, 3)
        finding = Finding(check=check.name, title=check.title, seconds=seconds, **result._asdict())
        diagnosis.findings[check.name] = finding
        yield finding


def _cause(diagnosis: E, check: Check[E]) -> str:
    """Says why a check cannot run: the first failure that led to this, not the last one."""
    return next((diagnosis.causes[need] for need in check.needs if need in diagnosis.causes), "")


def _hindered(diagnosis: E, check: Check[E], want_job: bool) -> CheckResult | None:
    if check.job and not want_job:
        return untried("Checked only with a small job on a node.", check_node(diagnosis.name))
    if cause := _cause(diagnosis, check):
        return untried(f"Not tried, because {cause}.")
    if diagnosis.left_s <= 0:
        return untried("Not tried, because the checks before took too long.")
    return None


def _run(diagnosis: E, check: Check[E]) -> CheckResult:
    try:
        return check.run(diagnosis)
    except ProblemError as error:
        found = error.problems[0]
        if found.code == "ssh.lost":
            diagnosis.causes["login"] = "the connection was lost"
        return refused(found)
