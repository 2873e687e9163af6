"""A parameter-server cluster of this computer: ``servers_worker.py MODE ROUNDS UPDATES`` prints rates as JSON.

With ``serve CLUSTER JOB NUMBER`` it is one of the processes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from clew_agent.strategies.cluster_settings import ParameterServerSettings
from clew_agent.strategies.parameter_server import ServerCluster, serve
from clew_agent.training.runtime import configure
from clew_agent.training.servers import ServerEngine
from clew_shared.params import build
from tests.bench.clew_style import find_exercise
from tests.bench.work import bench_data

WORKERS, STALENESS, RATE, BATCH, LOCAL_STEPS = 2, 2, 0.1, 100, 8
SETTINGS = {
    "async": ParameterServerSettings(mode="async"),
    "sync": ParameterServerSettings(mode="sync"),
    "wait": ParameterServerSettings(mode="bounded", staleness=STALENESS),
    "drop": ParameterServerSettings(mode="bounded", staleness=STALENESS, late="drop"),
    "calls": ParameterServerSettings(mode="async", updates_per_call=8),
    "local": ParameterServerSettings(mode="async", local_steps=LOCAL_STEPS),
}


def addresses() -> dict[str, list[str]]:
    """Free ports of this computer for all processes."""
    sockets = [socket.socket() for _ in range(WORKERS + 2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return {"chief": found[:1], "ps": found[1:2], "worker": found[2:]}


def start(cluster: dict[str, list[str]]) -> list[subprocess.Popen[str]]:
    """The server and the workers, when they are up."""
    places = [("ps", 0), *(("worker", number) for number in range(WORKERS))]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.servers_worker", "serve", json.dumps(cluster), job, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for job, number in places
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    return processes


def clew_round(cluster: ServerCluster, updates: int) -> Callable[[], tuple[float, np.ndarray[Any, Any]]]:
    """A function that makes so many updates; returns updates per second and each one's staleness."""
    exercise = find_exercise("softmax")
    endless = 10**6
    settings = build(exercise.Settings, {"steps": endless, "evaluate_every": endless, "learning_rate": RATE})
    engine = ServerEngine(exercise, settings, 1, bench_data(), strategy=cluster)
    engine.compile()

    def run() -> tuple[float, np.ndarray[Any, Any]]:
        staleness, begin, until = [], time.perf_counter(), engine.step + updates
        while engine.step < until:
            block = engine.run_block(until)
            if block.updates is not None:
                staleness.append(block.updates.staleness)
        return updates / (time.perf_counter() - begin), np.concatenate(staleness)

    return run


class Bare:
    """The same work by TensorFlow's own means, on the same coordinator."""

    def __init__(self, cluster: ServerCluster, mode: str, updates: int) -> None:
        data = bench_data()
        x, y = tf.constant(data.train.x), tf.constant(data.train.y)
        self._mode, self._updates, self._size = mode, updates, len(x)
        self._rows = BATCH // WORKERS if mode == "sync" else BATCH
        self._coordinator = cluster._coordinator
        whole = self._coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensors((x, y)).repeat())
        self._samples = iter(whole)
        with cluster.scope():
            self._W, self._b = tf.Variable(tf.zeros([x.shape[1], 10])), tf.Variable(tf.zeros([10]))
            self._version = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._slots = [self._slot(cluster) for _ in range(WORKERS)]
        with tf.device(self._W.device):
            self._section = tf.CriticalSection(shared_name="bare")
        functions = {"sync": self._share, "drop": self._unless_late, "local": self._locally}
        traced = functions.get(mode, self._at_once)
        self._function, self._together = tf.function(traced), tf.function(self._apply_shares)

    def run(self) -> float:
        """Do the updates; returns how many per second."""
        begin = time.perf_counter()
        {"sync": self._in_step, "wait": self._one_after_another}.get(self._mode, self._freely)()
        return self._updates / (time.perf_counter() - begin)

    def _slot(self, cluster: ServerCluster) -> list[tf.Variable]:
        found = []
        for variable in (self._W, self._b):
            with cluster.scope(), cluster.beside(variable):
                found.append(tf.Variable(tf.zeros(variable.shape), trainable=False))
        return found

    # What a worker does; traced.

    def _gradients(self, iterator: Any, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        seen, weights, offset = self._weights()
        images, labels = next(iterator)
        loss, found = self._loss(images, labels, number, weights, offset)
        return seen, loss, found

    def _weights(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        seen = self._version.read_value()
        with tf.control_dependencies([seen]):
            return seen, self._W.read_value(), self._b.read_value()

    def _loss(
        self, images: tf.Tensor, labels: tf.Tensor, number: tf.Tensor, weights: tf.Tensor, offset: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        index = (number * self._rows + tf.range(self._rows)) % self._size
        with tf.GradientTape() as tape:
            tape.watch([weights, offset])
            logits = tf.matmul(tf.gather(images, index), weights) + offset
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(labels, index), logits)
            loss = tf.reduce_mean(each)
        return loss, tape.gradient(loss, [weights, offset])

    def _locally(self, iterator: Any, number: tf.Tensor) -> tf.Tensor:
        images, labels = next(iterator)
        seen, weights, offset = self._weights()
        begun, losses = (weights, offset), []
        for step in range(LOCAL_STEPS):
            loss, found = self._loss(images, labels, number * LOCAL_STEPS + step, weights, offset)
            weights, offset = weights - RATE * found[0], offset - RATE * found[1]
            losses.append(loss)
        moved = [(begun[0] - weights) / RATE, (begun[1] - offset) / RATE]
        return tf.stack([tf.add_n(losses) / LOCAL_STEPS, tf.cast(self._apply(moved, seen), tf.float32), 1.0])

    def _apply(self, found: list[tf.Tensor], seen: tf.Tensor) -> tf.Tensor:
        done = [self._W.assign_sub(RATE * found[0]), self._b.assign_sub(RATE * found[1])]
        with tf.control_dependencies(done):
            return tf.identity(self._version.assign_add(1, read_value=True)) - 1 - seen

    def _at_once(self, iterator: Any, number: tf.Tensor) -> tf.Tensor:
        seen, loss, found = self._gradients(iterator, number)
        return tf.stack([loss, tf.cast(self._apply(found, seen), tf.float32), 1.0])

    def _unless_late(self, iterator: Any, number: tf.Tensor) -> tf.Tensor:
        seen, loss, found = self._gradients(iterator, number)

        def update() -> tf.Tensor:
            others = self._version.read_value() - seen
            done = tf.cond(others <= STALENESS, lambda: self._apply(found, seen), lambda: others)
            return tf.stack([loss, tf.cast(done, tf.float32), tf.cast(others <= STALENESS, tf.float32)])

        return self._section.execute(update)

    def _share(self, iterator: Any, number: tf.Tensor) -> tf.Tensor:
        _, loss, found = self._gradients(iterator, number)

        def put(place: int) -> Callable[[], tf.Tensor]:
            def write() -> tf.Tensor:
                done = [slot.assign(one) for slot, one in zip(self._slots[place], found, strict=True)]
                with tf.control_dependencies(done):
                    return tf.constant(0)

            return write

        with tf.control_dependencies([tf.switch_case(number % WORKERS, [put(place) for place in range(WORKERS)])]):
            return tf.identity(loss)

    def _apply_shares(self) -> None:
        for variable, *slots in zip((self._W, self._b), *self._slots, strict=True):
            with tf.device(variable.device):
                variable.assign_sub(RATE * tf.add_n(slots) / WORKERS)

    # What the coordinator does.

    def _asked(self, number: int) -> Any:
        return self._coordinator.schedule(self._function, args=(self._samples, tf.constant(number)))

    def _freely(self) -> None:
        found = [self._asked(number) for number in range(self._updates)]
        self._coordinator.join()
        self._coordinator.fetch(found)

    def _one_after_another(self) -> None:
        waiting: deque[Any] = deque()
        for number in range(self._updates):
            while len(waiting) > STALENESS:
                waiting.popleft().get()
            waiting.append(self._asked(number))
        self._coordinator.join()

    def _in_step(self) -> None:
        for step in range(self._updates):
            for place in range(WORKERS):
                self._asked(step * WORKERS + place)
            self._coordinator.join()
            self._together()


def main() -> None:
    """Measure, or be one of the processes."""
    if sys.argv[1] == "serve":
        server = serve(json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
        print("up", flush=True)
        sys.stdin.read()
        del server
        return
    mode, rounds, updates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    there = addresses()
    processes = start(there)
    try:
        configure()
        cluster = ServerCluster(there, SETTINGS[mode])
        ours, bare = clew_round(cluster, updates), Bare(cluster, mode, updates).run
        ours()
        bare()
        found = [(ours(), bare()) for _ in range(rounds)]
        staleness = np.concatenate([one for (_, one), _ in found])
        print(
            json.dumps(
                {
                    "ours": [rate for (rate, _), _ in found],
                    "bare": [rate for _, rate in found],
                    "staleness": {"mean": float(staleness.mean()), "max": int(staleness.max())},
                }
            ),
            flush=True,
        )
    finally:
        for process in processes:
            process.kill()
        os._exit(0 if sys.exc_info()[0] is None else 1)


if __name__ == "__main__":
    main()
