"""Several processes, usually one on each node, in step: each computes its rows of every batch, all apply the mean.

TensorFlow distributes (``tf.distribute.MultiWorkerMirroredStrategy``): every process holds all variables and runs the
same program, and gradients go round the processes in a ring, over NCCL where there are GPUs. Which processes there are
is in ``TF_CONFIG``, which the trainer makes from what its peers report (``clew_agent.peers``).
"""

from __future__ import annotations

import json
import os

import tensorflow as tf

from clew_agent.strategies import mirrored
from clew_agent.strategies.base import Spread
from clew_agent.strategies.mirrored import DEVICES, ReduceSettings, Replicated, halved
from clew_shared.base.problem import problem
from clew_shared.cards import StrategyCard
from clew_shared.params import describe

_REGISTER_S, _HEARTBEAT_S = 20, 30
"""Time limits in seconds. Without the first TensorFlow waits an hour until all have come, and this process can do
nothing else meanwhile: its wait holds the interpreter. The second is TensorFlow's own watch over a step."""

CARD = StrategyCard(
    id="multi-worker",
    title="Several nodes, in step",
    devices=DEVICES,
    params=describe(ReduceSettings),
    nodes=True,
    help="Each node computes its share of every batch; all of them apply the mean of their gradients.",
)


def make(spread: Spread) -> Replicated:
    """The strategy for a run with these options; on one node its devices are mirrored."""
    return MultiWorker(spread.devices, half=halved(spread.options)) if spread.nodes > 1 else mirrored.make(spread)


class MultiWorker(Replicated):
    """Spreads a step over all processes that ``TF_CONFIG`` names, each with its GPUs or its processor; made before any
    other operation.

    Waits until all the others make theirs. ``devices`` is what each of them is to use; raises ``ProblemError`` where
    there are not so many GPUs, because TensorFlow has one replica on each processor.
    """

    def __init__(self, devices: int, *, half: bool = False) -> None:
        gpus = len(tf.config.list_physical_devices("GPU"))
        if devices > max(1, gpus):
            text = f"Without so many GPUs a node takes part with one device, not with {devices}."
            raise problem("spec.devices", text, "Choose 1 device, or the strategy mirrored on one node.", "devices")
        workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
        _bound_the_wait(len(workers))
        communication = tf.distribute.experimental.CommunicationImplementation
        options = tf.distribute.experimental.CommunicationOptions(
            implementation=communication.AUTO if gpus else communication.RING
        )
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        except tf.errors.OpError as error:
            reason = str(error).splitlines()[0][:200]
            text = f"TensorFlow's processes did not find each other within {_REGISTER_S} s: {reason}"
            hint = "Check that the nodes reach each other's ports, and continue or start the run again."
            raise problem("peers.meet", text, hint, ", ".join(workers[:8])) from None
        super().__init__(strategy, half=half)
        self.processes = len(workers)


def _bound_the_wait(workers: int) -> None:
    """Configure what the strategy would configure, with limits; it has no public name for them."""
    from tensorflow.python.distribute import collective_all_reduce_strategy
    from tensorflow.python.eager import context

    job = collective_all_reduce_strategy.coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=workers)
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        cluster_register_timeout_in_ms=1000 * _REGISTER_S,
        heartbeat_timeout_in_ms=1000 * _HEARTBEAT_S,
        coordinated_jobs=[job],
    )
