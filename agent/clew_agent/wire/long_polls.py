"""Long polls: the requests that are answered when something happens, or when their time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from clew_shared.wire.messages import MAX_FETCH_WAIT, Fetch, GetStatus

MAX_WAITING = 1024
"""Largest number of waiting requests of each kind, over all viewers."""


class Caller(msgspec.Struct, frozen=True):
    """Whom to answer: the client's identity on the router, and its request's id."""

    identity: bytes
    request_id: bytes


RequestT = TypeVar("RequestT", Fetch, GetStatus)


class WaitingRequest(msgspec.Struct, Generic[RequestT], frozen=True):
    """A request that waits until ``deadline`` (monotonic seconds)."""

    caller: Caller
    request: RequestT
    deadline: float


class LongPolls(Generic[RequestT]):
    """The waiting requests, at most one for each viewer and ``key``; a later one replaces the earlier."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[bytes, str], WaitingRequest[RequestT]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, caller: Caller, key: str, request: RequestT) -> WaitingRequest[RequestT] | None:
        """Let ``request`` wait; returns the one that it replaces, or itself when too many wait: to be answered now."""
        deadline = time.monotonic() + min(max(request.wait, 0.0), MAX_FETCH_WAIT)
        added = WaitingRequest(caller, request, deadline)
        place = (caller.identity, key)
        if place not in self._waiting and len(self._waiting) >= MAX_WAITING:
            return added
        replaced = self._waiting.get(place)
        self._waiting[place] = added
        return replaced

    def keys(self) -> set[str]:
        """Returns the keys that requests wait for."""
        return {key for _, key in self._waiting}

    def take(self, is_due: Callable[[RequestT], bool]) -> list[WaitingRequest[RequestT]]:
        """Takes out the requests that are due or whose time is up; they wait no more."""
        now = time.monotonic()
        due = {place: one for place, one in self._waiting.items() if now >= one.deadline or is_due(one.request)}
        for place in due:
            del self._waiting[place]
        return list(due.values())

    def soonest(self) -> float | None:
        """Seconds until the first deadline; None when nothing waits."""
        if not self._waiting:
            return None
        return max(0.0, min(one.deadline for one in self._waiting.values()) - time.monotonic())
