"""Passes on what arrived from the links' threads to the caller's; bounded: a flood waits on the node and not in memory.

``link`` in an arrival names the job to whose agent the link is; empty for this computer's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum

import msgspec

from clew_gui.jobs.job import JobStatus
from clew_gui.session.links.mirror import Items
from clew_gui.session.summaries import RunSummary
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import Refused, RunStatus, Tried

FULL_BYTES = 1_600_000
"""Journal bytes that may wait: 400,000 values of four bytes, what one tick can take in without a pause."""


class LinkState(StrEnum):
    """The states of a link. OFFLINE: nobody to talk to. STALE: silent for a while, nothing torn down. REFUSED: it does
    not let us in. RECORDED: there are recorded runs only, and no agent is missing."""

    OFFLINE = "OFFLINE"
    CONNECTING = "CONNECTING"
    LIVE = "LIVE"
    STALE = "STALE"
    REFUSED = "REFUSED"
    RECORDED = "RECORDED"


SILENT = "silent"
AGENT_ENDED = "the agent has ended"
"""The words of a link that has not heard its agent for a while, and of one whose agent is gone."""


class LinkStatus(msgspec.Struct, frozen=True):
    """The state, since when (wall-clock seconds since 1970; for STALE, when it last spoke), and the state in words.

    ``datasets`` names the data sets that the agent found on its machine; empty while that is not known. ``link`` is the
    job to whose agent the link is; empty for this computer's.
    """

    state: LinkState
    since: float
    text: str
    datasets: tuple[str, ...] = ()
    link: str = ""


class RunFound(msgspec.Struct, frozen=True):
    """A run that the link knows of. ``size``: the bytes of its copy here, which are read next, or where there is a
    ``summary`` of them, when somebody looks at its exercise."""

    run: str
    spec: RunSpec
    size: int = 0
    summary: RunSummary | None = None


class FrameBatch(msgspec.Struct, frozen=True):
    """Frames of one attempt that have been checked and are in the mirror: ``have`` bytes of it of ``size``."""

    run: str
    attempt: int
    items: Items
    weight: int
    have: int
    size: int


class Restarted(msgspec.Struct, frozen=True):
    """The mirror was not the node's journal: what was taken in of this run is void and comes again."""

    run: str


class Statuses(msgspec.Struct, frozen=True):
    """An agent's list of runs."""

    runs: tuple[RunStatus, ...]
    link: str = ""


class Settled(msgspec.Struct, frozen=True):
    """The run's job is over, and all that it left of the run's journals is here."""

    run: str
    link: str


class Released(msgspec.Struct, frozen=True):
    """Says that a link has released the run: it brings nothing more of it."""

    run: str


class NodeKept(msgspec.Struct, frozen=True):
    """The agent was asked to give its node back, and does not: ``text`` says why."""

    link: str
    text: str


class Cards(msgspec.Struct, frozen=True):
    """The agent's own exercises, which are not those that the window shows."""

    catalogue: Catalogue


class TryAnswered(msgspec.Struct, frozen=True):
    """The answer to what was tried with a run."""

    run: str
    reply: Tried | Refused


class RequestFailed(msgspec.Struct, frozen=True):
    """Something a person must hear; ``refused`` names the run that was not taken."""

    problem: Problem
    refused: str = ""


Arrival = (
    RunFound
    | FrameBatch
    | Restarted
    | Statuses
    | Settled
    | Released
    | NodeKept
    | Cards
    | TryAnswered
    | RequestFailed
    | LinkStatus
    | JobStatus
)


class Inbox:
    """A queue of arrivals that says when it is full; the one who fills it asks, and waits by itself.

    ``wake_up`` is called, from the thread that puts, when something lies in it that was empty.
    """

    def __init__(self) -> None:
        self.wake_up: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._arrivals: deque[Arrival] = deque()
        self._weight = 0

    def put(self, arrival: Arrival) -> None:
        """Adds an arrival; never waits. Only journal bytes count towards ``full``."""
        with self._lock:
            first = not self._arrivals
            self._arrivals.append(arrival)
            self._weight += arrival.weight if isinstance(arrival, FrameBatch) else 0
        if first:
            self.wake_up()

    def take(self) -> Arrival | None:
        """The oldest, or None."""
        with self._lock:
            if not self._arrivals:
                return None
            arrival = self._arrivals.popleft()
            self._weight -= arrival.weight if isinstance(arrival, FrameBatch) else 0
            return arrival

    @property
    def full(self) -> bool:
        """Whether nothing more should be fetched until the caller has taken some."""
        with self._lock:
            return self._weight >= FULL_BYTES
