"""The route to one job's agent: the address where it listens, the key that admits a viewer, and a way there that is
kept as long as it works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import msgspec

from clew_gui.nodes.routes import Route, RouteFinder
from clew_gui.schedulers.job import JobRef
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Stream
from clew_shared.base.foreign import from_json
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.wire.channel import KEY_SUFFIX
from clew_shared.wire.messages import AgentAddress

ROUTE_PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""The seconds between two searches: a search for a route may start a program on the node, through the scheduler."""
_IN_VAIN, _HURRIED_S = 3, 15.0
_SOON_S = 20.0
"""The seconds before which a route that breaks does not count as one."""
_CALL_S = 10.0
_ADDRESS_BYTES = 65536
"""More than any address has, so that a foreign file costs nothing."""


class KeptRoute:
    """Keeps a route until it breaks; the next one is then not looked for at once if it broke soon.

    One thread searches, others open streams. ``heard`` is called with each piece that comes through one, ``stirred``
    when one ended or could not be opened: another agent may have taken the place of this one.
    """

    def __init__(
        self, heard: Callable[[], None], stirred: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.problem: Problem | None = None
        """The reason why there is no route, after the last search."""
        self._heard = heard
        self._stirred = stirred
        self._clock = clock
        self._lock = threading.Lock()
        self._route: Route | None = None
        self._broken = False
        self._streams = 0
        self._failures = 0
        self._since = self._not_before = 0.0

    @property
    def route(self) -> Route | None:
        """The route in use."""
        return self._route

    # --- For the thread that searches ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Give up a route that broke."""
        if not self._broken:
            return
        if self._clock() - self._since >= _SOON_S:
            self._failures = 0
            self.leave()
        else:
            self.leave()
            self._put_off()

    def wait_s(self) -> float:
        """Returns how many seconds the next search has to wait."""
        return max(0.0, self._not_before - self._clock())

    def hurry(self) -> None:
        """Lets the next search begin now because something is new; after several that led nowhere, some seconds after
        the last. A node without power is news again and again, and each search starts a program through the
        scheduler."""
        soonest = self._since + _HURRIED_S if self._failures >= _IN_VAIN else 0.0
        self._not_before = min(self._not_before, soonest)

    def search(
        self, finder: RouteFinder, job: JobRef, address: AgentAddress, ended: Callable[[], bool]
    ) -> Route | None:
        """Look for a route. Raises ``ProblemError`` if the site does not answer."""
        found = finder.find(job, address, ended)
        with self._lock:
            self._route, self.problem = found.route, found.problem
            self._broken, self._streams, self._since = False, 0, self._clock()
        if found.route is None:
            self._put_off()
        return found.route

    def leave(self) -> None:
        """Give up the route; streams that were opened through it end when their own ends do."""
        with self._lock:
            route, self._route, self._broken = self._route, None, False
        if route is not None:
            route.close()

    def forget(self) -> None:
        """Give up the route because its agent is gone: nothing that was learned holds for another."""
        self.leave()
        self.problem, self._failures, self._not_before = None, 0, 0.0

    def _put_off(self) -> None:
        self._not_before = self._clock() + ROUTE_PAUSES_S[min(self._failures, len(ROUTE_PAUSES_S) - 1)]
        self._failures += 1

    # --- For the tunnels' threads -------------------------------------------------------------------------------------

    def through(self) -> Route:
        """The route in use. Raises ``ProblemError`` while there is none."""
        if (route := self._route) is None:
            raise problem("route.none", "Cannot reach the node now; Clew is looking for a route.")
        return route

    def open(self) -> Stream:
        """A stream to the agent. Raises ``ProblemError``."""
        route = self.through()
        try:
            stream = route.open()
        except ProblemError:
            self._failed(route)
            raise
        with self._lock:
            self._streams += route is self._route
        return _Watched(stream, self._heard, partial(self._ended, route))

    def _failed(self, route: Route) -> None:
        with self._lock:
            self._broken |= route is self._route
        self._stirred()

    def _ended(self, route: Route, wanted: bool) -> None:
        """Notes the end of a stream. The route is as good as before while another stream goes through it: an agent
        hangs up on strangers."""
        with self._lock:
            if route is self._route:
                self._streams -= 1
                self._broken |= not wanted and not self._streams
        if not wanted:
            self._stirred()


class _Watched:
    """A stream whose every byte shows that the agent lives; ``ended`` is called once: did this side close it?"""

    def __init__(self, stream: Stream, heard: Callable[[], None], ended: Callable[[bool], None]) -> None:
        self._stream = stream
        self._heard = heard
        self._ended = ended
        self._wanted = False
        self._lock = threading.Lock()
        self._over = False
        self.send = stream.send
        self.last_words = stream.last_words

    def recv(self, limit: int) -> bytes:
        """See ``Stream.recv``."""
        try:
            data = self._stream.recv(limit)
        except ProblemError:
            self._finish()
            raise
        if data:
            self._heard()
        else:
            self._finish()
        return data

    def end(self) -> None:
        """See ``Stream.end``."""
        self._wanted = True
        self._stream.end()

    def close(self) -> None:
        """See ``Stream.close``."""
        self._wanted = True
        self._stream.close()
        self._finish()

    def _finish(self) -> None:
        with self._lock:
            over, self._over = self._over, True
        if not over:
            self._ended(self._wanted)


# --- On the site ------------------------------------------------------------------------------------------------------


def put_key(connection: SiteConnection, address: AgentAddress, name: str, public_key: str) -> None:
    """Write a viewer's key into the agent's allow-list in one go. Raises ``ProblemError``."""
    part, path = f"{address.allow_list}/{name}.part", f"{address.allow_list}/{name}{KEY_SUFFIX}"
    connection.ssh.write(part, public_key.encode("ascii"), timeout=_CALL_S)
    done = connection.run(("mv", "-f", "--", part, path), timeout=_CALL_S)
    if done.late or done.code:
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
