"""A short conversation with an agent, for commands: questions that are answered one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import zmq

from clew_gui.session.other_version import other_version
from clew_gui.targets.target import Target
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.wire.channel import Channel, KeyPair
from clew_shared.wire.messages import (
    AgentAddress,
    AnyReply,
    GetStatus,
    Hello,
    Refused,
    Request,
    RunStatus,
    Status,
    Welcome,
)

_ANSWER_S = 20.0
"""A trainer that is asked to stop answers between two blocks, within 15 s; everything else takes milliseconds."""


class AgentLine:
    """A connection of a command to an agent. Connected while it is open; ``report`` gets a problem if the agent's
    version differs. ``__enter__`` raises ``ProblemError`` when there is nobody to talk to: none is started."""

    def __init__(self, target: Target, report: Callable[[Problem], None] = lambda _problem: None) -> None:
        self._target = target
        self._report = report
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        try:
            self._connect(self._find())
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

    def _find(self) -> AgentAddress:
        address = self._target.find()
        if address is None:
            raise ProblemError(
                Problem("agent.absent", "No agent serves here, so nothing waits and nothing runs there.")
            )
        return address

    def _connect(self, address: AgentAddress) -> None:
        keys = KeyPair.generate()
        name = f"command-{keys.public.encode().hex()[:16]}"
        try:
            self._target.admit(address, name, keys.public)
        except OSError as error:
            raise problem("link.key", f"The key for the agent cannot be written: {error}.") from None
        self._channel = Channel(self._context, address.address, address.port, address.public_key, keys)
