"""Requests that a person made, until they are answered: sent again after a cut, given up after a while."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

import msgspec
import zmq

from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Cards, Inbox, NodeKept, RequestFailed, RunFound, Statuses, TryAnswered
from clew_gui.targets.target import Target
from clew_shared import __version__
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue
from clew_shared.spec import RunSpec
from clew_shared.wire.channel import Channel, Greeting
from clew_shared.wire.messages import (
    PROTOCOL_VERSION,
    AgentAddress,
    AnyReply,
    CatalogueReply,
    ContinueRun,
    GetCatalogue,
    GetStatus,
    Hello,
    MoveRun,
    Refused,
    RunningRunRequest,
    RunStatus,
    Shutdown,
    StartRun,
    Status,
    Stop,
    Tried,
    TryRun,
    Welcome,
)

ANSWER_WITHIN_S = 25.0
"""The seconds from sending to the answer; a trainer's own limit in the agent is shorter, so the agent itself reports a
late trainer."""

TRY_WITHIN_S = 180.0
"""The same for what is tried with a run: on a cold disk TensorFlow takes a minute or two to be imported."""

_LOST = Problem("link.lost", "The connection to the agent was lost before it answered.", "Try again.")

Command = StartRun | ContinueRun | MoveRun | Stop | RunningRunRequest | TryRun | Shutdown | GetCatalogue
"""A ``Shutdown`` only with ``idle``: it may come twice, also to the next agent."""


class CommandOutcome(msgspec.Struct, frozen=True):
    """A command that was not carried out."""

    command: Command
    problem: Problem


class OutgoingCommands:
    """The queue of commands for the agent. Filled from any thread (``put``), emptied by the link's."""

    def __init__(self) -> None:
        self._new: deque[Command] = deque()
        self._asked: dict[bytes, tuple[Command, float]] = {}

    def put(self, command: Command) -> None:
        """Ask for it as soon as there is a link."""
        self._new.append(command)

    def next(self) -> Command | None:
        """The next to send."""
        return self._new.popleft() if self._new else None

    def sent(self, request_id: bytes, command: Command) -> None:
        """Notes that the command was sent."""
        self._asked[request_id] = (command, time.monotonic() + _patience(command))

    def answered(self, request_id: bytes, reply: AnyReply) -> CommandOutcome | None:
        """Returns what a person should know about a reply, if it refuses one of these commands."""
        asked = self._asked.pop(request_id, None)
        if asked is None or not isinstance(reply, Refused):
            return None
        return CommandOutcome(asked[0], reply.problem)

    def cut(self) -> list[CommandOutcome]:
        """Notes that the connection is gone: what has no answer is asked again, in order, so each request may come
        twice. What was tried is given up: whoever waits for it cannot go on with anything else. Returns that."""
        asked = [command for command, _ in self._asked.values()]
        self._new.extendleft(reversed([command for command in asked if not isinstance(command, TryRun)]))
        self._asked.clear()
        return [CommandOutcome(one, _LOST) for one in asked if isinstance(one, TryRun) and one.asks]

    def late(self) -> list[CommandOutcome]:
        """Gives up the commands that have waited too long for their answer, and returns their outcomes."""
        now = time.monotonic()
        late = [request_id for request_id, (_, deadline) in self._asked.items() if now >= deadline]
        return [_give_up(self._asked.pop(request_id)[0]) for request_id in late]


def _patience(command: Command) -> float:
    return TRY_WITHIN_S if isinstance(command, TryRun) else ANSWER_WITHIN_S


def _give_up(command: Command) -> CommandOutcome:
    text = f"The agent did not answer within {_patience(command):.0f} s."
    hint = "Try again." if isinstance(command, TryRun) else "Look at the run's state before you try again."
    return CommandOutcome(command, Problem("link.timeout", text, hint))


# --- Conversation -----------------------------------------------------------------------------------------------------
# One connection to an agent, as long as it lasts: for the link's thread.


_STATUS_WAIT_S = 5.0
_STATUS_LOST_S = 13.0
"""The agent answers when something has changed, or after the first of these seconds; after the second the question
counts as lost on its way and is asked again."""


class Parts(NamedTuple):
    """The parts of a link that its conversations use. ``is_mine``: whether a run that the agent lists is this link's;
    ``report`` shows a problem to a person, once."""

    fetcher: Fetcher
    commands: OutgoingCommands
    inbox: Inbox
    target: Target
    is_mine: Callable[[str], bool]
    report: Callable[[Problem], None]


class Conversation:
    """Greets the agent, asks for its runs, fetches their journals and passes commands on; never waits.

    ``connected`` and ``heard`` are readings of the monotonic clock, ``heard_wall`` is for people. ``welcome``: it has
    answered; ``news``: something came since that was last set to False. ``catalogue`` None: nobody asks for it. The
    ``channel`` is closed with it.
    """

    def __init__(
        self, channel: Channel, address: AgentAddress, parts: Parts, catalogue: Catalogue | None, job: str = ""
    ) -> None:
        self.address = address
        self.catalogue = catalogue
        self.datasets: tuple[str, ...] = ()
        self.welcome = self.news = False
        self.connected = self.heard = time.monotonic()
        self.heard_wall = time.time()
        self._parts = parts
        self._job = job
        self._channel = channel
        self._hello = self._channel.send(Hello(client="clew"))
        self._cards = b""
        self._generation = self._reported_generation = 0
        self._status: tuple[bytes, float] | None = None
        self._version = 0
        self._connections = 1

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """Returns the socket to wait for."""
        return self._channel.socket

    @property
    def greeting(self) -> Greeting:
        """Returns the result of the handshake so far."""
        return self._channel.greeting

    def close(self) -> None:
        """Hang up."""
        self._channel.close()
        self._lose()

    # --- Listening ----------------------------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Take what came; whether there was anything."""
        heard = False
        for request_id, reply in self._channel.receive():
            self.heard, self.heard_wall = time.monotonic(), time.time()
            self.news = heard = True
            self._take(request_id, reply)
        if self._channel.connections > self._connections:
            self._connections = self._channel.connections
            self._ask_again()
        for outcome in self._parts.commands.late():
            self._report(outcome)
        self._parts.fetcher.lost()
        return heard

    def _ask_again(self) -> None:
        """Asks everything again after a cut: the agent takes the new connection for another viewer's, so nothing that
        was asked before will be answered."""
        self._hello = self._channel.send(Hello(client="clew"))
        self._status, self._cards = None, b""
        self._lose()

    def _lose(self) -> None:
        self._parts.fetcher.lost(everything=True)
        for outcome in self._parts.commands.cut():
            self._report(outcome)

    def _take(self, request_id: bytes, reply: AnyReply) -> None:
        if request_id == self._hello:
            self._greeted(reply)
        elif self._status is not None and request_id == self._status[0]:
            self._status = None
            if isinstance(reply, Status):
                self._take_status(reply)
            elif isinstance(reply, Refused):  # one that cannot be read, of an agent of another version
                self._status = (b"", time.monotonic() + _STATUS_WAIT_S)
                self._parts.report(reply.problem)
        elif request_id == self._cards:
            self._take_cards(reply)
        elif not self._parts.fetcher.answered(request_id, reply):
            outcome = self._parts.commands.answered(request_id, reply)
            if outcome is not None:
                self._report(outcome)
            elif isinstance(reply, Tried):
                self._parts.inbox.put(TryAnswered(reply.run, reply))

    def _take_cards(self, reply: AnyReply) -> None:
        self._cards = b""
        if isinstance(reply, Refused):
            self._parts.report(reply.problem)
        elif isinstance(reply, CatalogueReply):
            self._generation = reply.generation
            if reply.catalogue != self.catalogue:
                self.catalogue = reply.catalogue
                self._parts.inbox.put(Cards(reply.catalogue))
            self._ask_for_cards()

    def _ask_for_cards(self) -> None:
        """Ask for them if the agent has others by now, and has not been asked."""
        if self._reported_generation > self._generation and not self._cards and self.catalogue is not None:
            self._cards = self._channel.send(GetCatalogue())

    def _greeted(self, reply: AnyReply) -> None:
        self.welcome = True
        if isinstance(reply, Welcome):
            self.datasets = reply.datasets
            if self.catalogue is not None and not self._job:
                self._cards = self._channel.send(GetCatalogue())
            other = other_version(reply, bool(self._job))
            if other is not None:
                self._parts.report(other)
        elif isinstance(reply, Refused):
            self._parts.report(reply.problem)

    def _take_status(self, status: Status) -> None:
        self._version = status.version
        self._reported_generation = status.catalogue
        if not self._job:
            self._ask_for_cards()
        fetcher, inbox = self._parts.fetcher, self._parts.inbox
        runs = sorted((run for run in status.runs if self._parts.is_mine(run.run)), key=lambda run: run.started)
        for run in runs:
            if not fetcher.knows(run.run):
                inbox.put(RunFound(run.run, self._find_spec(run)))
            fetcher.note(run)
        inbox.put(Statuses(tuple(runs), self._job))

    def _find_spec(self, run: RunStatus) -> RunSpec:
        """The spec from the mirror or from the node, and kept; a bare one when neither has it."""
        mirror = self._parts.fetcher.follow(run.run).mirror
        spec = mirror.spec()
        if spec is None:
            spec = self._parts.target.read_spec(run.run) or RunSpec(exercise=run.exercise, run=run.run, name=run.name)
            with suppress(OSError):  # it can be asked for again
                mirror.keep_spec(spec)
        return spec

    def _report(self, outcome: CommandOutcome) -> None:
        if isinstance(outcome.command, Shutdown):  # nobody has typed that
            self._parts.inbox.put(NodeKept(self._job, outcome.problem.text))
            return
        if isinstance(outcome.command, TryRun):
            self._parts.inbox.put(TryAnswered(outcome.command.run, Refused(problem=outcome.problem)))
            return
        refused = outcome.command.spec.run if isinstance(outcome.command, StartRun) else ""
        self._parts.inbox.put(RequestFailed(outcome.problem, refused if outcome.problem.code != "link.timeout" else ""))

    # --- Asking -------------------------------------------------------------------------------------------------------

    def send(self, renew: bool = False) -> None:
        """Ask for what is wanted now. ``renew``: ask the agent to end, and for nothing else."""
        now = time.monotonic()
        if self._status is None or now > self._status[1]:
            wait = _STATUS_WAIT_S if self._version else 0.0
            self._status = (self._channel.send(GetStatus(version=self._version, wait=wait)), now + _STATUS_LOST_S)
        if renew:
            self._channel.send(Shutdown())
            return
        commands, fetcher = self._parts.commands, self._parts.fetcher
        while (command := commands.next()) is not None:
            commands.sent(self._channel.send(command), command)
            if isinstance(command, StartRun):
                fetcher.expect(command.spec.run)
        while (wanted := fetcher.next_fetch()) is not None:
            run, fetch = wanted
            fetcher.sent(run, self._channel.send(fetch))


# --- Other versions ---------------------------------------------------------------------------------------------------
# What a person should know, once, about an agent of another version than this program.


VERSION_CODES = ("link.protocol", "link.version")
"""The code of these problems: nothing failed, and to say it once is enough."""


class _Age(Enum):
    OLDER = "older than"
    NEWER = "newer than"
    OTHER = "not the same as"


_USE = {
    _Age.OLDER: "Runs can be watched, steered and continued as before; it refuses what is new since then.",
    _Age.NEWER: "Runs can be watched, steered and continued as before; what is new in it cannot be used from here.",
    _Age.OTHER: "Runs can be watched, steered and continued as before.",
}
_STAYS_THERE = "It stays as it is until its job ends; the next job starts the one of this version."
_STAYS_HERE = (
    "It ends by itself when nothing has run for half an hour and no window is open; the next one is of this version. "
    "In the window Settings, Check and use starts that at once."
)
_UPDATE = "Update Clew on this computer."


def other_version(
    welcome: Welcome, job: bool, protocol: tuple[int, int] = PROTOCOL_VERSION, version: str = __version__
) -> Problem | None:
    """The sentence about the agent that sent ``welcome``; None when it is of this ``version``. ``job``: it belongs to a
    job on a site, and not to this computer."""
    if welcome.protocol[0] != protocol[0]:
        text = f"The agent speaks protocol {welcome.protocol[0]}, this program {protocol[0]}."
        return Problem(VERSION_CODES[0], text, "Runs can be watched; to steer them use the same version.")
    if (welcome.protocol, welcome.version) == (protocol, version):
        return None
    age = _age(welcome, protocol, version)
    whose = f"The agent on {welcome.host}" if job else "This computer's agent"
    there, here = f"Clew {welcome.version or 'of unknown version'}", f"Clew {version}"
    if welcome.protocol != protocol:
        there, here = f"{there} (protocol {_dotted(welcome.protocol)})", f"{here} (protocol {_dotted(protocol)})"
    stays = _UPDATE if age is _Age.NEWER else _STAYS_THERE if job else _STAYS_HERE
    return Problem(VERSION_CODES[1], f"{whose} is {there}, {age.value} this one, {here}.", f"{_USE[age]} {stays}")


def _age(welcome: Welcome, protocol: tuple[int, int], version: str) -> _Age:
    there, here = (welcome.protocol, _release(welcome.version)), (protocol, _release(version))
    if there[0] != here[0]:
        return _Age.OLDER if there[0] < here[0] else _Age.NEWER
    if not there[1] or there[1] == here[1]:
        return _Age.OTHER
    return _Age.OLDER if there[1] < here[1] else _Age.NEWER


def _release(version: str) -> list[int]:
    """The numbers that a version begins with: 0.1.0 of 0.1.0.dev3+local."""
    found = re.match(r"\d+(\.\d+)*", version, re.ASCII)
    return [int(part) for part in found[0].split(".")] if found else []


def _dotted(protocol: tuple[int, int]) -> str:
    return f"{protocol[0]}.{protocol[1]}"
