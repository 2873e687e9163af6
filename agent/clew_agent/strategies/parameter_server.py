"""Parameter servers hold the variables; workers read them, compute gradients and send those back.

The coordinator, which is the trainer, hands out batches (``tf.distribute.ParameterServerStrategy`` and its
``ClusterCoordinator``; Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014). The
mode says how workers keep together: not at all (async), in step (sync), or at most so many updates apart (bounded; Ho
et al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013). lock-free needs
no server: threads of one process change the same memory (Niu et al., "Hogwild!", NIPS 2011).
"""

from __future__ import annotations

from typing import Annotated

from clew_shared.cards import StrategyCard
from clew_shared.params import Choice, Condition, Knob, Params, describe

ASYNC, SYNC, BOUNDED, LOCK_FREE = "async", "sync", "bounded", "lock-free"
WAIT, DROP = "wait", "drop"
_GROUP = "Cluster"


class ParameterServerSettings(Params, frozen=True, kw_only=True):
    """How many processes, and how they keep together."""

    mode: Annotated[
        str,
        Knob(
            "Mode",
            "asynchronous: a gradient is applied whenever it comes; synchronous: each worker computes a part of every"
            " batch, and all parts make one update; bounded: no gradient may be too old; lock-free: threads of one"
            " process change the same memory, unprotected.",
            group=_GROUP,
            choices=(
                Choice(ASYNC, "Asynchronous"),
                Choice(SYNC, "Synchronous"),
                Choice(BOUNDED, "Bounded staleness"),
                Choice(LOCK_FREE, "Lock-free threads"),
            ),
        ),
    ] = ASYNC
    staleness: Annotated[
        int,
        Knob(
            "Staleness bound",
            "So many updates of others may come between the reading of the weights and the update.",
            group=_GROUP,
            unit="updates",
            ge=0,
            le=1000,
            shown_when=Condition("mode", (BOUNDED,)),
        ),
    ] = 2
    late: Annotated[
        str,
        Knob(
            "Too late",
            "wait: a batch is handed out only when no gradient can become too old by it; drop: the server drops a"
            " gradient that is too old.",
            group=_GROUP,
            choices=(
                Choice(WAIT, "Wait"),
                Choice(DROP, "Drop"),
            ),
            shown_when=Condition("mode", (BOUNDED,)),
        ),
    ] = WAIT
    workers: Annotated[
        int, Knob("Workers", "Processes, or threads, that compute gradients.", group=_GROUP, ge=1, le=64)
    ] = 2
    servers: Annotated[
        int,
        Knob(
            "Servers",
            "Processes that hold the variables, which are shared out among them.",
            group=_GROUP,
            ge=1,
            le=16,
            shown_when=Condition("mode", (ASYNC, SYNC, BOUNDED)),
        ),
    ] = 1
    local_steps: Annotated[
        int,
        Knob(
            "Local steps",
            "Steps of plain gradient descent that a worker does by itself before it sends the sum of its gradients.",
            group=_GROUP,
            unit="steps",
            ge=1,
            le=100,
        ),
    ] = 1


CARD = StrategyCard(
    id="parameter-server",
    title="Parameter servers",
    params=describe(ParameterServerSettings),
    nodes=True,
    help="Servers hold the weights. Workers read them, compute gradients of their own batches and send them back.",
)
