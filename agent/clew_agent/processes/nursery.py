"""The nursery: a warm process that has imported TensorFlow and computed nothing; runs begin as copies of it.

An import of TensorFlow takes seconds, a copy (``fork``) milliseconds, and the copies share its memory. A copy is safe
only of a process with one thread, and TensorFlow's first operation starts others: so nothing is ever computed here, no
exercise is imported, and with a second thread it refuses. Each run gets a guard, a copy of the nursery, and the guard
a trainer, a copy of the guard; both are in sessions of their own and outlive nursery and supervisor.
"""

from __future__ import annotations

import argparse
import gc
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from clew_agent.node.lean_import import lean_import
from clew_agent.peers.processes import spawn
from clew_agent.processes.guard import watch_request
from clew_agent.processes.nursery_messages import (
    GuardEnded,
    NurseryReply,
    Ready,
    Started,
    StartGuard,
    StartRefused,
    receive_start,
    send,
)
from clew_agent.processes.peer_nursery import start_of_peers
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.base.terminal import prepare_output
from clew_shared.data_sets import BUILT_IN, USUAL
from clew_shared.journal.run_folder import RunFolder

_REAP_MS = 200
"""Milliseconds between two looks for guards that have ended; SIGCHLD would interrupt what is being read."""
_FORKABLE_THREADS = 1


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m clew_agent.processes.nursery --channel FD``: serve the supervisor at the other end until it goes."""
    parser = argparse.ArgumentParser(prog="clew-agent nursery")
    parser.add_argument("--channel", type=int, required=True)
    parser.add_argument("--room", help="is not read: it makes room for the titles of processes")
    parser.add_argument("--bare", action="store_true", help="have no data")
    options = parser.parse_args(argv)
    prepare_output()  # what an exercise prints in a copy is none of its mistakes
    channel = socket.socket(fileno=options.channel)
    operating_system.die_with_parent()  # while it imports it does not look whether the supervisor is still there
    if _is_over(channel):  # it went before that was asked for
        return 0
    operating_system.restore_sigchld()
    operating_system.set_title("clew-agent nursery")
    start = time.perf_counter()
    warm = WarmImports()
    with suppress(OSError):  # the supervisor has gone
        send(channel, Ready(seconds=time.perf_counter() - start))
        if not options.bare:
            warm.keep_data()
        send(channel, Ready(seconds=time.perf_counter() - start, settled=True))
        Nursery(channel, warm).run()
    operating_system.flush_output()
    os._exit(0)  # children that still train are nobody's business but their guards'


def _is_over(channel: socket.socket) -> bool:
    """Whether the supervisor has gone. What it asked for last is not read."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return any(event & ~select.POLLIN for _, event in poll.poll(0))


class WarmImports:
    """What is imported and read once, before runs fork from it."""

    def __init__(self) -> None:
        # Imported here and not at the module's head, because that is the work that this process exists for.
        with lean_import():
            import numpy as np

            from clew_agent.catalogue import lookup
            from clew_agent.datasets.cache import DataCache
            from clew_agent.peers import peer
            from clew_agent.strategies import multi_worker, parameter_server  # noqa: F401  # for runs with peers
            from clew_agent.trainer import trainer
            from clew_agent.training import runtime  # noqa: F401

        self._train, self._prepare = trainer.train, trainer.prepare_process
        self._peer = peer.main
        self._reseed = np.random.seed
        self.data = DataCache()
        lookup.builtin_cards()
        gc.collect()
        gc.freeze()  # a collection in a copy would write into, and so duplicate, every page

    def keep_data(self) -> None:
        """Read the data set that nearly every exercise takes, so that runs need not."""
        from clew_agent.datasets.search import find_search

        search = find_search(find_places())
        if not self.data.keep(USUAL, search):
            self.data.keep(BUILT_IN, search)
        gc.freeze()

    def train(
        self,
        folder: RunFolder,
        attempt: int,
        exercises: Path | None,
        copies: bool = True,
        asked: Sequence[int] = (),
    ) -> int:
        """Be the trainer of an attempt; returns its exit code. ``copies``: its peers may begin as copies. ``asked`` as
        for ``trainer.train``."""
        with start_of_peers(folder, attempt, self._be_peer) if copies else nullcontext(spawn) as start_peer:
            self._prepare()
            self._reseed()  # an exercise that draws without a seed must not draw in every copy the same
            return self._train(folder, attempt, exercises, load_data=self.data.load, start_peer=start_peer, asked=asked)

    def _be_peer(self, words: Sequence[str]) -> int:
        self._reseed()
        return self._peer(words, self.data.load)


class Nursery:
    """Starts what it is asked to start and reports the result."""

    def __init__(self, channel: socket.socket, warm: WarmImports) -> None:
        self._channel = channel
        self._warm = warm
        self.guards: dict[int, tuple[str, operating_system.Forked]] = {}
        """The run's folder and the guard, by process."""

    def run(self) -> None:
        """Serves until the supervisor goes; what it asked for last and was not begun by then is left to its successor.

        Raises ``OSError`` when it goes in the middle of a word.
        """
        poll = select.poll()  # not ``select``: the channel may have any number, after a flood of strangers
        poll.register(self._channel, select.POLLIN)
        while True:
            events = poll.poll(_REAP_MS if self.guards else None)
            if any(event & ~select.POLLIN for _, event in events):
                return
            if events:
                request = receive_start(self._channel)
                if request is None:
                    return
                send(self._channel, self.start(request))
            self.reap()

    def start(self, request: StartGuard) -> NurseryReply:
        """Fork a guard for the run; returns which process it is, or why none."""
        threads = operating_system.thread_count()
        if threads != _FORKABLE_THREADS:
            return StartRefused(folder=request.folder, reason=f"The nursery has {threads} threads.", last=True)
        try:
            guard = operating_system.fork(lambda: self._guard(request))
        except OSError as error:
            return StartRefused(folder=request.folder, reason=f"The system refused a new process: {error}.")
        self.guards[guard.pid] = request.folder, guard
        return Started(folder=request.folder, pid=guard.pid)

    def _guard(self, request: StartGuard) -> int:
        """Be the guard of a run, in a copy of this process."""
        self._channel.close()
        return watch_request(request, self._fork_trainer)

    def _fork_trainer(self, folder: RunFolder, attempt: int, exercises: Path | None) -> operating_system.Forked:
        def work() -> int:
            operating_system.set_title(f"clew-agent trainer {folder.path} --attempt {attempt}")
            operating_system.print_to(folder.log)
            return self._warm.train(folder, attempt, exercises)

        return operating_system.fork(work)

    def reap(self) -> None:
        """Report each guard that has ended."""
        for pid, (folder, guard) in list(self.guards.items()):
            code = guard.poll()
            if code is not None:
                del self.guards[pid]
                send(self._channel, GuardEnded(folder=folder, pid=pid, exit_code=code))


if __name__ == "__main__":
    sys.exit(main())
