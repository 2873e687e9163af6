"""The cluster of a run on parameter servers: the trainer builds its engine on it, renews and disturbs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew_agent.peers.chief import Peers
from clew_agent.peers.messages import SILENCE_S
from clew_agent.strategies.cluster_settings import MOST_WORKERS, ParameterServerSettings
from clew_agent.trainer.attempt import Attempt, CheckedRun, workers_text
from clew_agent.trainer.control import StopAsked
from clew_agent.trainer.failures import unreachable
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.events import Event, Log, Peer
from clew_shared.params import build as build_params
from clew_shared.wire.messages import DisturbCluster

if TYPE_CHECKING:
    from clew_agent.strategies.parameter_server import ServerCluster
    from clew_agent.training.servers.engine import ServerEngine

_KNOWN_WITHIN_S = SILENCE_S + 3.0
"""Seconds within which the reason of a failed update is known: a server that is frozen is found by its silence."""
_TRIES = 3
"""Number of times that the cluster may form for one lost server. The new server listens at the old one's port, and to a
worker that has tried to connect meanwhile gRPC refuses calls there until it tries again, later after each attempt."""


def build_on_servers(attempt: Attempt, checked: CheckedRun) -> ServerEngine:
    """Builds the engine on the workers and servers, as soon as they are there. Raises ``ProblemError`` and
    ``StopAsked``."""
    from clew_agent.training.servers.engine import ServerEngine

    spec = checked.spec
    if (peers := attempt.peers) is not None:
        attempt.staged("peers", lambda: peers.gather(attempt.go_on), workers_text)
    settings = build_params(ParameterServerSettings, spec.options)
    attempt.cluster = run = ClusterRun(settings, attempt.peers, attempt.recorder.put, attempt.go_on)
    cluster = attempt.staged("cluster", run.form)
    return attempt.staged(
        "build",
        lambda: ServerEngine(
            checked.exercise,
            checked.settings,
            spec.seed,
            checked.data,
            cluster=cluster,
            clusters=run,
            precision=spec.precision,
        ),
    )


class ClusterRun:
    """The cluster of one attempt. ``peers`` is None for threads, which need no other process; ``record`` takes events.

    ``go_on`` is called while the cluster is not complete, and raises ``StopAsked`` when nobody wants to wait for it.
    """

    def __init__(
        self,
        settings: ParameterServerSettings,
        peers: Peers | None,
        record: Callable[[Event], None],
        go_on: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._peers = peers
        self._record = record
        self._go_on = go_on
        self._servers_lost = 0
        self._tries_left = 0
        self._slowed = dict[int, float]()
        self._workers = settings.workers
        self._now: ServerCluster | None = None

    def form(self) -> ServerCluster:
        """The cluster of all peers, as soon as all are there. Raises ``ProblemError`` and ``StopAsked``."""
        from clew_agent.strategies.parameter_server import ServerCluster, WorkerThreads

        if self._peers is None:
            self._now = WorkerThreads(self._settings)
            return self._now
        self._servers_lost = self._peers.members.servers_lost
        addresses = self._peers.form(self._go_on)
        if self._now is not None:
            self._slowed, before, self._now = self._now.slowed, self._now, None
            before.close()
        self._now = ServerCluster(addresses, self._settings)
        self._peers.release_port()
        self._now.slowed = self._slowed
        self._now.watch(self._look)
        self._workers = self._now.workers
        return self._now

    def renew(self, error: BaseException) -> ServerCluster:
        """Returns a new cluster after an error of TensorFlow, when that was because of a lost server."""
        while True:
            start = self._may_form_again(error)
            try:
                cluster = self.form()
            except Exception as again:  # noqa: BLE001  # TensorFlow's own; what is no loss comes again
                error = again
                continue
            seconds = time.monotonic() - start
            text = f"The cluster formed again in {seconds:.1f} s and continues where it was."
            self._record(Log(text=text, stage="renew", seconds=seconds))
            return cluster

    def _may_form_again(self, error: BaseException) -> float:
        """Waits until it is known whether the ``error`` came of a lost server; raises it if not. Returns when it was
        known."""
        if isinstance(error, StopAsked) or self._peers is None:
            raise error
        deadline = time.monotonic() + _KNOWN_WITHIN_S
        while time.monotonic() < deadline:
            self._peers.members.check()
            self._go_on()
            if self._peers.members.servers_lost != self._servers_lost:
                self._tries_left = _TRIES - 1
                return time.monotonic()
            time.sleep(0.05)
        if not unreachable(error):
            raise error
        self._record(Log(text=f"No further server is lost. {self._peers.members.states}", level="warning"))
        if not self._tries_left:
            raise error
        self._tries_left -= 1
        return time.monotonic()

    def larger(self) -> ServerCluster | None:
        """The cluster with the workers that were added, once they are there."""
        members = self._peers.members if self._peers is not None else None
        if members is None or members.roles()["worker"] == self._workers or not members.all_built:
            return None
        return self.form()

    def _look(self) -> None:
        if self._peers is not None:
            self._peers.members.check()
            if self._peers.members.servers_lost != self._servers_lost:
                raise problem("cluster.server", "A parameter server is lost.")
            if not self._peers.members.all_built:  # a block lasts until the missing worker is there
                self._go_on()

    def refuses(self, command: DisturbCluster) -> Problem | None:
        """Says why the cluster cannot be disturbed so; None when it can. May be called in any thread."""
        roles = self._peers.members.roles() if self._peers is not None else {"worker": self._workers, "ps": 0}
        if self._peers is None and command.action != "slow":
            text = "The workers of this run are threads of one process: they cannot be ended or added."
            return Problem("cluster.threads", text, "Slow one of them, or choose another mode.", "action")
        if command.action == "add":
            if roles["worker"] < MOST_WORKERS:
                return None
            return Problem("cluster.full", f"A cluster has at most {MOST_WORKERS} workers.", where="action")
        if not 0 <= command.index < roles[command.role]:
            kind = "worker" if command.role == "worker" else "server"
            text = f"There is no {kind} {command.index}: this run has {roles[command.role]}, counted from 0."
            return Problem("cluster.index", text, where="index")
        if command.action == "slow" and (command.role != "worker" or not 1 <= command.factor <= 100):
            text = "Only a worker can be slowed, by a factor from 1 to 100."
            return Problem("cluster.factor", text, where="factor")
        return None

    def disturb(self, command: DisturbCluster) -> None:
        """Do what ``refuses`` does not refuse."""
        if self._now is None:
            return
        if command.action == "slow":
            self._now.slowed[command.index] = command.factor
            if self._peers is not None:
                self._peers.slow(command.index, command.factor)
            else:
                self._record(Peer(role="worker", index=command.index, host="", status="slowed", factor=command.factor))
        elif self._peers is not None and command.action == "kill":
            self._peers.kill(command.role, command.index)
        elif self._peers is not None:
            try:
                self._peers.add()
            except (OSError, ProblemError) as error:
                self._record(Log(text=f"The worker could not be added: {error}", level="warning"))
