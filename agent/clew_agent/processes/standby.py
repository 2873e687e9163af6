"""A standby: a guard and its trainer that were begun before anybody asked for their run, and wait for one.

The guard is a copy of the nursery like any other and computes nothing. Its trainer, a copy of the guard, has done
beforehand what every run does alike (``clew_agent.training.runtime``): TensorFlow's threads run, its compiler is set
up, the pages that a copy writes to are its own. A run for which that would make a difference to what it computes with
gets a trainer as if there were none. Both end when the nursery does.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_agent.catalogue.lookup import quick_card
from clew_agent.node.devices import GIVEN
from clew_agent.processes.nursery_messages import (
    OWN_ENVIRONMENT,
    Ready,
    Started,
    StartGuard,
    StartRefused,
    receive_reply,
    receive_start,
    send,
)
from clew_agent.trainer import compile_cache
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import read_spec

UNUSED = 0
"""Exit code of a standby that no run was given to."""
LATE = frozenset({GIVEN, *OWN_ENVIRONMENT})
"""The variables that no library reads after its import: a run's own value of these comes as late in every copy of the
nursery, and in a standby process."""
_ANSWER_S = 5.0
"""Seconds after which a trainer that was ready and has not taken its run counts as hanging."""
_PREPARE_MS = 60_000
"""Milliseconds after which a trainer that has not become ready counts as hanging as well."""


_SPARE_CORES = 4


def has_spare_cores() -> bool:
    """Whether an import, which keeps one core busy for some seconds, may go on beside a run."""
    return operating_system.usable_cores() >= _SPARE_CORES


class StandbyTrainer:
    """The nursery's end of a standby trainer, from its ``fork`` to its run: ``take`` gives it one, once it is ready."""

    def __init__(self, guard: operating_system.Forked, channel: socket.socket) -> None:
        self.guard = guard
        self._channel = channel
        self._ready = False

    def is_ready(self) -> bool:
        """Whether its trainer has said by now that it has done all that can be done beforehand."""
        if not self._ready:
            with suppress(OSError, msgspec.DecodeError):
                self._channel.setblocking(False)
                self._ready = isinstance(receive_reply(self._channel), Ready)
        return self._ready

    def take(self, request: StartGuard) -> bool:
        """Gives the standby the run of ``request``; False when it cannot have it, and someone else must."""
        if not self.is_ready() or not suits(request) or self.guard.poll() is not None:
            return False
        try:
            send(self._channel, request)
        except OSError:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close this end. A standby without a run ends with that."""
        self._channel.close()


def suits(request: StartGuard, environment: Mapping[str, str] = os.environ, late: Collection[str] = LATE) -> bool:
    """Whether the run's environment is the one that a standby has: all but the variables that are ``late`` enough."""
    return all(environment.get(name) == value for name, value in request.environment.items() if name not in late)


def fits(request: StartGuard, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the run is one of Clew's own that train on one device: only of these it is known that nothing has to be
    said to TensorFlow before its first operation. Anybody's own exercise may want to. ``environment`` is the
    standby's."""
    try:
        spec = read_spec(RunFolder(Path(request.folder)).spec_of(request.attempt))
    except ProblemError:
        return False
    card = quick_card(spec.exercise, request.exercises_folder())
    alone = spec.devices == 1 and spec.nodes == 1 and spec.strategy == "single" and spec.precision == "float32"
    return card is not None and card.kind == "training" and alone and compile_cache.has_room(find_places(), environment)


class StandbyClient:
    """The guard's end of its trainer that waits."""

    def __init__(self, trainer: operating_system.Forked, channel: socket.socket) -> None:
        self._trainer = trainer
        self._channel = channel

    def take(self, request: StartGuard) -> operating_system.Forked | None:
        """The trainer, which has begun the run; None when it does not fit and has gone."""
        self._channel.settimeout(_ANSWER_S)
        with suppress(OSError):
            send(self._channel, request)
        taken = self._has_taken()
        if not taken:
            _end(self._trainer)
            taken = self._has_taken()  # in the last moment: its journal is sealed like any other's
        self._channel.close()
        return self._trainer if taken else None

    def _has_taken(self) -> bool:
        with suppress(OSError, msgspec.DecodeError):
            return isinstance(receive_reply(self._channel), Started)
        return False


def wait_as_guard(
    nursery: socket.socket, prepare: Callable[[], None], rest: Callable[[], None], train: Callable[[StartGuard], int]
) -> tuple[StartGuard, StandbyClient] | None:
    """Begin a trainer, which does ``prepare``, then ``rest``, and waits; returns the run to watch over. None when none
    comes any more, or when the trainer did not come so far; it has ended then.

    ``nursery`` is the channel on which it comes, and on which the trainer says that it is ready.
    """
    ours, theirs = operating_system.packet_pair()

    def work() -> int:
        ours.close()
        return _wait_as_trainer(nursery, theirs, prepare, rest, train)

    trainer = operating_system.fork(work)
    theirs.close()
    request = None
    with suppress(OSError):  # the nursery died with something unread
        request = receive_start(nursery) if gets_ready(ours, nursery) else None
    nursery.close()
    if request is None:
        ours.close()
        _end(trainer)
        return None
    return request, StandbyClient(trainer, ours)


def gets_ready(trainer: socket.socket, nursery: socket.socket) -> bool:
    """Wait until the trainer says so; False when it dies before, hangs, or the nursery has gone."""
    poll = select.poll()
    poll.register(trainer, select.POLLIN)
    poll.register(nursery, select.POLLIN)
    if trainer.fileno() not in [handle for handle, _ in poll.poll(_PREPARE_MS)]:  # a run may have come at once as well
        return False
    with suppress(OSError, msgspec.DecodeError):
        return isinstance(receive_reply(trainer), Ready)
    return False


def _end(trainer: operating_system.Forked) -> None:
    trainer.kill()
    with suppress(subprocess.TimeoutExpired):  # one that waits for a dead disk does not even die
        trainer.wait(_ANSWER_S)


def _wait_as_trainer(
    nursery: socket.socket,
    guard: socket.socket,
    prepare: Callable[[], None],
    rest: Callable[[], None],
    train: Callable[[StartGuard], int],
) -> int:
    operating_system.end_before_others()  # when memory runs out, what nobody uses goes first
    start = time.perf_counter()
    prepare()
    ready = Ready(seconds=time.perf_counter() - start, settled=True)
    send(guard, ready)  # first: anyone who is given a run by the nursery must know
    send(nursery, ready)
    nursery.close()  # the guard alone holds it now: the nursery notices when it has gone
    rest()
    request = receive_start(guard)
    if request is None:
        return UNUSED
    if not fits(request):
        send(guard, StartRefused(folder=request.folder, reason="It must be the first to compute in its process."))
        return UNUSED
    send(guard, Started(folder=request.folder, pid=os.getpid()))
    guard.close()
    return train(request)
