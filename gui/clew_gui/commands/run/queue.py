"""``clew queue``: what waits and what is running on this computer, and how that order is changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import zmq
from rich.table import Table

from clew_gui.base.state_words import queue_place
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.output import words
from clew_gui.session.links.conversation import other_version
from clew_gui.session.run_record import run_record
from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.wire.channel import Channel, KeyPair
from clew_shared.wire.messages import (
    AnyReply,
    GetStatus,
    Hello,
    MoveRun,
    Refused,
    Request,
    RunStatus,
    Status,
    Stop,
    Welcome,
)

_RUN_HELP = "its number, id, the beginning of its id, or `last`: the one that was added last"
_STEPS = {"next": 1, "last": 2**31}


class QueueRow(NamedTuple):
    """A run of the agent; ``number`` is the one that the window shows."""

    number: int
    status: RunStatus


def queue(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew queue``, ``clew queue move RUN PLACE`` and ``clew queue cancel RUN``: returns the exit status."""
    options = _parser().parse_args(list(argv))
    if options.action == "move":
        return _move(context, options.run, options.place, options.json)
    if options.action == "cancel":
        return _cancel(context, options.run, options.json)
    return _list(context, options.json)


def _parser() -> Parser:
    parser = Parser("clew queue", "List the runs that are training and those that wait, in their order.")
    parser.add_argument("--json", action="store_true", help="one line of JSON: a list of runs")
    actions = parser.add_subparsers(dest="action", metavar="move|cancel")
    move = actions.add_parser("move", help="move a waiting run", description="Move a waiting run to another place.")
    move.add_argument("run", metavar="RUN", help=_RUN_HELP)
    move.add_argument("place", metavar="PLACE", help="its new place: 1 or `next`, 2, … or `last`")
    cancel = actions.add_parser("cancel", help="take a waiting run out", description="Take a waiting run out.")
    cancel.add_argument("run", metavar="RUN", help=_RUN_HELP)
    for one in (move, cancel):
        one.add_argument("--json", action="store_true", default=False, help="one line of JSON: the run")
    return parser


# --- What there is ----------------------------------------------------------------------------------------------------


def in_order(statuses: Sequence[RunStatus]) -> list[RunStatus]:
    """The runs that are training, in the order in which they began, and then those that wait, the next one first."""
    alive = [status for status in statuses if status.state not in TERMINAL]
    return sorted(alive, key=lambda status: (status.queue, status.started or math.inf))


def _lines(places: Places, agent: AgentConnection) -> list[QueueRow]:
    found = in_order(agent.statuses())
    numbers = run_record(places).number_all(status.run for status in found)
    return [QueueRow(numbers[status.run], status) for status in found]


def _list(context: CommandContext, as_json: bool) -> int:
    try:
        with AgentConnection(context) as agent:
            lines = _lines(context.places, agent)
    except ProblemError as error:
        if error.problems[0].code != "agent.absent":
            raise
        lines = []
    if as_json:
        context.say_json([_as_json(line) for line in lines])
    elif not lines:
        context.say("No run waits, and this computer's agent is not training any.")
    else:
        context.console().print(_table(lines))
    return OK


def _table(lines: Sequence[QueueRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    for title in ("Run", "Exercise", "State", "Steps", "Devices"):
        table.add_column(title, justify="right" if title == "Steps" else "left", no_wrap=True)
    for number, status in lines:
        exercise = f"{status.exercise} ({status.name})" if status.name else status.exercise
        state = _joined(words.state_word(status.state), queue_place(status.queue))
        of = f" of {status.steps:,}" if status.steps else ""
        steps = "" if status.queue and not status.step else f"{status.step:,}{of}"
        table.add_row(str(number), status.run[:8], exercise, state, steps, ", ".join(status.devices))
    return table


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _as_json(line: QueueRow) -> dict[str, object]:
    status = line.status
    names = ("run", "exercise", "name", "state", "queue", "devices", "attempt", "step", "steps")
    return {"number": line.number} | {name: getattr(status, name) for name in names}


# --- What can be done -------------------------------------------------------------------------------------------------


def find_waiting(word: str, lines: Sequence[QueueRow]) -> QueueRow:
    """The waiting run that ``word`` names. Raises ``ProblemError`` when there is none, or more than one."""
    newest = max((line.number for line in lines if line.status.state is RunState.QUEUED), default=0)
    found = [line for line in lines if line.number == newest] if word == "last" else []
    found = found or [line for line in lines if word == str(line.number)]
    found = found or [line for line in lines if word and line.status.run.startswith(word)]
    hint = "`clew queue` lists those that wait."
    if not found:
        raise problem("cli.run", f"No run {word!r} waits.", hint, word)
    if len(found) > 1:
        text = f"{len(found)} runs begin with {word!r}: {', '.join(line.status.run for line in found[:5])}."
        raise problem("cli.run", text, "Give more of the id.", word)
    if found[0].status.state is not RunState.QUEUED:
        state = words.state_word(found[0].status.state).lower()
        raise problem("cli.run", f"Run {found[0].number} is no longer waiting: it is {state}.", hint, word)
    return found[0]


def read_place(word: str) -> int:
    """A place in the queue from 1. Raises ``ProblemError`` for anything else."""
    if word in _STEPS:
        return _STEPS[word]
    if word.isascii() and word.isdecimal() and 1 <= int(word[:10]) < 2**31:
        return int(word[:10])
    text = f"A place in the queue is a whole number from 1, got {word!r}."
    raise ProblemError(Problem("cli.place", text, "1 or `next` is the next, `last` the last.", "place"))


def _move(context: CommandContext, word: str, place_word: str, as_json: bool) -> int:
    place = read_place(place_word)
    with AgentConnection(context) as agent:
        line = find_waiting(word, _lines(context.places, agent))
        agent.ask(MoveRun(run=line.status.run, place=place))
        return _report(context, line, agent, as_json)


def _cancel(context: CommandContext, word: str, as_json: bool) -> int:
    with AgentConnection(context) as agent:
        line = find_waiting(word, _lines(context.places, agent))
        agent.ask(Stop(run=line.status.run))
        return _report(context, line, agent, as_json)


def _report(context: CommandContext, before: QueueRow, agent: AgentConnection, as_json: bool) -> int:
    """Reports the run's state after the command."""
    status = agent.status(before.status.run) or before.status
    if as_json:
        context.say_json(_as_json(QueueRow(before.number, status)))
    else:
        state = _joined(words.state_word(status.state).lower(), queue_place(status.queue))
        reason = f" {status.reason}" if status.reason else ""
        context.say(f"Run {before.number} is {state}.{reason}")
    return OK


# --- Connection -------------------------------------------------------------------------------------------------------
# A question to the agent and its answer, without the mirrors of a session.


_ANSWER_S = 20.0
"""A trainer that is asked to stop answers between two blocks, within 15 s; everything else takes milliseconds."""


class AgentConnection:
    """A connection to this computer's agent while it is open. ``__enter__`` raises ``ProblemError`` when there is none:
    it is not started."""

    def __init__(self, context: CommandContext) -> None:
        self._target = LocalTarget(context.places)
        self._report = context.report
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        try:
            self._connect()
            welcome = self.ask(Hello(client="clew"))
        except BaseException:
            self.close()
            raise
        other = other_version(welcome, job=False) if isinstance(welcome, Welcome) else None
        if other is not None:
            self._report(other)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Request) -> AnyReply:
        """The answer. Raises ``ProblemError`` with a refusal, and when none comes."""
        if self._channel is None:
            raise RuntimeError("not connected")
        reply = self._channel.request(request, _ANSWER_S)
        if isinstance(reply, Refused):
            raise ProblemError(reply.problem)
        return reply

    def statuses(self) -> tuple[RunStatus, ...]:
        """Asks for the status of all runs of the agent."""
        reply = self.ask(GetStatus())
        return reply.runs if isinstance(reply, Status) else ()

    def status(self, run: str) -> RunStatus | None:
        """Asks for the status of one run; None if the agent does not know it."""
        return next((status for status in self.statuses() if status.run == run), None)

    def close(self) -> None:
        """End the connection; the agent goes on."""
        if self._channel is not None:
            self._channel.close()
        self._channel = None
        self._target.close()
        self._context.term()  # bounded by the channel's linger

    def _connect(self) -> None:
        address = self._target.find()
        if address is None:
            raise problem("agent.absent", "No agent serves here, so nothing waits and nothing runs there.")
        keys = KeyPair.generate()
        try:
            self._target.authorize(f"command-{keys.public.encode().hex()[:16]}", keys.public)
        except OSError as error:
            raise problem("link.key", f"The key for the agent cannot be written: {error}.") from None
        self._channel = Channel(self._context, address.address, address.port, address.public_key, keys)
