"""The settings of parameter servers, and what follows from them. Their processes are started before TensorFlow is
imported, so these know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from clew_shared.base.problem import Problem
from clew_shared.params import Choice, Condition, Knob, Params, build
from clew_shared.spec import RunSpec

ASYNC, SYNC, BOUNDED, LOCK_FREE = "async", "sync", "bounded", "lock-free"
WAIT, DROP = "wait", "drop"
MOST_WORKERS = 64
"""The coordinator has a thread for each of them."""
WORKER, SERVER = "worker", "ps"
"""The roles of processes, as TensorFlow calls them."""
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
            "How many updates by other workers may come between reading the weights and the update.",
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
        int, Knob("Workers", "Processes, or threads, that compute gradients.", group=_GROUP, ge=1, le=MOST_WORKERS)
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
    updates_per_call: Annotated[
        int,
        Knob(
            "Updates per call",
            "Updates that a worker makes, each with weights that it has just read, before it asks for more work.",
            group=_GROUP,
            ge=1,
            le=100,
            shown_when=Condition("mode", (ASYNC, BOUNDED, LOCK_FREE)),
        ),
    ] = 1


class Role(NamedTuple):
    """What another process of a run is, and which of its kind."""

    name: str
    number: int


def roles(spec: RunSpec) -> list[Role]:
    """Returns what the other processes of a run are, in the order in which they take the nodes; threads need none."""
    settings = build(ParameterServerSettings, spec.options)
    if settings.mode == LOCK_FREE:
        return []
    counts = {WORKER: settings.workers, SERVER: settings.servers}
    return [Role(role, number) for role, count in counts.items() for number in range(count)]


def check(spec: RunSpec) -> Iterator[Problem]:
    """Says what is wrong with how the workers of ``spec`` keep together."""
    mode = spec.options.get("mode", ASYNC)
    if mode == LOCK_FREE and spec.nodes > 1:
        text = f"Lock-free threads are on one node, not on {spec.nodes}."
        yield Problem("spec.nodes", text, "Take 1 node, or another mode.", "nodes")
