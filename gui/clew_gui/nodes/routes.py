"""Ways from here to a port on a compute node, tried in order until one really leads there.

A way counts only when the agent at its end speaks: a firewall may accept a connection and swallow what is sent, and a
relay is there before the agent is. All of it waits for the network.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial

import msgspec

from clew_gui.base.checked_text import is_host
from clew_gui.deploy.install import Installed
from clew_gui.schedulers.job import JobRef
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.connection import Connection, Hop, Stream
from clew_shared.base.problem import ProblemError, problem
from clew_shared.wire.messages import AgentAddress

_OPEN_S = 8.0
"""Seconds for a port inside of a cluster; a firewall that drops packets says nothing."""
HOP_S = 30.0
"""Seconds for a login to a node, for runs and for the doctor: the first one may take half a minute."""
_RELAY_S = 30.0
"""A scheduler may take a while to start a step in a running job."""
SPEAKS_S = 4.0
"""A greeting comes in one round trip; a relay's program has to start before."""
_GREETING = b"\xff"
"""The byte with which every ZMTP peer begins at once, without being asked (https://rfc.zeromq.org/spec/23, section
"Framing")."""
_HOME = "127.0.0.1"
_ASIDE = 'exec 8>&1 9<&0 1>&2 </dev/null && exec bash -l -c "$1"'
"""Puts standard input and output aside, then starts the login shell. Run it with ``sh``, not with bash: over SSH bash
reads ~/.bashrc even without ``-l``, and it reads what ``BASH_ENV`` names. What a login file starts in the background
inherits 8 and 9; it ends with the step."""
_UNREACHED = frozenset({"ssh.connect", "ssh.forwarding", "ssh.name", "ssh.reach", "ssh.busy"})
"""Troubles before a node has said anything: it may answer under another name."""


class RouteKind(Enum):
    """The kinds of routes, the best first, in words."""

    LOGIN = "through the login node"
    HOP = "jumping into {node}"
    RELAY = "as a step of the job"


class Route:
    """A route that worked when it was last tried. ``text`` is for the window: "through login, jumping into node1".
    ``connect`` makes a stream to a port of that node, ``port`` is the agent's.

    Through a relay the stream that was checked is kept for the first caller that opens the route: the scheduler may
    take seconds to start another one, and nothing at its far end grows impatient meanwhile. Of the other kinds none is
    kept: there an agent waits already at the far end, and not for long.
    """

    def __init__(
        self, kind: RouteKind, text: str, connect: Callable[[int], Stream], port: int, further: Connection | None = None
    ) -> None:
        self.kind = kind
        self.text = text
        self.streams = 0
        """How many of the agent's streams go through it, and whether it broke: whoever keeps the route counts them."""
        self.broken = False
        self._connect = connect
        self._port = port
        self._further = further
        self._lock = threading.Lock()
        self._kept: tuple[Stream, bytes] | None = None

    def open(
        self,
        port: int = 0,
        heard: Callable[[], None] = lambda: None,
        ended: Callable[[bool], None] = lambda _wanted: None,
    ) -> Stream:
        """Opens one more stream through it, to the agent or another ``port`` there; for ``heard`` and ``ended`` see
        ``WatchedStream``. Raises ``ProblemError`` if the route does not work any more."""
        kept = self._take_kept() if port in (0, self._port) else None
        stream, spoken = kept or (self._connect(port or self._port), b"")
        return WatchedStream(stream, spoken, heard, ended)

    def check(self, seconds: float) -> None:
        """See that the agent speaks at its end, within so many seconds. Raises ``ProblemError`` when it does not."""
        stream = self._connect(self._port)
        try:
            spoken = _greeting(stream, seconds)
        except BaseException:
            stream.close()
            raise
        if self.kind is RouteKind.RELAY:
            self._kept = (stream, spoken)
        else:
            stream.close()

    def _take_kept(self) -> tuple[Stream, bytes] | None:
        with self._lock:
            kept, self._kept = self._kept, None
        return kept

    def close(self) -> None:
        """Give back what it needs beside the connection to the login node."""
        if (kept := self._take_kept()) is not None:
            kept[0].close()
        if self._further is not None:
            self._further.close()


class RouteFinder:
    """Looks for routes at one site. ``installed`` says what starts a program of ours there, for the relay.

    The kind that worked last comes first the next time; after a failure all are tried.
    """

    def __init__(self, installed: Callable[[], Installed], patience: float = SPEAKS_S) -> None:
        self._patience = patience
        self._installed = installed
        self._last: RouteKind | None = None
        self._declined: set[str] = set()
        """Nodes whose login a person was asked about and cancelled: nobody is asked twice."""

    def find(
        self,
        connection: SiteConnection,
        job: JobRef,
        address: AgentAddress,
        ended: Callable[[], bool] = lambda: False,
    ) -> Route:
        """The first route that works; nothing more is tried once nobody wants one (``ended``). Raises ``ProblemError``
        if none works (``route.none``), or the login node itself cannot be reached."""
        why: list[str] = []
        for kind in sorted(RouteKind, key=lambda kind: kind is not self._last):
            for route in self._routes(kind, connection, job, address, why) if not ended() else ():
                try:
                    route.check(_RELAY_S if kind is RouteKind.RELAY else self._patience)
                except ProblemError as error:
                    route.close()
                    if error.problems[0].code == "ssh.lost":
                        raise
                    why.append(f"{route.text}: {error.problems[0].text}")
                    continue
                self._last = kind
                return route
        text = f"Cannot reach the agent on {address.host}. " + " ".join(dict.fromkeys(why))
        hint = "The journal comes as a file meanwhile. Ask the site how to reach a port of a compute node."
        raise problem("route.none", text, hint, connection.name)

    # --- Kinds of routes ----------------------------------------------------------------------------------------------

    def _routes(
        self, kind: RouteKind, connection: SiteConnection, job: JobRef, address: AgentAddress, why: list[str]
    ) -> Iterator[Route]:
        text = f"through {connection.site.host or connection.title}"
        try:
            if kind is RouteKind.LOGIN:
                for host in dict.fromkeys((address.address, address.host)):
                    connect = partial(connection.ssh.connect, host, timeout=_OPEN_S)
                    yield Route(kind, text, connect, address.port)
            elif kind is RouteKind.HOP and address.host not in self._declined:
                yield from _into_the_node(connection, address, text)
            elif kind is RouteKind.RELAY:
                yield from self._relayed(connection, job, address, text)
        except ProblemError as error:
            if error.problems[0].code == "ssh.lost":
                raise
            if error.problems[0].code == "ssh.cancelled":
                self._declined.add(address.host)
            why.append(f"{kind.value.format(node=address.host)}: {error.problems[0].text}")

    def _relayed(self, connection: SiteConnection, job: JobRef, address: AgentAddress, through: str) -> Iterator[Route]:
        if connection.scheduler.relay(job, ("true",)) is None:
            return
        installed, site = self._installed(), connection.site

        def connect(port: int) -> Stream:
            there = msgspec.structs.replace(address, port=port)
            relay = relay_command(installed, site.modules, site.prologue, there, port == address.port)
            return connection.ssh.open(connection.command(connection.scheduler.relay(job, relay) or ()), _RELAY_S)

        yield Route(RouteKind.RELAY, f"{through}, {RouteKind.RELAY.value}", connect, address.port)


def _into_the_node(connection: SiteConnection, address: AgentAddress, through: str) -> Iterator[Route]:
    if not connection.hops or not connection.scheduler.has_queue:
        return
    node = _jump(connection, address)

    def connect(port: int) -> Stream:
        try:
            return node.connect(address.address, port, _OPEN_S)
        except ProblemError as error:
            if error.problems[0].code == "ssh.lost":
                raise
            return node.connect(_HOME, port, _OPEN_S)

    text = f"{through}, {RouteKind.HOP.value.format(node=address.host)}"
    yield Route(RouteKind.HOP, text, connect, address.port, node)


def _jump(connection: SiteConnection, address: AgentAddress) -> Connection:
    """Log in to the node, by its address where the login node does not know its name; both in the time of one.

    Who was reached and said no is not asked by another name: a person would have to answer twice.
    """
    login, started = connection.hops[-1], time.monotonic()
    try:
        return connection.ssh.hop(node_hop(login, address.host), HOP_S)
    except ProblemError as error:
        left = HOP_S - (time.monotonic() - started)
        if error.problems[0].code not in _UNREACHED or address.address == address.host or left < 1.0:
            raise
    return connection.ssh.hop(node_hop(login, address.address), left)


def node_hop(login: Hop, node: str) -> Hop:
    """The compute node as a further hop: the same person with the same keys as on the login node.

    Raises ``ProblemError`` for a name that is none. It comes from the site, and becomes part of a command line here.
    """
    if not is_host(node):
        raise problem("route.node", f"The site calls a node {node[:80]!r}, which is not a host name.")
    return msgspec.structs.replace(
        login, host=node, name=node, port=22, host_key_alias="", fingerprints=(), proxy_command=""
    )


def relay_command(
    installed: Installed, modules: Sequence[str], prologue: str, address: AgentAddress, agent: bool = False
) -> tuple[str, ...]:
    """Returns the command that joins its standard input and output to a port of a node, after what the site's jobs
    load. If an ``agent`` listens there, its greeting comes at once and its patience is not tried before something is
    sent.

    Neither their words nor those of the login shell's own files may get between the bytes, and none of them may read
    what is meant for the relay. So both ends are put aside before that shell begins, by one that reads no files of its
    own, and only the relay gets them back: what modules and prologue start does not have them.
    """
    words = [f"{name}={value}" for name, value in sorted(installed.environment.items())]
    greeted = ["--agent"] if agent else []
    relay = shlex.join(["env", *words, *installed.command, "relay", *greeted, address.address, str(address.port)])
    loaded = [f"module load {shlex.quote(name)}" for name in modules]
    loaded += [prologue] if prologue.strip() else []
    first = shlex.quote("\n".join(loaded))
    return ("sh", "-c", _ASIDE, "sh", f"eval {first} 8>&- 9<&-\nexec {relay} 0<&9 1>&8 8>&- 9<&-")


# --- Streams ----------------------------------------------------------------------------------------------------------


class WatchedStream:
    """A stream of which something was read already: that comes first once more. ``heard`` is called with each piece
    that comes, ``ended`` once: did this side close it?"""

    def __init__(self, stream: Stream, spoken: bytes, heard: Callable[[], None], ended: Callable[[bool], None]) -> None:
        self._stream = stream
        self._spoken = spoken
        self._heard = heard
        self._ended = ended
        self._wanted = False
        self._unended = threading.Lock()
        self.send = stream.send
        self.last_words = stream.last_words

    def recv(self, limit: int) -> bytes:
        """See ``Stream.recv``."""
        data, self._spoken = self._spoken[:limit], self._spoken[limit:]
        try:
            data = data or self._stream.recv(limit)
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
        if self._unended.acquire(blocking=False):
            self._ended(self._wanted)


def _greeting(stream: Stream, seconds: float) -> bytes:
    """An agent's first bytes. Raises ``ProblemError`` when it is none or none speaks."""
    first = first_bytes(stream, seconds)
    if first is None:
        text = f"the connection is accepted, but nothing comes back within {seconds:g} s."
        raise problem("route.silent", _with_words(text, stream))
    if first and not first.startswith(_GREETING):
        raise problem("route.stranger", "something answers there that is no agent.")
    if not first:
        raise problem("route.closed", _with_words("the connection is accepted and closed at once.", stream))
    return first


def _with_words(text: str, stream: Stream) -> str:
    """Adds what a step of the scheduler said itself: mostly the true reason."""
    words = stream.last_words()
    return f"{text} It said: {words.rstrip('.')}." if words else text


def first_bytes(stream: Stream, seconds: float) -> bytes | None:
    """Reads what comes first through ``stream``; empty if it ends, None if nothing comes in time."""
    found: list[bytes] = []
    come = threading.Event()

    def read() -> None:
        try:
            found.append(stream.recv(64))
        except (ProblemError, OSError):
            found.append(b"")
        come.set()

    threading.Thread(target=read, name="first bytes", daemon=True).start()
    come.wait(seconds)
    return found[0] if found else None
