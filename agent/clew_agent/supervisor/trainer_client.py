"""The supervisor's connections to trainers on its node: pause, unpause, stop, change a live hyperparameter. Never
waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import zmq

from clew_agent.trainer.control_address import address_file
from clew_agent.wire.long_polls import Caller
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, problem
from clew_shared.wire.channel import Channel, KeyPair, allow
from clew_shared.wire.messages import AgentAddress, AnyReply, Done, Refused, Request, Stop, read_address

ANSWER_WITHIN_S = 15.0
"""Seconds that a trainer gets to answer: it answers between blocks, and the longest thing between two is an
evaluation."""

Socket = zmq.Socket[bytes]


class _Asked(NamedTuple):
    """A request to a trainer: what it was asked, who waits for its answer, and until when."""

    request: Request
    caller: Caller | None
    deadline: float


class _Line(msgspec.Struct):
    """The connection to one trainer, and what it has not answered yet."""

    address: AgentAddress
    channel: Channel
    asked: dict[bytes, _Asked] = {}


class ControlClient:
    """The channels to trainers, one for each, made when it is first needed. ``watch`` adds a socket to a poll."""

    def __init__(
        self,
        context: zmq.Context[Socket],
        places: Places,
        name: str,
        watch: Callable[[Socket], None],
        unwatch: Callable[[Socket], None],
    ) -> None:
        self._context = context
        self._places = places
        self._name = name
        self._keys = KeyPair.generate()
        self._watch, self._unwatch = watch, unwatch
        self._lines: dict[str, _Line] = {}

    def reachable(self, run: str) -> bool:
        """Whether the trainer has said where it listens."""
        return address_file(self._places, run).exists()

    def send(self, run: str, request: Request, caller: Caller | None) -> None:
        """Pass ``request`` on; its answer comes from ``receive``. Raises ``ProblemError`` when it cannot be sent."""
        line = self._line(run)
        line.asked[line.channel.send(request)] = _Asked(request, caller, time.monotonic() + ANSWER_WITHIN_S)

    def receive(self) -> list[tuple[Caller, AnyReply]]:
        """The answers that came, and a refusal for each that came too late. Nobody waits for those without a caller."""
        found: list[tuple[Caller, AnyReply]] = []
        for line in self._lines.values():
            for request_id, reply in line.channel.receive():
                asked = line.asked.pop(request_id, None)
                if asked is not None and asked.caller is not None:
                    found.append((asked.caller, reply))
            found += _late(line)
        return found

    def forget(self, run: str) -> list[tuple[Caller, AnyReply]]:
        """Closes the connection to a trainer that has ended. Anyone who still waits for an answer gets one: who asked
        it to stop, that this is done."""
        line = self._lines.pop(run, None)
        if line is None:
            return []
        self._unwatch(line.channel.socket)
        line.channel.close()
        ended = Refused(problem=Problem("run.ended", "The run ended before it could answer."))
        return [
            (asked.caller, Done(run=run) if isinstance(asked.request, Stop) else ended)
            for asked in line.asked.values()
            if asked.caller is not None
        ]

    def __len__(self) -> int:
        """Returns how many answers are being waited for."""
        return sum(len(line.asked) for line in self._lines.values())

    def close(self) -> None:
        """Close all connections."""
        for run in list(self._lines):
            self.forget(run)

    def _line(self, run: str) -> _Line:
        address, known = read_address(address_file(self._places, run)), self._lines.get(run)
        if known is not None and address in (known.address, None):  # None: it has begun to end
            return known
        if address is None:
            raise problem("run.starting", "The run is still starting.", "Try again in a moment.")
        self.forget(run)
        allow(Path(address.allow_list), self._name, self._keys.public)
        channel = Channel(self._context, address.address, address.port, address.public_key, self._keys)
        self._watch(channel.socket)
        self._lines[run] = _Line(address, channel, {})
        return self._lines[run]


def _late(line: _Line) -> list[tuple[Caller, AnyReply]]:
    now = time.monotonic()
    late = [request_id for request_id, asked in line.asked.items() if now >= asked.deadline]
    text = f"The trainer did not answer within {ANSWER_WITHIN_S:.0f} s."
    refused = Refused(problem=Problem("control.timeout", text, "It may be in a long step. Stop it at once to end it."))
    callers = [line.asked.pop(request_id).caller for request_id in late]
    return [(caller, refused) for caller in callers if caller is not None]
