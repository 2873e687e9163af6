"""The engine for parameter servers: a step is an update that the servers applied."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.engine.base import StepParts
from clew_agent.engine.blocks import BlockSizer, TrainedBlock
from clew_agent.strategies.parameter_server import ServerCluster
from clew_agent.training import state
from clew_agent.training.assembly import BuiltModel, RunPlan
from clew_agent.training.exercise import Exercise
from clew_agent.training.servers.updates import Servers, TornError
from clew_shared.base.problem import problem
from clew_shared.journal.events import Event
from clew_shared.params import Params

BLOCK_S = 0.5
"""Seconds that a block lasts. At its end workers wait for the last one, and the variables are copied."""


class Clusters(Protocol):
    """Gives the engine another cluster when it needs one."""

    def renew(self, error: BaseException) -> ServerCluster:
        """Returns, after an error, the cluster that takes the place of the lost one. Raises the error again when
        nothing was lost."""

    def larger(self) -> ServerCluster | None:
        """Returns a cluster with more workers, None while there is none; asked before each block."""


class ServerEngine:
    """The engine (``engine.base.TrainingEngine``) of a run of ``exercise`` on the workers of ``cluster``.

    At the end of a block nothing is under way, and the coordinator keeps a copy of all variables: when a server is lost
    the block is done again on the cluster that ``clusters`` gives, and no step is lost or done twice.
    """

    def __init__(
        self,
        exercise: Exercise[Any],
        settings: Params,
        seed: int,
        data: DataSet | None = None,
        *,
        cluster: ServerCluster,
        clusters: Clusters,
        precision: str = "float32",
    ) -> None:
        self._recipe = RunPlan(exercise, settings, seed, data, precision)
        self._clusters = clusters
        self._made, self._servers = self._assemble(cluster)
        self.course = self._recipe.course(self._made)
        self.parts = StepParts()
        self._sizer = BlockSizer(self.course.steps, BLOCK_S)
        self._pictures = self._recipe.pictures(self._made, self.course)
        self._safe = dict[str, npt.NDArray[Any]]()

    def _assemble(self, cluster: ServerCluster) -> tuple[BuiltModel, Servers]:
        made = self._recipe.assemble(cluster)
        if len(made.model.parts) != 1 or made.model.parts[0].repeats != 1 or made.model.state:
            text = "Parameter servers train models of one part without moving averages, not this one."
            raise problem("spec.strategy", text, "Choose mirrored or multi-worker.", "strategy")
        return made, Servers(made.step, cluster)

    @property
    def replicas(self) -> int:
        """Returns how many workers there are."""
        return self._servers.cluster.replicas

    @property
    def logical_devices(self) -> bool:
        """Returns False: workers are processes or threads, not devices."""
        return False

    @property
    def reduced_bytes(self) -> int:
        """Returns 0: each update says what it moved."""
        return self._servers.cluster.reduced_bytes

    def compile(self) -> float:
        """Trace the step on every worker, and undo what it did."""
        start = time.perf_counter()
        self._servers.check(self._made.state)
        self._begin_with(self._made.variables)
        return time.perf_counter() - start

    def measure_parts(self) -> None:
        """Does nothing: a worker's step has no parts that all do together."""

    def compile_evaluation(self) -> float:
        """Trace and compile what ``evaluate`` does; returns the seconds it took."""
        return self._made.compile_evaluation()

    def compile_pictures(self) -> float:
        """Trace and compile the run's pictures; returns the seconds it took, 0 when there are none."""
        return self._pictures.compile()

    def run_block(self, until: int | None = None) -> TrainedBlock:
        """Has the workers do the next updates, which end at the latest where something is due, or at ``until``."""
        cluster = self._clusters.larger()
        if cluster is not None:
            try:
                self._go_on_with(cluster)
            except Exception as error:  # noqa: BLE001  # as in a block
                self._renew(error)
        first, room = self.course.step, self.course.room(until, self._pictures.places())
        while True:
            count = max(1, min(self._sizer.next(room), room))
            start = time.perf_counter()
            try:
                rows, updates = self._servers.run(first, count, self.course.live_values)
                self._safe = self._made.variables
                break
            except TornError:
                self._go_on_with(self._servers.cluster)
            except Exception as error:  # noqa: BLE001  # what it is when a server is lost differs; others come again
                self._renew(error)
        seconds = time.perf_counter() - start
        self._sizer.record(count, seconds)
        return self.course.trained(rows, seconds, updates)

    def evaluate(self) -> dict[str, float]:
        """Measure the held-out samples."""
        while True:
            try:
                values = self._made.evaluate()
                break
            except tf.errors.OpError as error:
                self._renew(error)
        self.course.evaluated(values)
        return values

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        """The pictures that are due now."""
        while True:
            try:
                return iter(tuple(self._pictures.take(last=last)))
            except tf.errors.OpError as error:
                self._renew(error)

    def save(self, folder: Path) -> None:
        """Write everything that the run needs to go on into ``folder``; the coordinator writes it, not the servers."""
        state.save(state.as_variables(self._safe | self.course.saved()), folder)

    def restore(self, folder: Path) -> None:
        """Go on from what ``save`` wrote, also under another strategy."""
        here, progress = state.as_variables(self._safe), state.as_variables(self.course.progress())
        state.restore(here | progress, folder)
        self._safe = state.as_arrays(here)
        self._fill(self._safe)
        self.course.go_on_from(state.as_arrays(progress))

    # Another cluster.

    def _renew(self, error: BaseException) -> None:
        found: BaseException | None = error
        while found is not None:
            cluster, found = self._clusters.renew(found), None
            try:
                self._go_on_with(cluster)
            except Exception as again:  # noqa: BLE001  # another server may be lost meanwhile; else it comes again
                found = again

    def _go_on_with(self, cluster: ServerCluster) -> None:
        """Go on with another cluster, from where it is."""
        self._servers.close()
        keras.backend.clear_session()  # Keras counts the layers of a process, and names them by that
        self._made, self._servers = self._assemble(cluster)
        self.compile_evaluation()
        self._pictures.replace(self._made.model.pictures)
        self._begin_with(self._safe)

    def _begin_with(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Have every worker trace the step; afterwards all variables have these ``values``."""
        self._servers.warm_up(self.course.live_values)
        self._safe = dict(values)
        self._fill(values)

    def _fill(self, values: Mapping[str, npt.NDArray[Any]]) -> None:
        for name, variable in self._made.state.items():
            variable.assign(values[name])
