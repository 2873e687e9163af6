"""Connects a session's link to one job's agent: its own thread looks for the agent and admits viewers; no call
waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from clew_gui.jobs.job import JobNews, JobStage
from clew_gui.jobs.job_files import RunThere, SiteFiles, look_at_runs, read_printed
from clew_gui.jobs.managed_job import ManagedJob
from clew_gui.jobs.route_keeper import ROUTE_PAUSES_S, KeptRoute, put_key, read_address
from clew_gui.schedulers.job import LOG, SCHEDULER_LOG, JobRef
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Stream
from clew_gui.ssh.errors import TRANSIENT
from clew_gui.ssh.prompts import plain
from clew_gui.ssh.tunnel import Tunnel
from clew_gui.targets.target import JournalFiles
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.spec import RunSpec, from_toml
from clew_shared.wire.messages import AgentAddress, Fetch, Fetched

_log = logging.getLogger(__name__)

HERE = "127.0.0.1"
_ADMIT_S = 2.0
_SPEC_S = 2.0
_STEADY_S = 10.0
"""Seconds between two looks while a route works."""
_WITHOUT_ROUTE_S = 1.0
_PACES = ((20.0, 0.3), (120.0, 2.0))
"""The pace of looking for the address: every 0.3 s for 20 s, every 2 s for two minutes, and then every ``_SLOW_S``."""
_SLOW_S = 10.0
_NEVER_S = 3600.0
"""Longer than any wait: only news ends it."""
_PAUSES_S = (0.3, 0.5, 1.0, 2.0, 3.0)
_SLEPT_S = 10.0
"""A smaller difference is a correction of the clock."""
_JOIN_S = 3.0


# --- Missing agent ----------------------------------------------------------------------------------------------------
# A job runs, and its agent does not say where it listens: for how long, and what the job's own log says to that.


PATIENCE_S = 120.0
"""The seconds in which an agent should answer: modules on a busy file system and a first import take their time; after
that something is wrong."""
_AGAIN_S = 30.0
_LINES = 3
_CHARACTERS = 300
_SOON = "The job runs; its agent is starting."


class Absence(msgspec.Struct, frozen=True):
    """What is known of a job's missing agent. ``text`` says why none serves, ``missed_s`` counts the seconds in which
    the job was known to run without it, up to ``looked`` (None: nobody knew anything since); its log was ``read`` then.
    Both are readings of a clock."""

    text: str = _SOON
    missed_s: float = 0.0
    looked: float | None = None
    read: float | None = None


def still_missing(before: Absence, connection: SiteConnection, job: str, now: float) -> Absence:
    """The scheduler says that the job runs, and there is no agent. After two minutes of that the job's log is read,
    which may wait. Raises ``ProblemError`` when the site cannot be reached."""
    missed = before.missed_s + (now - before.looked if before.looked is not None else 0.0)
    seen = msgspec.structs.replace(before, missed_s=missed, looked=now)
    if missed < PATIENCE_S or (before.read is not None and now - before.read < _AGAIN_S):
        return seen
    return msgspec.structs.replace(seen, text=_sentences(connection, job), read=now)


def _sentences(connection: SiteConnection, job: str) -> str:
    folder = connection.layout().job(job)
    missing = f"The job has run for more than {PATIENCE_S / 60:.0f} minutes without its agent."
    doctor = "a check of the site with a small job tries a node"
    for log in (LOG, SCHEDULER_LOG):
        if last := _last_lines(read_printed(connection, job, log)):
            said = f"Its log, {folder}/{log} on {connection.title}, ends with: {last.rstrip('.')}."
            return f"{missing} {said} Fix that, or cancel the job; {doctor}."
    said = f"Nothing is in its log yet, {folder}/{LOG} on {connection.title}."
    why = "Look for what takes so long in the site's modules, its prologue or ~/.bashrc there"
    return f"{missing} {said} {why}, or cancel the job; {doctor}."


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in plain(text, len(text)).splitlines() if line.strip()]
    return " ".join(lines[-_LINES:])[-_CHARACTERS:]


# --- The target -------------------------------------------------------------------------------------------------------


class JobTarget:
    """A ``Target``; made by ``JobManager.target``. It is also the ``JournalFiles`` of its job; only ``fetch``
    waits for the network. ``slept`` is called after the laptop has slept."""

    def __init__(self, job: ManagedJob, slept: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._slept = slept
        self._clock = clock
        self._missing = Absence()
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._address: AgentAddress | None = None
        self._looked = 0.0
        self._key: tuple[str, str] | None = None
        self._admitted: tuple[int, tuple[str, str]] | None = None
        self._kept = KeptRoute(self._hear, self._woken.set)
        self._tunnel: Tunnel | None = None
        self._trouble: Problem | None = None
        self._failures = 0
        self._heard = 0.0
        self._stage = JobStage.DRAFT
        self._stage_since = time.monotonic()
        self._specs: dict[str, RunSpec | None] = {}
        self._wanted: list[str] = []
        job.changed = self.kick
        self._thread = threading.Thread(target=self._work, name="clew-target", daemon=True)
        self._thread.start()

    # --- For the link's thread ----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Returns the agent's place in words: ``node1 of Mini cluster``."""
        nodes = self._job.news.nodes
        return f"{nodes} of {self._job.access.title}" if nodes else self._job.access.title

    @property
    def route(self) -> str:
        """The route in use, in words for the status line; empty while there is none."""
        if (route := self._kept.route) is not None:
            return route.text
        return "its journal as a file" if self.files(self._job.news.over) is not None else ""

    def introduce(self, name: str, public_key: str) -> None:
        """The viewer's key, as early as it is known, so that it lies on the node before ``admit`` is called."""
        self._key = (name, public_key)
        self._woken.set()

    def find(self) -> AgentAddress | None:
        """The agent with the tunnel's end on this computer as its address; None while it cannot be reached."""
        address, tunnel = self._address, self._tunnel
        if address is None or tunnel is None or self._kept.route is None or self._job.news.over:
            return None
        if self._key is not None and not self._is_admitted(address):
            return None
        return msgspec.structs.replace(address, address=HERE, port=tunnel.port)

    def start(self) -> None:
        """Does nothing: the job's own keeper starts the agent."""

    def check_start(self) -> None:
        """Does nothing."""

    def is_alive(self, address: AgentAddress) -> bool:
        """Whether that agent still serves, as far as is known: the job is not over, and no other took its place."""
        if self._job.news.over:
            return False
        known = self._address
        return known is None or (known.agent, known.generation) == (address.agent, address.generation)

    def admit(self, address: AgentAddress, name: str, public_key: str) -> None:
        """See that the key is on the allow-list. Raises ``ProblemError`` (``link.key_pending``) while it is on its way
        for more than two seconds."""
        self.introduce(name, public_key)
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_admitted(address), _ADMIT_S):
                raise problem("link.key_pending", f"The key for the agent on {address.host} is on its way there.")

    def read_spec(self, run: str) -> RunSpec | None:
        """The spec of a run: what was asked for here, else fetched, waiting two seconds at most."""
        known = self._job.spec_of(run)
        if known is not None:
            return known
        with self._changed:
            if run not in self._specs:
                self._wanted.append(run)
                self._woken.set()
                self._changed.wait_for(lambda: run in self._specs, _SPEC_S)
            return self._specs.get(run)

    def absent(self) -> str:
        """Says why no agent serves: what the job waits for, that it is over, or that there is no network."""
        news, trouble = self._job.news, self._trouble or self._kept.problem
        if news.stage is JobStage.RUNNING and news.problem is None:
            return trouble.text if trouble is not None else self._missing.text
        return news.text or "The job has not been sent yet."

    def files(self, over: bool) -> JournalFiles | None:
        """Journals by files: if the job is over, or its agent cannot be reached."""
        return self if over or self._kept.problem is not None else None

    def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
        """See ``JournalFiles.fetch``."""
        over = self._job.news.over  # before the files are looked at: what is written meanwhile is not the end
        return SiteFiles(self._job.access.connected(), over).fetch(wanted)

    def let_in(self, name: str, public_key: str) -> None:
        """Put a further viewer's key on the list of the agent that was found. Waits; raises ``ProblemError``."""
        if (address := self._address) is not None:
            put_key(self._job.access.connected(), address, name, public_key)

    def tunnel(self, port: int) -> Tunnel:
        """An end here that leads to another port beside the agent's, by the route that is in use when someone
        connects."""

        return Tunnel(lambda: self._kept.through().open(port))

    def leave(self) -> None:
        """Begin to close; ``close`` will wait for it."""
        self._closed.set()
        self._woken.set()

    def close(self) -> None:
        """Close the connection; agent and runs stay."""
        self.leave()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        if self._tunnel is not None:
            self._tunnel.close()
        self._kept.leave()

    # --- For the manager ----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def kick(self) -> None:
        """Looks now, because something is new."""
        self._failures = 0
        self._kept.hurry()
        self._woken.set()

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        drift = time.time() - time.monotonic()
        while not self._closed.is_set():
            self._woken.clear()
            try:
                pause = self._turn()
                self._trouble = None
            except ProblemError as error:
                self._trouble = error.problems[0]
                pause = self._again(_PAUSES_S if self._trouble.code in TRANSIENT else ROUTE_PAUSES_S)
                self._look_later()
            except Exception as error:  # noqa: BLE001  # the thread's border: it goes on with what comes next
                _log.exception("The connection to a job's agent failed.")
                self._trouble = Problem(
                    "link.internal", f"The connection to the agent failed: {error}.", "Clew tries again."
                )
                pause = self._again(ROUTE_PAUSES_S)
                self._look_later()
            self._woken.wait(pause)
            before, drift = drift, time.time() - time.monotonic()
            if drift - before > _SLEPT_S:  # the monotonic clock stands still while a computer sleeps
                self._slept()

    def _look_later(self) -> None:
        """Nobody knows anything now: the time until the next look does not count."""
        self._missing = msgspec.structs.replace(self._missing, looked=None)

    def _again(self, pauses: tuple[float, ...]) -> float:
        pause = pauses[min(self._failures, len(pauses) - 1)]
        self._failures += 1
        return pause

    def _turn(self) -> float:
        """Do what can be done; how long the next look may wait, in seconds."""
        news = self._job.news
        if news.stage is not self._stage:
            self._stage, self._stage_since = news.stage, time.monotonic()
        self._fetch_specs()
        if news.over or not news.id:
            self._kept.leave()
            self._address = None
            return _NEVER_S
        connection = self._job.access.connected()
        if self._address is None or self._kept.route is None or time.monotonic() - self._looked >= _WITHOUT_ROUTE_S:
            self._look(connection)
        address = self._address
        if address is None:
            self._miss(connection, news)
            return self._pace()
        self._missing = Absence()
        self._let_in(connection, address)
        self._kept.settle()
        if self._kept.route is None and (wait := self._kept.wait_s()) > 0:
            return wait
        if self._kept.route is None:
            self._search(connection, JobRef(news.id, self._job.id), address)
        self._failures = 0
        return _STEADY_S if self._kept.route is not None else self._kept.wait_s()

    def _miss(self, connection: SiteConnection, news: JobNews) -> None:
        if news.stage is not JobStage.RUNNING:
            self._missing = Absence()
        elif news.problem is not None:
            self._look_later()
        else:
            self._missing = still_missing(self._missing, connection, self._job.id, self._clock())

    def _search(self, connection: SiteConnection, job: JobRef, address: AgentAddress) -> None:
        route = self._kept.search(self._job.access.finder(), job, address, self._closed.is_set)
        if route is None:
            return
        _log.info("The agent on %s is reached %s.", address.host, route.text)
        if self._tunnel is None:
            self._tunnel = Tunnel(self._open)
        self._let_in(connection, address)

    def _pace(self) -> float:
        since = time.monotonic() - self._stage_since
        return next((pause for until, pause in _PACES if since < until), _SLOW_S)

    def _look(self, connection: SiteConnection) -> None:
        """Read the address. Another agent or generation has another key and allow-list: all begins again."""
        found = read_address(connection, self._job.id)
        self._looked = time.monotonic()
        before = self._address
        if found == before:
            return
        if before is not None:
            self._job.fell_silent()
        self._kept.forget()
        self._address = found
        if found is not None:
            self._job.serves()

    def _let_in(self, connection: SiteConnection, address: AgentAddress) -> None:
        key = self._key
        if key is None or self._admitted == (address.generation, key):
            return
        put_key(connection, address, *key)
        with self._changed:
            self._admitted = (address.generation, key)
            self._changed.notify_all()

    def _is_admitted(self, address: AgentAddress) -> bool:
        return self._key is not None and self._admitted == (address.generation, self._key)

    def _fetch_specs(self) -> None:
        while self._wanted:
            run, spec = self._wanted.pop(), None
            try:
                connection = self._job.access.connected()
                (there,) = look_at_runs(connection, [connection.layout().run(run)])
            except ProblemError:
                continue
            with suppress(ProblemError):
                spec = from_toml(there.spec, "") if isinstance(there, RunThere) and there.spec is not None else None
            with self._changed:
                self._specs[run] = spec
                self._changed.notify_all()

    # --- For the tunnel's threads -------------------------------------------------------------------------------------

    def _open(self) -> Stream:
        self._kept.through()
        try:
            self._job.access.connected()  # a login that was refused is not tried again because of a reconnecting socket
        except ProblemError:
            self._woken.set()
            raise
        return self._kept.open()

    def _hear(self) -> None:
        if time.monotonic() - self._heard > 1.0:
            self._heard = time.monotonic()
            self._job.heard()
