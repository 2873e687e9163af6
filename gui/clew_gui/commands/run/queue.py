"""``clew queue``: what waits and what is running on this computer, and how that order is changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import zmq
from rich.table import Table

from clew_gui.base.state_words import queue_place
from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.output import words
from clew_gui.session.links.conversation import other_version
from clew_gui.session.run_record import run_record
from clew_gui.targets.target import LocalTarget
from clew_shared.base.problem import Problem, ProblemError, os_refused, problem
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

Ask = Callable[[Request], AnyReply]
_ANSWER_S = 20.0
"""A trainer that is asked to stop answers between two blocks, within 15 s; everything else takes milliseconds."""
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
        place = read_place(options.place)
        return _change(context, options.run, lambda run: MoveRun(run=run, place=place), options.json)
    if options.action == "cancel":
        return _change(context, options.run, lambda run: Stop(run=run), options.json)
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


@contextmanager
def connected_agent(context: CommandContext) -> Iterator[Ask]:
    """Questions to this computer's agent and their answers, without the mirrors of a session. Raises ``ProblemError``
    when there is none, for it is not started, and with a refusal."""
    target, keys = LocalTarget(context.places), KeyPair.generate()
    address = target.find()
    if address is None:
        raise problem("agent.absent", "No agent serves here, so nothing waits and nothing runs there.")
    sockets: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with closing(target), sockets:
        with os_refused("link.key", "The key for the agent cannot be written"):
            target.authorize(f"command-{keys.public.encode().hex()[:16]}", keys.public)
        with closing(Channel(sockets, address.address, address.port, address.public_key, keys)) as channel:

            def ask(request: Request) -> AnyReply:
                reply = channel.request(request, _ANSWER_S)
                if isinstance(reply, Refused):
                    raise ProblemError(reply.problem)
                return reply

            welcome = ask(Hello(client="clew"))
            other = other_version(welcome, job=False) if isinstance(welcome, Welcome) else None
            if other is not None:
                context.report(other)
            yield ask


def _statuses(ask: Ask) -> tuple[RunStatus, ...]:
    reply = ask(GetStatus())
    return reply.runs if isinstance(reply, Status) else ()


def _rows(context: CommandContext, ask: Ask) -> list[QueueRow]:
    """The runs that are training, in the order in which they began, and then those that wait, the next one first."""
    alive = [status for status in _statuses(ask) if status.state not in TERMINAL]
    found = sorted(alive, key=lambda status: (status.queue, status.started or math.inf))
    numbers = run_record(context.places).number_all(status.run for status in found)
    return [QueueRow(numbers[status.run], status) for status in found]


def _list(context: CommandContext, as_json: bool) -> int:
    try:
        with connected_agent(context) as ask:
            rows = _rows(context, ask)
    except ProblemError as error:
        if error.problems[0].code != "agent.absent":
            raise
        rows = []
    if as_json:
        context.say_json([_as_json(row) for row in rows])
    elif not rows:
        context.say("No run waits, and this computer's agent is not training any.")
    else:
        context.console().print(_table(rows))
    return OK


def _table(rows: Sequence[QueueRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    for title in ("Run", "Exercise", "State", "Steps", "Devices"):
        table.add_column(title, justify="right" if title == "Steps" else "left", no_wrap=True)
    for number, status in rows:
        exercise = f"{status.exercise} ({status.name})" if status.name else status.exercise
        state = _joined(words.state_word(status.state), queue_place(status.queue))
        of = f" of {status.steps:,}" if status.steps else ""
        steps = "" if status.queue and not status.step else f"{status.step:,}{of}"
        table.add_row(str(number), status.run[:8], exercise, state, steps, ", ".join(status.devices))
    return table


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _as_json(row: QueueRow) -> dict[str, object]:
    status = row.status
    names = ("run", "exercise", "name", "state", "queue", "devices", "attempt", "step", "steps")
    return {"number": row.number} | {name: getattr(status, name) for name in names}


# --- What can be done -------------------------------------------------------------------------------------------------


def find_waiting(word: str, rows: Sequence[QueueRow]) -> QueueRow:
    """The waiting run that ``word`` names. Raises ``ProblemError`` when there is none, or more than one."""
    newest = max((row.number for row in rows if row.status.state is RunState.QUEUED), default=0)
    found = [row for row in rows if row.number == newest] if word == "last" else []
    found = found or [row for row in rows if word == str(row.number)]
    found = found or [row for row in rows if word and row.status.run.startswith(word)]
    hint = "`clew queue` lists those that wait."
    if not found:
        raise problem("cli.run", f"No run {word!r} waits.", hint, word)
    if len(found) > 1:
        text = f"{len(found)} runs begin with {word!r}: {', '.join(row.status.run for row in found[:5])}."
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


def _change(context: CommandContext, word: str, request: Callable[[str], Request], as_json: bool) -> int:
    """Sends the request about the waiting run that ``word`` names, and reports its state then."""
    with connected_agent(context) as ask:
        row = find_waiting(word, _rows(context, ask))
        ask(request(row.status.run))
        status = next((one for one in _statuses(ask) if one.run == row.status.run), row.status)
    if as_json:
        context.say_json(_as_json(QueueRow(row.number, status)))
    else:
        state = _joined(words.state_word(status.state).lower(), queue_place(status.queue))
        reason = f" {status.reason}" if status.reason else ""
        context.say(f"Run {row.number} is {state}.{reason}")
    return OK
