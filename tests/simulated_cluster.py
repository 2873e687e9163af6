"""Simulates what a parameter-server run writes into its journal: workers that are slowed, killed, started again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Event, Peer, Points, Schema, Updates

SCHEMA = Schema(
    id=1,
    metrics=(MetricSpec(name="loss", label="Loss", better="lower"), MetricSpec(name="accuracy", label="Accuracy")),
    batch_size=100,
)
"""Describes the points of the simulated run."""


def as_updates(columns: dict[str, NDArray[Any]], time: float = 0.0) -> Updates:
    """The event of some gradients, from a column for each of its fields."""
    kinds = {"steps": "<i8", "workers": "<i4", "ended": "<f8", "seconds": "<f4", "staleness": "<i4", "accepted": "<u1"}
    raw = {name: columns[name].astype(kind).tobytes() for name, kind in kinds.items()}
    return msgspec.convert({"t": "updates", **raw, "moved": 62_800, "time": time}, Updates)


@dataclass
class SimulatedCluster:
    """Asynchronous workers, with a version counter on the server like the real one; gradients staler than ``bound``
    are dropped. ``wall`` is the time since 1970 at which training started."""

    workers: int = 2
    servers: int = 1
    pace: float = 0.05
    wall: float = 1_762_400_000.0
    bound: int | None = None
    clock: float = 0.0
    step: int = 0
    factors: dict[int, float] = field(default_factory=dict)
    _busy: list[tuple[float, int, float, int]] = field(default_factory=list)
    """For each worker: when it ends, its number, how long it takes, and the version that it read."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(7)
        for worker in range(self.workers):
            self._begin(worker)

    def peer(self, role: str, index: int, status: str, factor: float = 1.0) -> Peer:
        """The event of a process, now."""
        place = index + (1 if role == "ps" else 2)
        return Peer(
            time=self.wall + self.clock,
            role=role,
            index=index,
            host=f"node{place}",
            address=f"10.0.0.{place}",
            port=40_000 + place,
            pid=4_000 + place,
            status=status,
            factor=factor,
        )

    def join(self) -> list[Event]:
        """All processes join."""
        servers = [self.peer("ps", index, "joined") for index in range(self.servers)]
        return [*servers, *(self.peer("worker", index, "joined") for index in range(self.workers))]

    def slow(self, worker: int, factor: float) -> Peer:
        """From its next update on, the worker takes ``factor`` times as long."""
        self.factors[worker] = factor
        return self.peer("worker", worker, "slowed", factor)

    def kill(self, worker: int) -> Peer:
        """Kill a worker; what it computes is lost."""
        self._busy = [one for one in self._busy if one[1] != worker]
        heapq.heapify(self._busy)
        return self.peer("worker", worker, "killed")

    def replace(self, worker: int) -> Peer:
        """Start a new process in place of a worker."""
        self.factors.pop(worker, None)
        self._begin(worker)
        return self.peer("worker", worker, "replaced")

    def _begin(self, worker: int) -> None:
        took = self.pace * self.factors.get(worker, 1.0) * self._random.uniform(0.9, 1.15)
        heapq.heappush(self._busy, (self.clock + took, worker, took, self.step))

    def train(self, seconds: float, blocks: int = 1) -> Iterator[Event]:
        """The events of so many seconds: updates and points of each block."""
        for _ in range(blocks):
            yield from self._block(self.clock + seconds / blocks)

    def _block(self, end: float) -> Iterator[Event]:
        first, rows = self.step, []
        start = self.clock
        while self._busy and self._busy[0][0] <= end:
            self.clock, worker, took, version = heapq.heappop(self._busy)
            staleness = self.step - version
            accepted = self.bound is None or staleness <= self.bound
            rows.append((self.step, worker, self.clock, took, staleness, accepted))
            self.step += accepted
            self._begin(worker)
        self.clock = end
        if rows:
            names = ("steps", "workers", "ended", "seconds", "staleness", "accepted")
            yield as_updates(dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True)), self.wall + end)
        count = self.step - first
        if count:
            steps = np.arange(first, self.step)
            loss, accuracy = 0.3 + 2 * np.exp(-steps / 80), 0.92 - 0.8 * np.exp(-steps / 60)
            values = (loss.astype("<f4").tobytes(), accuracy.astype("<f4").tobytes())
            yield Points(
                schema=1, first=first, count=count, seconds=end - start, clock=end, values=values, time=self.wall + end
            )
