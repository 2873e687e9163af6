"""The route to one job's agent: its own thread reads the address where the agent listens, puts the keys of viewers
there, and finds a route that it keeps as long as that works."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from clew_gui.jobs.job import JobStage, JobStatus
from clew_gui.jobs.job_files import SPEC_BYTES, SiteFiles, read_printed
from clew_gui.jobs.managed_job import ManagedJob
from clew_gui.nodes.routes import Route
from clew_gui.schedulers.job import LOG, SCHEDULER_LOG, JobRef
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Stream
from clew_gui.ssh.errors import TRANSIENT
from clew_gui.ssh.prompts import plain
from clew_gui.ssh.tunnel import Tunnel
from clew_gui.targets.target import JournalFiles
from clew_shared.base.foreign import from_json
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.spec import RunSpec, from_toml
from clew_shared.wire.channel import KEY_SUFFIX
from clew_shared.wire.messages import AgentAddress, Fetch, Fetched

_log = logging.getLogger(__name__)

HERE = "127.0.0.1"
_CALL_S = 10.0
_SPEC_S = 2.0
"""Bound on what the link's thread waits for the spec of a run that somebody else started."""
_STEADY_S = 10.0
"""Seconds between two looks while a route works."""
_WITHOUT_ROUTE_S = 1.0
_PACES = ((20.0, 0.3), (120.0, 2.0))
"""The pace of looking for the address: every 0.3 s for 20 s, every 2 s for two minutes, and then every ``_SLOW_S``."""
_SLOW_S = 10.0
_NEVER_S = 3600.0
"""Longer than any wait: only news ends it."""
_PAUSES_S = (0.3, 0.5, 1.0, 2.0, 3.0)
ROUTE_PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""The seconds between two searches: a search for a route may start a program on the node, through the scheduler."""
_IN_VAIN, _HURRIED_S = 3, 15.0
_SOON_S = 20.0
"""The seconds before which a route that breaks does not count as one."""
_SLEPT_S = 10.0
"""A smaller difference is a correction of the clock."""
_JOIN_S = 3.0
_ADDRESS_BYTES = 65536
"""More than any address has, so that a foreign file costs nothing."""


class AgentRoute:
    """The ``Target`` of a job, made by ``JobManager.target``; also the ``JournalFiles`` of the job. Only ``fetch`` and
    ``read_spec`` wait for the network. ``slept`` is called after the laptop has slept. Tests call ``turn`` instead of
    ``start``."""

    def __init__(self, job: ManagedJob, slept: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._slept = slept
        self._clock = clock
        self._missing = Absence()
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._address: AgentAddress | None = None
        self._looked = 0.0
        self._keys: dict[str, str] = {}
        self._authorized: dict[str, str] = {}
        """Those of the keys that the agent has."""
        self._route: Route | None = None
        self._lock = threading.Lock()
        self._searched = self._not_before = 0.0
        self._in_vain = 0
        self._no_route: Problem | None = None
        """The reason why there is no route, after the last search."""
        self._tunnel: Tunnel | None = None
        self._trouble: Problem | None = None
        self._failures = 0
        self._stage = JobStage.DRAFT
        self._stage_since = clock()
        self._thread = threading.Thread(target=self._work, name="clew-route", daemon=True)
        job.changed = self.kick

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    # --- For the link's thread ----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Returns the agent's place in words: ``node1 of Mini cluster``."""
        nodes = self._job.news.nodes
        return f"{nodes} of {self._job.access.title}" if nodes else self._job.access.title

    @property
    def route(self) -> str:
        """The route in use, in words for the window; empty while there is none."""
        if (route := self._route) is not None:
            return route.text
        return "its journal as a file" if self.files(self._job.news.over) is not None else ""

    def find(self) -> AgentAddress | None:
        """The agent with the tunnel's end on this computer as its address; None while it cannot be reached."""
        address, tunnel = self._address, self._tunnel
        if address is None or tunnel is None or self._route is None or self._job.news.over:
            return None
        return msgspec.structs.replace(address, address=HERE, port=tunnel.port)

    def while_absent(self) -> str:
        """Says why no agent serves: what the job waits for, that it is over, or that there is no network."""
        news, trouble = self._job.news, self._trouble or self._no_route
        if news.stage is JobStage.RUNNING and news.problem is None:
            return trouble.text if trouble is not None else self._missing.text
        return news.text or "The job has not been sent yet."

    def is_alive(self, address: AgentAddress) -> bool:
        """Whether that agent still serves, as far as is known: the job is not over, and no other took its place."""
        if self._job.news.over:
            return False
        known = self._address
        return known is None or (known.agent, known.generation) == (address.agent, address.generation)

    def authorize(self, name: str, public_key: str) -> bool:
        """Has the key put on the allow-list of the agent, and of the next one; whether it is there."""
        if self._keys.get(name) != public_key:
            self._keys[name] = public_key
            self._woken.set()
        return self._authorized.get(name) == public_key

    def read_spec(self, run: str) -> RunSpec | None:
        """The spec of a run: what was asked for here, else read there."""
        if (known := self._job.spec_of(run)) is not None:
            return known
        with suppress(ProblemError):
            connection = self._job.access.connected()
            path = f"{connection.layout().run(run)}/spec.toml"
            return from_toml(connection.ssh.read(path, 0, SPEC_BYTES, timeout=_SPEC_S).decode(errors="replace"), "")
        return None

    def files(self, over: bool) -> JournalFiles | None:
        """Journals by files: if the job is over, or its agent cannot be reached."""
        return self if over or self._no_route is not None else None

    def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
        """See ``JournalFiles.fetch``."""
        over = self._job.news.over  # before the files are looked at: what is written meanwhile is not the end
        return SiteFiles(self._job.access.connected(), over).fetch(wanted)

    def tunnel(self, port: int) -> Tunnel:
        """An end here that leads to another port beside the agent's, by the route that is in use when someone
        connects."""
        return Tunnel(lambda: self._in_use().open(port))

    def leave(self) -> None:
        """Begin to close; ``close`` will wait for it."""
        self._closed.set()
        self._woken.set()

    def close(self) -> None:
        """Close the connection; agent and runs stay."""
        self.leave()
        self._thread.join(_JOIN_S)

    # --- For the manager ----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed.is_set()

    def kick(self) -> None:
        """Looks now, because something is new; after several searches that led nowhere, for a route some seconds after
        the last one. A node without power is news again and again, and each search starts a program through the
        scheduler."""
        self._failures = 0
        soonest = self._searched + _HURRIED_S if self._in_vain >= _IN_VAIN else 0.0
        self._not_before = min(self._not_before, soonest)
        self._woken.set()

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        drift = time.time() - time.monotonic()
        while True:
            self._woken.clear()
            if self._closed.is_set():  # looked at after the clearing: no request to close falls between the two
                break
            try:
                pause = self.turn()
                self._trouble = None
            except ProblemError as error:
                pause = self._failed(error.problems[0])
            except Exception as error:  # noqa: BLE001  # the thread's border: it goes on with what comes next
                _log.exception("The connection to a job's agent failed.")
                text = f"The connection to the agent failed: {error}."
                pause = self._failed(Problem("link.internal", text, "Clew tries again."))
            self._woken.wait(pause)
            before, drift = drift, time.time() - time.monotonic()
            if drift - before > _SLEPT_S:  # the monotonic clock stands still while a computer sleeps
                self._slept()
        self._leave()
        if self._tunnel is not None:
            self._tunnel.close()

    def _failed(self, found: Problem) -> float:
        """Notes what is wrong; returns the seconds until the next try."""
        self._trouble = found
        self._look_later()
        pauses = _PAUSES_S if found.code in TRANSIENT else ROUTE_PAUSES_S
        self._failures += 1
        return pauses[min(self._failures, len(pauses)) - 1]

    def _look_later(self) -> None:
        """Nobody knows anything now: the time until the next look does not count."""
        self._missing = msgspec.structs.replace(self._missing, looked=None)

    def turn(self) -> float:
        """Do what can be done; how long the next look may wait, in seconds. Raises ``ProblemError``."""
        news, now = self._job.news, self._clock()
        if news.stage is not self._stage:
            self._stage, self._stage_since = news.stage, now
        if news.over or not news.id:
            self._leave()
            self._address = None
            return _NEVER_S
        connection = self._job.access.connected()
        if self._address is None or self._route is None or now - self._looked >= _WITHOUT_ROUTE_S:
            self._look(connection)
        address = self._address
        if address is None:
            self._miss(connection, news)
            return next((pause for until, pause in _PACES if now - self._stage_since < until), _SLOW_S)
        self._missing = Absence()
        trouble = self._put_keys(connection, address)
        if self._route is not None and self._route.broken:
            self._leave()
            self._put_off(held=self._clock() - self._searched >= _SOON_S)
        if self._route is None and self._clock() >= self._not_before:
            self._search(connection, JobRef(news.id, self._job.id), address)
        if trouble is not None:  # said only now: another viewer's key may be there already
            raise trouble
        self._failures = 0
        return _STEADY_S if self._route is not None else max(0.0, self._not_before - self._clock())

    def _put_keys(self, connection: SiteConnection, address: AgentAddress) -> ProblemError | None:
        """Writes the keys that are not there yet; returns why one could not be written."""
        trouble: ProblemError | None = None
        for name, key in list(self._keys.items()):
            if self._authorized.get(name) != key:
                try:
                    put_key(connection, address, name, key)
                    self._authorized[name] = key
                except ProblemError as error:
                    trouble = error
        return trouble

    def _look(self, connection: SiteConnection) -> None:
        """Read the address. Another agent or generation has another key and allow-list: all begins again."""
        found = read_address(connection, self._job.id)
        self._looked = self._clock()
        before = self._address
        if found == before:
            return
        if before is not None:
            self._job.fell_silent()
        self._leave()
        self._no_route, self._in_vain, self._not_before = None, 0, 0.0
        self._authorized.clear()
        self._address = found
        if found is not None:
            self._job.serves()

    def _miss(self, connection: SiteConnection, news: JobStatus) -> None:
        if news.stage is not JobStage.RUNNING:
            self._missing = Absence()
        elif news.problem is not None:
            self._look_later()
        else:
            self._missing = still_missing(self._missing, connection, self._job.id, self._clock())

    def _search(self, connection: SiteConnection, job: JobRef, address: AgentAddress) -> None:
        """Look for a route. Raises ``ProblemError`` if the site does not answer."""
        try:
            route = self._job.access.routes.find(connection, job, address, self._closed.is_set)
        except ProblemError as error:
            if error.problems[0].code != "route.none":
                raise
            self._no_route = error.problems[0]
            self._searched = self._clock()
            self._put_off(held=False)
            return
        _log.info("The agent on %s is reached %s.", address.host, route.text)
        self._searched = self._clock()
        if self._tunnel is None:
            self._tunnel = Tunnel(self.open)
        self._route, self._no_route = route, None

    def _put_off(self, held: bool) -> None:
        """Lets the next search wait, unless the last route ``held`` for a while."""
        if held:
            self._in_vain = 0
            return
        self._not_before = self._clock() + ROUTE_PAUSES_S[min(self._in_vain, len(ROUTE_PAUSES_S) - 1)]
        self._in_vain += 1

    def _leave(self) -> None:
        """Give up the route; streams that were opened through it end when their own ends do."""
        route, self._route = self._route, None
        if route is not None:
            route.close()

    # --- For the tunnels' threads -------------------------------------------------------------------------------------

    def _in_use(self) -> Route:
        if (route := self._route) is None:
            raise problem("route.none", "Cannot reach the node now; Clew is looking for a route.")
        return route

    def open(self) -> Stream:
        """A stream to the agent. Raises ``ProblemError``."""
        route = self._in_use()
        try:
            self._job.access.connected()  # a login that was refused is not tried again because of a reconnecting socket
        except ProblemError:
            self._woken.set()
            raise
        try:
            stream = route.open(0, self._job.heard, partial(self._ended, route))
        except ProblemError:
            route.broken = True
            self._woken.set()  # another agent may have taken the place of this one
            raise
        with self._lock:
            route.streams += 1
        return stream

    def _ended(self, route: Route, wanted: bool) -> None:
        """Notes the end of a stream. The route is as good as before while another stream goes through it: an agent
        hangs up on strangers."""
        with self._lock:
            route.streams -= 1
            route.broken |= not wanted and not route.streams
        if not wanted:
            self._woken.set()


# --- On the site ------------------------------------------------------------------------------------------------------


def put_key(connection: SiteConnection, address: AgentAddress, name: str, public_key: str) -> None:
    """Write a viewer's key into the agent's allow-list in one go. Raises ``ProblemError``."""
    part, path = f"{address.allow_list}/{name}.part", f"{address.allow_list}/{name}{KEY_SUFFIX}"
    connection.ssh.write(part, public_key.encode("ascii"), timeout=_CALL_S)
    done = connection.run(("mv", "-f", "--", part, path), timeout=_CALL_S)
    if done.failed:
        raise problem("link.key", f"The key for the agent cannot be written on {connection.title}: {done.err.strip()}.")


def read_address(connection: SiteConnection, job: str) -> AgentAddress | None:
    """Reads where the job's agent listens; None if it does not yet. Raises ``ProblemError`` if the site does not
    answer."""
    try:
        data = connection.ssh.read(connection.layout().address(job), 0, _ADDRESS_BYTES, timeout=_CALL_S)
        found: AgentAddress = from_json(data, AgentAddress)
    except msgspec.DecodeError:
        return None
    except ProblemError as error:
        if error.problems[0].code == "ssh.file":  # there is none
            return None
        raise
    return found if found.agent == job else None


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
