"""Parameter servers hold the variables; workers read them, compute gradients and send those back.

The coordinator, which is the trainer, hands out batches (``tf.distribute.ParameterServerStrategy`` and its
``ClusterCoordinator``; Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014). The
mode says how workers keep together: not at all (async), in step (sync), or at most so many updates apart (bounded; Ho
et al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013). lock-free needs
no server: threads of one process change the same memory (Niu et al., "Hogwild!", NIPS 2011).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from clew_agent.strategies.base import OneState, Rows
from clew_agent.strategies.cluster_settings import SERVER, WORKER, ParameterServerSettings
from clew_shared.base.problem import problem
from clew_shared.cards import StrategyCard
from clew_shared.params import describe

_CONNECTS = "WorkerPreemptionHandler"
"""The name of the coordinator's thread that connects to workers that have come back."""
_CONNECTS_WITHIN_S = 60.0
"""TensorFlow's thread that connects to a worker cannot be ended; a process must not wait for it for ever."""

CARD = StrategyCard(
    id="parameter-server",
    title="Servers, workers",
    params=describe(ParameterServerSettings),
    nodes=True,
    roles=(WORKER, SERVER),
    help="Servers hold the weights. Workers read them, compute gradients of their own batches and send them back.",
)


class ServerCluster(OneState):
    """The workers to which the engine hands out batches. This class is for workers in other processes.

    Makes TensorFlow's coordinator in this process, which must not have computed anything before. ``addresses`` are
    ``host:port`` of every process by its job (chief, ps, worker); the chief is this one.
    """

    whole = False
    processes = 1
    reduced_bytes = 0
    remote = True

    def __init__(self, addresses: Mapping[str, Sequence[str]], settings: ParameterServerSettings) -> None:
        self.mode, self.staleness, self.late = settings.mode, settings.staleness, settings.late
        self.updates_per_call = settings.updates_per_call
        self.replicas = self.workers = len(addresses["worker"])
        self.slowed = dict[int, float]()
        self._look: Callable[[], None] = lambda: None
        spec = tf.train.ClusterSpec(dict(addresses))
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            spec, rpc_layer="grpc", task_type="chief", task_id=0
        )
        self._strategy = tf.distribute.ParameterServerStrategy(resolver)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._numbers = self._numbered()

    def _numbered(self) -> Any:
        """Each worker's own number, for what runs there; TensorFlow has no public name for its list of workers."""
        there = self._coordinator._cluster.workers
        made = [
            one.create_resource(tf.function(lambda number=number: tf.constant(number), autograph=False), (), {})
            for number, one in enumerate(there)
        ]
        return tf.distribute.experimental.coordinator.PerWorkerValues(tuple(made))

    def close(self) -> None:
        """End the coordinator's threads. One that connects to a worker again is waited for: the next coordinator must
        not do that at the same time, because TensorFlow's list of processes is one for the whole process."""
        self._coordinator._cluster.stop()
        for thread in threading.enumerate():
            if thread.name == _CONNECTS:
                thread.join(_CONNECTS_WITHIN_S)

    def watch(self, look: Callable[[], None]) -> None:
        """Have ``look`` called now and then while the coordinator waits; it may raise."""
        self._look = look

    def look(self) -> None:
        """Calls ``look`` while waiting."""
        self._look()

    def scope(self) -> AbstractContextManager[object]:
        """Returns the scope in which variables are made on the servers, shared out among them."""
        scope: AbstractContextManager[object] = self._strategy.scope()
        return scope

    def run(self, replica: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Runs ``replica`` as one worker does."""
        return replica()

    def rows(self, batch: int) -> Rows:
        """Returns all rows: a worker computes whole batches, unless a call says otherwise."""
        return Rows(batch, batch)

    def apply(self, rule: Any, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
        """Does one update where the variables are."""
        apply_on_server(rule, gradients, variables)

    def beside(self, variable: tf.Variable) -> AbstractContextManager[object]:
        """Returns the scope in which more variables are made on the server that holds ``variable``."""
        beside: AbstractContextManager[object] = self._strategy.extended.colocate_vars_with(variable)
        return beside

    def total(self, values: tf.Tensor) -> tf.Tensor:
        """Refuses: workers do not talk to each other."""
        text = (
            "This exercise needs sums over all devices in each step, for example for batch normalisation. "
            "The workers of parameter servers do not exchange such sums."
        )
        raise problem("spec.strategy", text, "Choose mirrored or multi-worker.", "strategy")

    def keep(self, samples: Any) -> Any:
        """Give every worker the training samples, once; ``here`` finds them there."""
        x, y = tf.constant(samples.x), tf.constant(samples.y)  # tensors are sent; arrays would be copied into the graph

        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # it would write a module into /tmp
        def whole() -> tf.data.Dataset:
            return tf.data.Dataset.from_tensors((x, y)).repeat()

        there = self._coordinator.create_per_worker_dataset(whole)
        self._sent = tf.data.IteratorSpec(there.element_spec)
        return iter(there)

    def here(self, data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the samples, in what a worker computes."""
        x, y = next(data)
        return x, y

    def pauses(self, usual: float) -> list[float]:
        """Returns how many seconds each worker is to sleep in an update that usually takes it ``usual`` seconds."""
        return [usual * (self.slowed.get(number, 1.0) - 1) for number in range(self.workers)]

    def trace(self, function: Any, words: tf.TensorSpec) -> Any:
        """``function`` for ``schedule``, traced once: TensorFlow would look up what fits in every call."""
        return function.get_concrete_function(self._sent, words, tf.TensorSpec([], tf.int32))

    def schedule(self, function: Any, data: Any, words: tf.Tensor) -> Any:
        """Have some worker call ``function``, and another one when that is lost; ``get`` of the result waits for it."""
        return self._coordinator.schedule(function, args=(data, words, self._numbers))

    def clock(self) -> tf.Tensor:
        """Traced: the time in seconds where this is computed, which must be a server."""
        return tf.timestamp()

    def guard(self, variable: tf.Variable) -> None:
        """Have ``exclusively`` be a matter of the server that holds ``variable``."""
        with tf.device(variable.device):
            self._section = tf.CriticalSection(shared_name="update")

    def exclusively(self, work: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Traced: have the guarding server do ``work`` for one worker at a time."""
        return self._section.execute(work)


@dataclass(frozen=True)
class _Promise:
    """The future result of a thread, asked for as TensorFlow's coordinator has it."""

    future: Future[Any]

    def get(self) -> Any:
        """Wait for it."""
        return self.future.result()


class WorkerThreads(ServerCluster):
    """Workers that are threads of this process: they change the same variables, at the same time if it happens."""

    remote = False

    def __init__(self, settings: ParameterServerSettings) -> None:
        self.mode, self.staleness, self.late = settings.mode, settings.staleness, settings.late
        self.updates_per_call = settings.updates_per_call
        self.replicas = self.workers = settings.workers
        self.slowed = {}
        self._look = lambda: None
        self._own = threading.local()
        numbers = itertools.count()
        self._pool = ThreadPoolExecutor(self.workers, initializer=lambda: setattr(self._own, "number", next(numbers)))

    def close(self) -> None:
        """Does nothing."""

    def scope(self) -> AbstractContextManager[object]:
        """Changes nothing: variables are made in this process."""
        return nullcontext()

    def keep(self, samples: Any) -> Any:
        """Keeps the samples in this process, where they are already."""
        self._samples = tf.constant(samples.x), tf.constant(samples.y)
        return None

    def here(self, data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the samples."""
        return self._samples

    def trace(self, function: Any, words: tf.TensorSpec) -> Any:
        """Returns ``function`` as it is, for ``schedule``."""
        return function

    def schedule(self, function: Any, data: Any, words: tf.Tensor) -> Any:
        """Have the next free thread call ``function``."""
        return _Promise(self._pool.submit(lambda: function(None, words, tf.constant(self._own.number))))

    def beside(self, variable: tf.Variable) -> AbstractContextManager[object]:
        """Changes nothing: all variables are in this process."""
        return nullcontext()

    def clock(self) -> tf.Tensor:
        """Traced: the time in seconds. TensorFlow's own operation is refused where all is to be deterministic."""
        now: tf.Tensor = tf.ensure_shape(tf.numpy_function(time.time, [], tf.float64), [])
        return now

    def guard(self, variable: tf.Variable) -> None:
        """Does nothing: no variable is guarded."""

    def exclusively(self, work: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Does ``work``, but not exclusively: that is what this mode is about."""
        return work()


def serve(cluster: Mapping[str, Sequence[str]], job: str, number: int) -> object:
    """Be one of the processes that a coordinator uses, as long as the returned object lives."""
    spec = tf.train.ClusterSpec({name: list(addresses) for name, addresses in cluster.items()})
    return tf.distribute.Server(spec, job_name=job, task_index=number)


def apply_on_server(rule: Any, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
    """Does one update by a Keras optimizer where the variables are.

    Keras' own ``apply`` has all replicas of a strategy meet first, which workers that are apart never do; these are its
    other lines.
    """
    pairs = [
        (gradient, variable) for gradient, variable in zip(gradients, variables, strict=True) if gradient is not None
    ]
    rate = rule._get_current_learning_rate()
    if rule.weight_decay:
        for _, variable in pairs:
            decay = tf.cast(rate, variable.dtype) * tf.cast(rule.weight_decay, variable.dtype)
            variable.assign_sub(variable.read_value() * decay, read_value=False)
    for gradient, variable in pairs:
        with tf.device(variable.device):
            rule.update_step(gradient, variable, tf.cast(rate, variable.dtype))
    rule.iterations.value.assign_add(1, read_value=False)


def after(work: Callable[[], None]) -> AbstractContextManager[object]:
    """Traced: do ``work``, and what is in the context only when all of it is done."""
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    work()
    done: AbstractContextManager[object] = tf.control_dependencies(graph.get_operations()[before:])
    return done


def pause(seconds: tf.Tensor) -> tf.Tensor:
    """Traced: sleep where this is computed; returns 0. TensorFlow's only operation that sleeps is one for its tests."""

    def sleep() -> tf.Tensor:
        one = tf.data.Dataset.range(1).apply(testing.sleep(tf.cast(seconds * 1e6, tf.int64)))
        return one.reduce(tf.constant(0, tf.int64), lambda _, value: value)

    return tf.cond(seconds > 0.0, sleep, lambda: tf.constant(0, tf.int64))
