"""A channel to an agent that exists only in the test."""

from __future__ import annotations

from clew_shared.wire.messages import AnyReply


class FakeChannel:
    """Keeps what is sent; the n-th request has the id ``b"n"``. ``answer`` is what the agent replies with."""

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.connections = 1
        self._answered: set[bytes] = set()
        self._replies: list[tuple[bytes, AnyReply]] = []

    def send(self, request: object) -> bytes:
        self.sent.append(request)
        return str(len(self.sent)).encode()

    def answer(self, kind: type, reply: AnyReply) -> None:
        """Answer the last request of this kind, if that was not answered before."""
        number = max(n for n, request in enumerate(self.sent, 1) if isinstance(request, kind))
        if (request_id := str(number).encode()) not in self._answered:
            self._answered.add(request_id)
            self._replies.append((request_id, reply))

    def receive(self) -> list[tuple[bytes, AnyReply]]:
        taken, self._replies = self._replies, []
        return taken

    def close(self) -> None:
        """Nobody is there any more."""
