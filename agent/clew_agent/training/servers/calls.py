"""The calls that were handed out to workers and have not come back."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_POLL_S = 0.2


@dataclass
class _Call:
    """A call for ``count`` batches: ``others`` are the updates that may come between its reading and its own."""

    count: int
    others: int


class Calls:
    """The calls that were scheduled and have not returned, in order; a thread of its own waits for each in turn."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._changed = threading.Condition()
        self._under_way: deque[_Call] = deque()
        self._scheduled: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        threading.Thread(target=self._wait_for_each, daemon=True).start()

    @property
    def taken(self) -> int:
        """Returns how many batches are under way."""
        return sum(one.count for one in self._under_way)

    def room(self, most: int, bound: int) -> int:
        """Returns how many batches, at most ``most``, may be handed out now so that no gradient is older than
        ``bound``."""
        with self._changed:
            if not self._under_way:
                return most
            oldest = max(one.others for one in self._under_way)
            return min(most, bound - oldest) if self.taken <= bound else 0

    def add(self, count: int, scheduled: Any) -> None:
        """Wait for one more call."""
        with self._changed:
            call = _Call(count, self.taken)
            for one in self._under_way:
                one.others += count
            self._under_way.append(call)
        self._scheduled.put(scheduled)

    def wait(self, ready: Callable[[], bool] | None = None) -> None:
        """Waits until it is ``ready``, or else all have returned. Raises what a call raised."""
        with self._changed:
            while self._failure is None and not (ready() if ready is not None else not self._under_way):
                self._changed.wait(_POLL_S)
                self._look()
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        """End the thread, once what it waits for has returned."""
        self._scheduled.put(None)

    def _wait_for_each(self) -> None:
        while (scheduled := self._scheduled.get()) is not None:
            try:
                scheduled.get()
            except BaseException as error:  # noqa: BLE001  # a thread's border: the coordinator's thread raises it
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._under_way.popleft()
                self._changed.notify_all()
