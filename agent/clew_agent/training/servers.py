"""Trains one exercise under parameter servers: batches are handed out to workers, whose gradients change the weights.

Each *lane* has one call to a worker under way at a time, for one batch or a few. What a lane asks for may be computed
twice, when the worker that had it is lost; the server knows the lane's last ticket, so that no update counts twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.strategies.base import Rows
from clew_agent.strategies.cluster_settings import BOUNDED, DROP, SYNC
from clew_agent.strategies.parameter_server import Cluster, after, apply_on_server, pause
from clew_agent.training import state
from clew_agent.training.engine import Engine, TrainedBlock, UpdateColumns
from clew_agent.training.exercise import Batch
from clew_agent.training.state import check_resumable
from clew_agent.training.step import BlockSizer, TrainingStep
from clew_shared.base.problem import problem
from clew_shared.journal.events import Event

_VERSION, _STALENESS, _STATUS, _WORKER, _SECONDS, _METRICS = range(6)
"""Columns of what comes back for one gradient; the exercise's per-step metrics are the last ones."""
_DROPPED, _APPLIED, _TORN = 0, 1, 2
_COUNT, _HEAD = 3, 4
"""What a call is told: lane, ticket, batch, how many batches; then the live values and the pauses."""
_CALLS_A_WORKER = 2
"""One is computed while the other waits in the coordinator's queue, so that no worker is ever idle."""
_POLL_S = 0.2
_UNBOUNDED = 2**31 - 1
BLOCK_S = 0.5
"""So long a block lasts. At its end workers wait for the last one, and the variables are copied."""

Row = npt.NDArray[np.float64]


@dataclass
class _UnderWay:
    """A call for ``count`` batches: ``others`` are the updates that may come between its reading and its own."""

    number: int
    count: int
    others: int


@dataclass
class _Handed:
    """What lanes and the coordinator's thread share, under ``changed``."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    under_way: dict[int, _UnderWay] = field(default_factory=dict)
    came_back: list[tuple[float, Row]] = field(default_factory=list)
    applied: int = 0
    """Updates done in all: the next step."""
    batch: int = 0
    """The next batch to hand out."""
    limit: int = 0
    """So many updates may be done in all for now."""
    tickets: int = 0
    failure: BaseException | None = None
    ended: bool = False


class _TornError(Exception):
    """A worker was lost in the middle of an update: some of it may have been done."""


Renew = Callable[[BaseException], Cluster]
"""After an error: the cluster that takes the place of the lost one. Raises the error again when nothing was lost."""


class ServerEngine(Engine):
    """As ``Engine``; a step is an update that the servers applied.

    At the end of a block nothing is under way, and the coordinator keeps a copy of all variables: when a server is lost
    the block is done again on the cluster that ``renew`` gives, and no step is lost or done twice.
    """

    renew: Renew | None = None
    larger: Callable[[], Cluster | None] = staticmethod(lambda: None)
    """Asked before each block for a cluster with more workers; None while there is none."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that trains it."""
        return self._servers.cluster

    @property
    def logical_devices(self) -> bool:
        """Workers are processes or threads, not devices."""
        return False

    @property
    def variables(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of all weights and slots by name."""
        return {name: variable.numpy() for name, variable in self._state.items()}

    def compile(self) -> float:
        """Trace the step on every worker, and undo what it did."""
        start = time.perf_counter()
        self._servers.check(self._state)
        self._begin_with(self.variables)
        return time.perf_counter() - start

    def run_block(self, until: int | None = None) -> TrainedBlock:
        """The next updates; see ``Engine.run_block``."""
        cluster = self.larger()
        if cluster is not None:
            try:
                self.grow(cluster)
            except Exception as error:  # noqa: BLE001  # as in a block
                self._renew(error)
        first = self.step
        room = min(self._room(), self.steps - first if until is None else until - first)
        while True:
            count = max(1, min(self._sizer.next(room), room))
            start = time.perf_counter()
            try:
                rows, updates = self._servers.run(first, count, self._progress.live)
                self._safe = self.variables
                break
            except _TornError:
                self.grow(self.cluster)
            except Exception as error:  # noqa: BLE001  # what it is when a server is lost differs; others come again
                self._renew(error)
        return self._trained_block(rows, time.perf_counter() - start, updates)

    def evaluate(self) -> dict[str, float]:
        """Measure the held-out samples."""
        while True:
            try:
                return super().evaluate()
            except tf.errors.OpError as error:
                self._renew(error)

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        """The pictures that are due now."""
        found: list[Event] = []
        while True:
            try:
                found.extend(super().take_pictures(last=last))
                return iter(found)
            except tf.errors.OpError as error:
                self._renew(error)

    def grow(self, cluster: Cluster) -> None:
        """Go on with another cluster, from where it is."""
        self._servers.close()
        keras.backend.clear_session()  # Keras counts the layers of a process, and names them by that
        self._assemble(cluster)
        self.compile_evaluation()
        self._pictures.replace(self._model.pictures)
        self._begin_with(self._safe)

    def _begin_with(self, values: dict[str, npt.NDArray[Any]]) -> None:
        """Have every worker trace the step; afterwards all variables have these ``values``."""
        self._servers.warm_up(self._progress.live)
        self._safe = values
        self._fill(values)

    def save(self, folder: Path) -> None:
        """Write everything that the run needs to go on into ``folder``; the coordinator writes it, not the servers."""
        self._progress.saved_at = self.step
        here = {name: tf.Variable(value) for name, value in self._safe.items()}
        state.save(here | self._progress.variables(), folder)

    def restore(self, folder: Path) -> None:
        """Go on from what ``save`` wrote, also under another strategy."""
        here = {name: tf.Variable(value) for name, value in self._safe.items()}
        progress = self._progress.variables()
        state.restore(here | progress, folder)
        self._safe = {name: variable.numpy() for name, variable in here.items()}
        self._fill(self._safe)
        self._progress.read(progress)

    def _prepare(self, step: TrainingStep) -> None:
        if len(step.model.parts) != 1 or step.model.parts[0].repeats != 1 or step.model.state:
            text = "Parameter servers train models of one part without moving averages, not this one."
            raise problem("spec.strategy", text, "Choose mirrored or multi-worker.", "strategy")
        self._servers = _Servers(step)
        self._sizer = BlockSizer(self.steps, BLOCK_S)

    def _renew(self, error: BaseException) -> None:
        found: BaseException | None = error
        while found is not None:
            if self.renew is None:
                raise found
            cluster, found = self.renew(found), None
            try:
                self.grow(cluster)
            except Exception as again:  # noqa: BLE001  # another server may be lost meanwhile; else it comes again
                found = again

    def _fill(self, values: dict[str, npt.NDArray[Any]]) -> None:
        for name, variable in self._state.items():
            variable.assign(values[name])


class _Servers:
    """The traced step on the cluster, its lanes, and what is kept on the servers beside the variables."""

    def __init__(self, step: TrainingStep) -> None:
        cluster = step.strategy
        if not isinstance(cluster, Cluster):
            raise TypeError(f"{type(cluster).__name__} has no workers to hand batches out to")
        self.cluster = cluster
        self._step = step
        self._part = step.model.parts[0]
        self._trained = list(self._part.variables.values())
        self._width = _METRICS + len(step.metrics)
        self._sync = cluster.mode == SYNC
        self._bound = cluster.staleness if cluster.mode == BOUNDED else _UNBOUNDED
        self._waits = cluster.mode == BOUNDED and cluster.late != DROP
        self._most = 1 if self._sync else cluster.updates_per_call
        self._lanes = cluster.workers * (1 if self._sync or self._waits or not cluster.remote else _CALLS_A_WORKER)
        first = self._trained[0]
        with cluster.scope(), cluster.beside(first):
            self._version = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._tickets = tf.Variable(tf.zeros([self._lanes, 2], tf.int64), trainable=False)
            self._results = tf.Variable(tf.zeros([self._lanes, self._most, self._width], tf.float64), trainable=False)
        cluster.guard(first)
        self._shares = [[self._slot(one) for one in self._trained] for _ in range(self._lanes if self._sync else 0)]
        self._data = cluster.keep(step.source.arrays)
        self._function = tf.function(self._share if self._sync else self._updates, autograph=False)
        self._apply = tf.function(self._apply_shares, autograph=False)
        self._handed = _Handed()
        self._usual = 0.0
        self._live = np.zeros(len(step.live))
        self._threads: list[threading.Thread] = []
        self._pool = ThreadPoolExecutor(self._lanes)

    def _slot(self, variable: tf.Variable) -> tf.Variable:
        """Where a share of this variable's gradient is put."""
        with self.cluster.scope(), self.cluster.beside(variable):
            return tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)

    @property
    def moved(self) -> int:
        """Bytes that one gradient sends over the network: the weights to the worker, the gradient back."""
        if not self.cluster.remote:
            return 0
        return 2 * int(sum(variable.shape.num_elements() * variable.dtype.size for variable in self._trained))

    def check(self, known: dict[str, tf.Variable]) -> None:
        """Refuse a step that could not be resumed: hidden generators."""
        check_resumable(self._traced_here(), known, spread=True)

    def _traced_here(self) -> Any:
        def forward(batch: tf.Tensor) -> tf.Tensor:
            step = self._step
            picked = step.source.pick(batch)
            whole = self.cluster.rows(step.batch_size)
            now = {name: tf.constant(1.0, tf.float64) for name in step.live}
            return step.loss_and_gradients(self._part, step.source.batch(picked), whole, batch, now)[0].value

        return tf.function(forward, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64))

    def warm_up(self, live: Row) -> None:
        """Have every worker trace and compute its first updates."""
        steps = 2 if self._sync else 2 * self._lanes
        self.run(0, steps, live)

    # What is called from the coordinator's thread.

    def run(self, first: int, count: int, live: Row) -> tuple[Row, UpdateColumns]:
        """Do ``count`` steps from ``first``; returns their metrics [count, metrics] and all that came back."""
        if self._sync:
            return self._run_in_step(first, count, live)
        self._begin(first, live)
        handed, started = self._handed, time.perf_counter()
        with handed.changed:
            handed.limit = first + count
            handed.changed.notify_all()
            while (handed.applied < handed.limit or handed.under_way) and handed.failure is None:
                handed.changed.wait(_POLL_S)
                self.cluster.look()
        return self._taken(first, started)

    def close(self) -> None:
        """End the lanes."""
        with self._handed.changed:
            self._handed.ended = True
            self._handed.changed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, first: int, live: Row) -> None:
        handed = self._handed
        with handed.changed:
            self._live = live.copy()
            if handed.applied != first:
                self._version.assign(first)
                handed.applied = handed.batch = first
            if not self._threads:
                lanes = [threading.Thread(target=self._lane, args=(lane,), daemon=True) for lane in range(self._lanes)]
                self._threads = lanes
                for thread in lanes:
                    thread.start()

    def _taken(self, first: int, started: float) -> tuple[Row, UpdateColumns]:
        with self._handed.changed:
            if self._handed.failure is not None:
                raise self._handed.failure
            back, self._handed.came_back = self._handed.came_back, []
        back.sort(key=lambda one: one[1][_VERSION])
        rows = np.array([row for _, row in back]).reshape(-1, self._width)
        if not self.cluster.remote:  # threads may read the same number
            rows[:, _VERSION] = first + np.arange(len(rows))
        ended = np.array([when - started for when, _ in back])
        applied = rows[:, _STATUS] != _DROPPED
        columns = self._columns(rows, ended, applied)
        return rows[applied, _METRICS:], columns

    def _columns(self, rows: Row, ended: Row, applied: npt.NDArray[np.bool_]) -> UpdateColumns:
        return UpdateColumns(
            steps=rows[:, _VERSION].astype("<i8"),
            workers=rows[:, _WORKER].astype("<i4"),
            ended=ended.astype("<f8"),
            seconds=rows[:, _SECONDS].astype("<f4"),
            staleness=rows[:, _STALENESS].astype("<i4"),
            accepted=applied.astype("u1"),
            moved=self.moved,
        )

    # What is done in a lane's thread.

    def _lane(self, lane: int) -> None:
        handed = self._handed
        while True:
            with handed.changed:
                handed.changed.wait_for(self._may_hand_out)
                if handed.ended or handed.failure is not None:
                    return
                work = _UnderWay(handed.batch, self._may_take(), self._taken_already())
                for one in handed.under_way.values():
                    one.others += work.count
                handed.under_way[lane] = work
                handed.batch += work.count
                handed.tickets += 1
                ticket, live = handed.tickets, self._live
            try:
                words = self._words(lane, ticket, work, live)
                table = self.cluster.fetch(self.cluster.schedule(self._function, self._data, lane, words))
            except BaseException as error:  # noqa: BLE001  # a thread's border: the coordinator's thread raises it
                with handed.changed:
                    handed.failure = error
                    handed.changed.notify_all()
                return
            rows = table[: work.count]
            with handed.changed:
                del handed.under_way[lane]
                handed.came_back += self._timed(rows)
                handed.applied += int(np.sum(rows[:, _STATUS] != _DROPPED))
                if _TORN in rows[:, _STATUS]:
                    handed.failure = _TornError()
                handed.changed.notify_all()

    def _may_hand_out(self) -> bool:
        return self._handed.failure is not None or self._handed.ended or self._may_take() > 0

    def _taken_already(self) -> int:
        return sum(one.count for one in self._handed.under_way.values())

    def _may_take(self) -> int:
        """How many batches may be handed out in one call now."""
        handed, taken = self._handed, self._taken_already()
        room = min(self._most, handed.limit - handed.applied - taken)
        if self._waits and handed.under_way:
            oldest = max(one.others for one in handed.under_way.values())
            room = min(room, self._bound - oldest) if taken <= self._bound else 0
        return room

    def _words(self, lane: int, ticket: int, work: _UnderWay, live: Row) -> tf.Tensor:
        """All that one call is told, as one tensor: each tensor is a message of its own to the worker."""
        head = (lane, ticket * self._most, work.number, work.count)
        return tf.constant(np.concatenate([head, live, self.cluster.pauses(self._usual)]))

    # What a worker does; traced.

    def _unpacked(self, words: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Lane (int32), first ticket and batch (int64), live values and each worker's pause in seconds (float64)."""
        split = _HEAD + len(self._step.live)
        ticket, batch = tf.unstack(tf.cast(words[1:3], tf.int64))
        return tf.cast(words[0], tf.int32), ticket, batch, words[_HEAD:split], words[split:]

    def _updates(self, data: Any, words: tf.Tensor, worker: tf.Tensor) -> tf.Tensor:
        """The updates of one call, one after another: a row for each."""
        x, y = self.cluster.here(data)
        source = self._step.source.at(x, y)
        if self._most == 1:
            return self._update(source, words, tf.constant(0), worker)[tf.newaxis]

        def one(place: tf.Tensor, table: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.control_dependencies([table]):  # the weights are read after the update before
                row = self._update(source, words, tf.identity(place), worker)
            return place + 1, tf.tensor_scatter_nd_update(table, [[place]], row[tf.newaxis])

        count = tf.cast(words[_COUNT], tf.int32)
        empty = tf.zeros([self._most, self._width], tf.float64)
        table: tf.Tensor = tf.while_loop(lambda place, _: place < count, one, (0, empty), parallel_iterations=1)[1]
        return table

    def _update(self, source: Any, words: tf.Tensor, place: tf.Tensor, worker: tf.Tensor) -> tf.Tensor:
        """One gradient of one whole batch, applied by the server."""
        step, whole = self._step, self.cluster.rows(self._step.batch_size)
        with tf.control_dependencies([place]):
            began = tf.timestamp()
        with tf.control_dependencies([began]):
            read = self._version.read_value()
        with tf.control_dependencies([read]):
            _, _, first, live, pauses = self._unpacked(words)
            batch = first + tf.cast(place, tf.int64)
            picked = source.batch(source.pick(batch))
            told, gradients = self._computed(picked, whole, batch, live, tf.gather(pauses, worker), worker)
        with tf.control_dependencies([told]):
            sent = [None if one is None else _at(variable, one) for one, variable in self._pairs(gradients)]
        with tf.device(self._version.device):
            lane, first_ticket, _, live, _ = self._unpacked(words)
            ticket = first_ticket + tf.cast(place, tf.int64)
            told = tf.identity(told)
            self._part.optimizer.rate.set(read, step.named(live))
            with tf.control_dependencies([told, *(one for one in sent if one is not None)]):
                row = self.cluster.exclusively(lambda: self._once(lane, place, ticket, read, sent, told))
        return _lasted(row, began)

    def _computed(
        self, batch: Batch, rows: Rows, number: tf.Tensor, live: tf.Tensor, seconds: tf.Tensor, worker: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor | None]]:
        """What a worker computes of ``batch``, and so many ``seconds`` of sleep.

        Returns what it tells of it (the columns from its number on) and the gradients.
        """
        step = self._step
        loss, gradients = step.loss_and_gradients(self._part, batch, rows, number, step.named(live))
        metrics = step.columns({"loss": loss.value, **loss.metrics})
        with tf.control_dependencies([metrics, *(one for one in gradients if one is not None)]):
            slept = pause(seconds)
        with tf.control_dependencies([slept]):
            return _row(tf.stack([tf.cast(worker, tf.float64), 0.0]), metrics), gradients

    def _pairs(self, gradients: Sequence[tf.Tensor | None]) -> Iterator[tuple[tf.Tensor | None, tf.Variable]]:
        return zip(gradients, self._trained, strict=True)

    def _fresh(self, read: tf.Tensor, gradients: Sequence[tf.Tensor | None], told: tf.Tensor, torn: tf.Tensor) -> Any:
        """An update that was not done yet, unless it is too late or was begun once; the row that tells of it."""
        others = self._version.read_value() - read
        late = others > self._bound
        status = tf.where(torn, _TORN, tf.where(late, _DROPPED, _APPLIED))

        def apply() -> tf.Tensor:
            with after(lambda: apply_on_server(self._part.optimizer.rule, gradients, self._trained)):
                return tf.identity(self._version.assign_add(1, read_value=True)) - 1

        step_done = tf.cond(tf.equal(status, _APPLIED), apply, self._version.read_value)
        return _row(tf.stack([step_done, others, tf.cast(status, tf.int64)]), told)

    def _once(
        self,
        lane: tf.Tensor,
        place: tf.Tensor,
        ticket: tf.Tensor,
        read: tf.Tensor,
        gradients: Sequence[tf.Tensor | None],
        told: tf.Tensor,
    ) -> tf.Tensor:
        """The update, or what came of it when another worker did it for the same ticket."""
        known = self._tickets.read_value()
        begun, done = known[lane, 0], known[lane, 1]
        mine = tf.equal(tf.range(self._lanes), lane)[:, tf.newaxis]

        def do() -> tf.Tensor:
            opened = tf.where(mine, tf.stack([ticket, done])[tf.newaxis], known)
            with tf.control_dependencies([self._tickets.assign(opened, read_value=False)]):
                row = self._fresh(read, gradients, told, tf.equal(begun, ticket))
            kept = tf.tensor_scatter_nd_update(self._results.read_value(), [tf.stack([lane, place])], row[tf.newaxis])
            with tf.control_dependencies([self._results.assign(kept, read_value=False)]):
                closed = self._tickets.assign(tf.where(mine, ticket, known), read_value=False)
            with tf.control_dependencies([closed]):
                return tf.identity(row)

        return tf.cond(done >= ticket, lambda: self._results.read_value()[lane, place], do)

    # In step: every worker computes a share of the batch into a place of its own; one update when all are in.

    def _run_in_step(self, first: int, count: int, live: Row) -> tuple[Row, UpdateColumns]:
        started, rows, updates = time.perf_counter(), [], []
        for number in range(first, first + count):
            back = self._round(number, live)
            self._apply(tf.constant(number, tf.int64), tf.constant(live))
            rows.append(np.mean([row[_METRICS:] for _, row in back], axis=0))
            updates += [(when, np.concatenate([[number, 0, _APPLIED], row[_WORKER:]])) for when, row in back]
        table = np.array([row for _, row in updates]).reshape(-1, self._width)
        ended = np.array([when - started for when, _ in updates])
        return np.array(rows), self._columns(table, ended, np.ones(len(table), bool))

    def _round(self, number: int, live: Row) -> list[tuple[float, Row]]:
        waiting = [self._pool.submit(self._one_share, share, number, live) for share in range(self._lanes)]
        while wait(waiting, _POLL_S).not_done:
            self.cluster.look()
        return [one.result() for one in waiting]

    def _one_share(self, share: int, number: int, live: Row) -> tuple[float, Row]:
        words = self._words(share, 0, _UnderWay(number, 1, 0), live)
        row = self.cluster.fetch(self.cluster.schedule(self._function, self._data, share, words))
        return self._timed(row[np.newaxis])[0]

    def _timed(self, rows: Row) -> list[tuple[float, Row]]:
        """When each row of a call was done. How long they took is also the measure for who is slowed."""
        now = time.perf_counter()
        if all(factor == 1 for factor in self.cluster.slowed.values()):  # who waits for a slowed one is slow as well
            self._usual += 0.1 * (float(rows[:, _SECONDS].mean()) - self._usual)
        later = np.cumsum(rows[::-1, _SECONDS])[::-1] - rows[:, _SECONDS]
        return list(zip(now - later, rows, strict=True))

    def _share(self, data: Any, words: tf.Tensor, worker: tf.Tensor) -> tf.Tensor:
        """The gradient of one share of a batch, put into that share's place on the server."""
        step, (lane, _, batch, live, pauses) = self._step, self._unpacked(words)
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            x, y = self.cluster.here(data)
        count = -(-step.batch_size // self._lanes)
        rows = Rows(step.batch_size, count, lane * count)
        source = step.source.at(x, y)
        share: Batch = source.share(source.pick(batch), rows, self.cluster)
        told, gradients = self._computed(share, rows, batch, live, tf.gather(pauses, worker), worker)

        def put(place: int) -> Callable[[], tf.Tensor]:
            def write() -> tf.Tensor:
                pairs = zip(self._shares[place], gradients, strict=True)
                done = [slot.assign(one, read_value=False) for slot, one in pairs if one is not None]
                with tf.control_dependencies(done):
                    return tf.constant(0)

            return write

        with tf.control_dependencies([told]):
            written = tf.switch_case(lane, [put(place) for place in range(self._lanes)])
        with tf.control_dependencies([written]):
            return _lasted(_row(tf.constant([0.0, 0.0, _APPLIED]), told), began)

    def _apply_shares(self, number: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        step = self._step
        self._part.optimizer.rate.set(number, step.named(live))
        means = []
        for variable, *slots in zip(self._trained, *self._shares, strict=True):
            with tf.device(variable.device):
                means.append(tf.add_n([slot.read_value() for slot in slots]) / self._lanes)
        apply_on_server(self._part.optimizer.rule, means, self._trained)
        return tf.constant(0)


def _lasted(row: tf.Tensor, began: tf.Tensor) -> tf.Tensor:
    """The row with how long its update took, in seconds."""
    with tf.control_dependencies([row]):
        seconds = tf.timestamp() - began
    return tf.concat([row[:_SECONDS], seconds[tf.newaxis], row[_SECONDS + 1 :]], 0)


def _row(head: tf.Tensor, rest: tf.Tensor) -> tf.Tensor:
    """Columns of what comes back, in float64."""
    return tf.concat([tf.cast(head, tf.float64), tf.cast(rest, tf.float64)], 0)


def _at(variable: tf.Variable, value: tf.Tensor) -> tf.Tensor:
    """``value`` where ``variable`` is: it has arrived before the server begins the update."""
    with tf.device(variable.device):
        return tf.identity(value)
