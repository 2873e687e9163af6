"""Requests that a person made, until they are answered: sent again after a cut, given up after a while."""

from __future__ import annotations

import time
from collections import deque

import msgspec

from clew_shared.messages import (
    AnyReply,
    ContinueRun,
    MoveRun,
    Pause,
    Refused,
    SetLive,
    Shutdown,
    StartRun,
    Stop,
    Unpause,
)
from clew_shared.problem import Problem

ANSWER_WITHIN_S = 25.0
"""From sending; a trainer's own bound in the agent is shorter, so a late trainer is told of by the agent."""

Command = StartRun | ContinueRun | MoveRun | Pause | Unpause | Stop | SetLive | Shutdown
"""A ``Shutdown`` only with ``idle``: it may come twice, also to the next agent."""


class Outcome(msgspec.Struct, frozen=True):
    """A command that was not carried out."""

    command: Command
    problem: Problem


class Commands:
    """Filled from any thread (``put``), emptied by the link's."""

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
        """It is on its way."""
        self._asked[request_id] = (command, time.monotonic() + ANSWER_WITHIN_S)

    def answered(self, request_id: bytes, reply: AnyReply) -> Outcome | None:
        """What to tell the person of a reply, if it is a refusal of one of these."""
        asked = self._asked.pop(request_id, None)
        if asked is None or not isinstance(reply, Refused):
            return None
        return Outcome(asked[0], reply.problem)

    def cut(self) -> None:
        """The connection is gone: what has no answer is asked again, in order. Each request may come twice."""
        self._new.extendleft(reversed([command for command, _ in self._asked.values()]))
        self._asked.clear()

    def late(self) -> list[Outcome]:
        """Those that wait for their answer too long; they are given up."""
        now = time.monotonic()
        late = [request_id for request_id, (_, deadline) in self._asked.items() if now >= deadline]
        text = f"The agent did not answer within {ANSWER_WITHIN_S:.0f} s."
        found = Problem("link.timeout", text, "Look at the run's state before you try again.")
        return [Outcome(self._asked.pop(request_id)[0], found) for request_id in late]
