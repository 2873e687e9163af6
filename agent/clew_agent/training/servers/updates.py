"""The updates that workers make: the traced step, its calls, and what the servers keep of each update.

A worker's *call* is for one batch or a few. It may be computed twice, when the worker that had it is lost; each update
has a ticket, and the server keeps what came of it, so that none counts twice. The coordinator reads that when a block
is done, not after each update.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.engine.blocks import BlockUpdates
from clew_agent.strategies.base import Rows
from clew_agent.strategies.cluster_settings import BOUNDED, DROP, SYNC
from clew_agent.strategies.parameter_server import ServerCluster, after, apply_on_server, pause
from clew_agent.training.exercise import Batch
from clew_agent.training.state import check_resumable
from clew_agent.training.step import TrainingStep

_VERSION, _STALENESS, _STATUS, _WORKER, _SECONDS, _ENDED, _METRICS = range(7)
"""Columns of what the server keeps of an update; the exercise's per-step metrics are the last ones."""
_DROPPED, _APPLIED, _TORN = 0, 1, 2
_COUNT, _HEAD = 3, 4
"""The layout of what a call gets: its place among those of a batch, ticket, batch, and (at ``_COUNT``) how many
batches; from ``_HEAD`` on live values, then pauses."""
_KEPT = 4096
"""Number of updates that the server keeps: no block has more."""
_UNBOUNDED = 2**31 - 1
_POLL_S = 0.2

Row = npt.NDArray[np.float64]


class TornError(Exception):
    """Raised when a worker was lost in the middle of an update: some of it may have been done."""


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


class Servers:
    """The traced step on the cluster, its calls, and what is kept on the servers beside the variables."""

    def __init__(self, step: TrainingStep, cluster: ServerCluster) -> None:
        self.cluster = cluster
        self._step = step
        self._part = step.model.parts[0]
        self._trained = list(self._part.variables.values())
        self._width = _METRICS + len(step.metrics)
        self._sync = cluster.mode == SYNC
        self._late = cluster.staleness if cluster.mode == BOUNDED else _UNBOUNDED
        self._bound = self._late if cluster.late != DROP else _UNBOUNDED
        self._most = 1 if self._sync else cluster.updates_per_call
        self._shared = cluster.workers if self._sync else 1
        first = self._trained[0]
        with cluster.scope(), cluster.beside(first):
            self._version = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._live = tf.Variable(tf.ones([len(step.live)], tf.float64), trainable=False)
            self._begun = tf.Variable(tf.zeros([_KEPT], tf.int64), trainable=False)
            self._done = tf.Variable(tf.zeros([_KEPT], tf.int64), trainable=False)
            self._results = tf.Variable(tf.zeros([_KEPT, self._width], tf.float64), trainable=False)
        cluster.guard(first)
        self._shares = [[self._slot(one) for one in self._trained] for _ in range(self._shared if self._sync else 0)]
        self._data = cluster.keep(step.source.arrays)
        function = tf.function(self._share if self._sync else self._updates, autograph=False)
        words = _HEAD + len(step.live) + cluster.workers
        self._function = cluster.trace(function, tf.TensorSpec([words], tf.float64))
        self._apply = tf.function(self._apply_shares, autograph=False)
        self._read = tf.function(self._rows_of, autograph=False)
        self._calls = Calls(cluster.look)
        self._at, self._batch, self._ticket = 0, 0, 1
        self._usual = 0.0
        self._live_there: Row = np.ones(len(step.live))

    def _slot(self, variable: tf.Variable) -> tf.Variable:
        """Makes the variable into which a share of this variable's gradient is put."""
        with self.cluster.scope(), self.cluster.beside(variable):
            return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)

    @property
    def moved(self) -> int:
        """Bytes that one gradient sends over the network: the weights to the worker, the gradient back."""
        if not self.cluster.remote:
            return 0
        return 2 * int(sum(variable.shape.num_elements() * variable.dtype.size for variable in self._trained))

    def check(self, known: Mapping[str, tf.Variable]) -> None:
        """Refuse a step that could not be resumed: hidden generators."""

        def forward(batch: tf.Tensor) -> tf.Tensor:
            step = self._step
            picked = step.source.pick(batch, step.seed)
            whole = self.cluster.rows(step.batch_size)
            now = {name: tf.constant(1.0, tf.float64) for name in step.live}
            return step.loss_and_gradients(self._part, step.source.batch(picked), whole, batch, now)[0].value

        traced = tf.function(forward, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64))
        check_resumable(traced, known, spread=True)

    def warm_up(self, live: Row) -> None:
        """Have every worker trace and compute its first updates."""
        self.run(0, 2 if self._sync else 2 * self.cluster.workers * self._most, live)

    def close(self) -> None:
        """Wait for no more calls."""
        self._calls.close()

    # What the coordinator does.

    def run(self, first: int, count: int, live: Row) -> tuple[Row, BlockUpdates]:
        """Do ``count`` steps from ``first``; returns their metrics [count, metrics] and all that came back."""
        started = time.perf_counter()
        if self._sync and not np.array_equal(live, self._live_there):
            self._live.assign(live)
            self._live_there = live.copy()
        if self._at != first:
            self._version.assign(first)
            self._at = self._batch = first
        tables = []
        while self._at < first + count:
            missing = min(first + count - self._at, _KEPT // self._shared)
            tables.append(self._in_step(missing, live) if self._sync else self._freely(missing, live))
            self._at += int(np.sum(tables[-1][:, _STATUS] != _DROPPED)) // self._shared
        rows = np.concatenate(tables)
        applied = rows[:, _STATUS] != _DROPPED
        metrics = rows[applied, _METRICS:].reshape(count, self._shared, -1).mean(1)
        return metrics, self._columns(rows, rows[:, _ENDED] - started, applied)

    def _freely(self, count: int, live: Row) -> Row:
        """Hand ``count`` batches out, in calls that keep to the bound; returns a row for each."""
        ticket, ended = self._ticket, self._ticket + count
        most = min(self._most, -(-count // self.cluster.workers))
        while self._ticket < ended:
            self._calls.wait(lambda: self._calls.room(1, self._bound) > 0)
            handed = self._calls.room(min(most, ended - self._ticket), self._bound)
            self._call(0, self._batch, handed, live)
            self._batch += handed
        self._calls.wait()
        rows = self._kept(ticket, count)
        if _TORN in rows[:, _STATUS]:
            raise TornError
        if not self.cluster.remote:  # threads may read the same number
            rows[:, _VERSION] = self._at + np.arange(count)
        return rows[np.argsort(rows[:, _VERSION], kind="stable")]

    def _in_step(self, count: int, live: Row) -> Row:
        """Does as many batches as ``count``, each by all workers; returns a row for each share."""
        ticket = self._ticket
        for number in range(self._at, self._at + count):
            for share in range(self._shared):
                self._call(share, number, 1, live)
            self._calls.wait()
            self._apply()
        return self._kept(ticket, count * self._shared)

    def _call(self, share: int, batch: int, count: int, live: Row) -> None:
        words = np.concatenate([(share, self._ticket, batch, count), live, self.cluster.pauses(self._usual)])
        self._calls.add(count, self.cluster.schedule(self._function, self._data, tf.constant(words)))
        self._ticket += count

    def _kept(self, ticket: int, count: int) -> Row:
        """Returns what the server keeps of ``count`` updates from this ticket on; when each ended is by this process'
        clock."""
        rows, there = self._read(tf.range(ticket, ticket + count, dtype=tf.int64) % _KEPT)
        found: Row = rows.numpy()
        found[:, _ENDED] += time.perf_counter() - float(there)
        if all(factor == 1 for factor in self.cluster.slowed.values()):  # who waits for a slowed one is slow as well
            self._usual = float(np.median(found[:, _SECONDS]))
        return found

    def _columns(self, rows: Row, ended: Row, applied: npt.NDArray[np.bool_]) -> BlockUpdates:
        return BlockUpdates(
            steps=rows[:, _VERSION].astype("<i8"),
            workers=rows[:, _WORKER].astype("<i4"),
            ended=ended.astype("<f8"),
            seconds=rows[:, _SECONDS].astype("<f4"),
            staleness=rows[:, _STALENESS].astype("<i4"),
            accepted=applied.astype("u1"),
            moved=self.moved,
        )

    # What a worker does; traced.

    def _unpacked(self, words: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Share (int32), first ticket and batch (int64), live values and each worker's pause in seconds (float64)."""
        split = _HEAD + len(self._step.live)
        ticket, batch = tf.unstack(tf.cast(words[1:3], tf.int64))
        return tf.cast(words[0], tf.int32), ticket, batch, words[_HEAD:split], words[split:]

    def _updates(self, data: Any, words: tf.Tensor, worker: tf.Tensor) -> None:
        """The updates of one call, one after another. Returns nothing: that would be a message of its own."""
        x, y = self.cluster.here(data)
        source = self._step.source.at(x, y)
        if self._most == 1:
            self._update(source, words, tf.constant(0), worker)
            return

        def one(place: tf.Tensor) -> tuple[tf.Tensor]:
            with tf.control_dependencies([self._update(source, words, place, worker)]):
                return (place + 1,)

        count = tf.cast(words[_COUNT], tf.int32)
        tf.while_loop(lambda place: place < count, one, (tf.constant(0),), parallel_iterations=1)

    def _update(self, source: Any, words: tf.Tensor, place: tf.Tensor, worker: tf.Tensor) -> tf.Tensor:
        """Applies one gradient of one whole batch on the server. Returns when it is done."""
        step, whole = self._step, self.cluster.rows(self._step.batch_size)
        with tf.control_dependencies([place]), tf.device(self._version.device):
            began = self.cluster.clock()
            with tf.control_dependencies([began]):
                read = self._version.read_value()
        with tf.control_dependencies([read]):
            _, _, first, live, pauses = self._unpacked(words)
            batch = first + tf.cast(place, tf.int64)
            metrics, found = self._gradients(source.batch(source.pick(batch, step.seed)), whole, batch, live)
            report = self._report(metrics, found, tf.gather(pauses, worker), worker)
        with tf.control_dependencies([report]):
            sent = [None if one is None else _at(variable, one) for one, variable in self._pairs(found)]
        with tf.device(self._version.device):
            _, first_ticket, _, live, _ = self._unpacked(words)
            ticket = first_ticket + tf.cast(place, tf.int64)
            report = tf.identity(report)
            self._part.optimizer.rate.set(read, step.named(live))
            with tf.control_dependencies([report, *(one for one in sent if one is not None)]):
                return self.cluster.exclusively(lambda: self._once(ticket, read, sent, report, began))

    def _gradients(
        self, batch: Batch, rows: Rows, number: tf.Tensor, live: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        """The metrics of ``batch`` and the gradients for the variables."""
        step = self._step
        loss, gradients = step.loss_and_gradients(self._part, batch, rows, number, step.named(live))
        return step.columns({"loss": loss.value, **loss.metrics}), gradients

    def _report(
        self, metrics: tf.Tensor, found: Sequence[tf.Tensor | None], seconds: tf.Tensor, worker: tf.Tensor
    ) -> tf.Tensor:
        """Returns what a worker reports after it ``found`` its gradients and slept ``seconds``."""
        with tf.control_dependencies([metrics, *(one for one in found if one is not None)]):
            slept = pause(seconds)
        with tf.control_dependencies([slept]):
            return _row(tf.cast(worker, tf.float64)[tf.newaxis], metrics)

    def _pairs(self, found: Sequence[tf.Tensor | None]) -> Iterator[tuple[tf.Tensor | None, tf.Variable]]:
        return zip(found, self._trained, strict=True)

    def _fresh(
        self, read: tf.Tensor, sent: Sequence[tf.Tensor | None], report: tf.Tensor, torn: tf.Tensor, began: tf.Tensor
    ) -> tf.Tensor:
        """Does an update that was not done yet, unless it is too late or was begun once; returns the row that records
        it."""
        others = self._version.read_value() - read
        late = others > self._late
        status = tf.where(torn, _TORN, tf.where(late, _DROPPED, _APPLIED))

        def apply() -> tf.Tensor:
            with after(lambda: apply_on_server(self._part.optimizer.rule, sent, self._trained)):
                return tf.identity(self._version.assign_add(1, read_value=True)) - 1

        step_done = tf.cond(tf.equal(status, _APPLIED), apply, self._version.read_value)
        return self._timed(tf.stack([step_done, others, tf.cast(status, tf.int64)]), report, began)

    def _once(
        self,
        ticket: tf.Tensor,
        read: tf.Tensor,
        sent: Sequence[tf.Tensor | None],
        report: tf.Tensor,
        began: tf.Tensor,
    ) -> tf.Tensor:
        """Does the update, unless another worker did it for the same ticket. Returns the ticket."""
        place = tf.reshape(ticket % _KEPT, [1, 1])
        begun, done = self._begun.sparse_read(place[0])[0], self._done.sparse_read(place[0])[0]

        def do() -> tf.Tensor:
            with after(lambda: self._begun.scatter_nd_update(place, [ticket])):
                row = self._fresh(read, sent, report, tf.equal(begun, ticket), began)
            with after(lambda: self._results.scatter_nd_update(place, row[tf.newaxis])):
                closed = self._done.scatter_nd_update(place, [ticket])
            with tf.control_dependencies([closed]):
                return tf.identity(ticket)

        return tf.cond(done >= ticket, lambda: tf.identity(ticket), do)

    def _timed(self, head: tf.Tensor, report: tf.Tensor, began: tf.Tensor) -> tf.Tensor:
        """The row of an update that ends now and began at ``began``."""
        with tf.control_dependencies([head, report]):
            now = self.cluster.clock()
        return tf.concat([tf.cast(head, tf.float64), report[:1], tf.stack([now - began, now]), report[1:]], 0)

    def _rows_of(self, places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what the server keeps there, and its clock."""
        with tf.device(self._version.device):
            return self._results.sparse_read(places), self.cluster.clock()

    # In step: every worker computes a share of the batch into a place of its own; one update when all are in.

    def _share(self, data: Any, words: tf.Tensor, worker: tf.Tensor) -> None:
        """The gradient of one share of a batch, put into that share's place on the server."""
        step, (share, ticket, batch, live, pauses) = self._step, self._unpacked(words)
        with tf.device(self._version.device):
            began = self.cluster.clock()
        x, y = self.cluster.here(data)
        count = -(-step.batch_size // self._shared)
        rows = Rows(step.batch_size, count, share * count)
        source = step.source.at(x, y)
        part: Batch = source.share(source.pick(batch, step.seed), rows, self.cluster)
        metrics, gradients = self._gradients(part, rows, batch, live)
        report = self._report(metrics, gradients, tf.gather(pauses, worker), worker)

        def put(place: int) -> Callable[[], tf.Tensor]:
            def write() -> tf.Tensor:
                pairs = zip(self._shares[place], gradients, strict=True)
                done = [slot.assign(one, read_value=False) for slot, one in pairs if one is not None]
                with tf.control_dependencies(done):
                    return tf.constant(0)

            return write

        with tf.control_dependencies([report]):
            written = tf.switch_case(share, [put(place) for place in range(self._shared)])
        with tf.control_dependencies([written]), tf.device(self._version.device):
            row = self._timed(
                tf.stack([batch, tf.constant(0, tf.int64), tf.constant(_APPLIED, tf.int64)]), report, began
            )
            self._results.scatter_nd_update([[ticket % _KEPT]], row[tf.newaxis])

    def _apply_shares(self) -> None:
        """Does one update by the mean of all shares. It takes no arguments, because each would be a message of its
        own."""
        with tf.device(self._version.device):
            number = self._version.read_value()
            self._part.optimizer.rate.set(number, self._step.named(self._live.read_value()))
        means = []
        for variable, *slots in zip(self._trained, *self._shares, strict=True):
            with tf.device(variable.device):
                means.append(tf.add_n([slot.read_value() for slot in slots]) / self._shared)
        apply_on_server(self._part.optimizer.rule, means, self._trained)
        with tf.control_dependencies([number]):
            self._version.assign_add(1, read_value=False)


def _row(head: tf.Tensor, rest: tf.Tensor) -> tf.Tensor:
    """Columns of what comes back, in float64."""
    return tf.concat([tf.cast(head, tf.float64), tf.cast(rest, tf.float64)], 0)


def _at(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
    """``value`` where ``variable`` is: it has arrived before the server begins the update."""
    with tf.device(variable.device):
        return tf.identity(value)
