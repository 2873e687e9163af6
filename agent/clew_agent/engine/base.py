"""What the training loop and the trainer ask of an engine. No TensorFlow: an engine may compute with anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from clew_agent.engine.blocks import TrainedBlock
from clew_agent.engine.course import Course
from clew_shared.journal.events import Event


class StepParts(NamedTuple):
    """Seconds of one step that pass with picking its batch, and with one all-reduce of what it sends. 0: not
    measured."""

    input_seconds: float = 0.0
    reduce_seconds: float = 0.0


class TrainingEngine(Protocol):
    """Computes the steps of one run: ``compile``, then ``run_block`` until its ``course`` is done; the loop evaluates,
    takes pictures and saves in between, when the course says that this is due.

    Same exercise, settings, seed and data give the same values, whatever the sizes of the blocks and however often the
    run was saved and restored. Methods raise ``ProblemError`` for what a person can put right.
    """

    @property
    def course(self) -> Course:
        """Where the run is and what is due. The engine counts each block and each evaluation there."""

    @property
    def replicas(self) -> int:
        """Returns how many replicas compute each step together."""

    @property
    def logical_devices(self) -> bool:
        """Whether the replicas are parts of one processor."""

    @property
    def reduced_bytes(self) -> int:
        """Bytes of gradients that each replica gives away in one step; known after ``compile``."""

    @property
    def parts(self) -> StepParts:
        """The times of a step's parts, once ``measure_parts`` was called."""

    def compile(self) -> float:
        """Makes the steps ready; returns the seconds it took. No step has been done afterwards."""

    def measure_parts(self) -> None:
        """Measures the times that ``parts`` holds; after ``compile``, in all processes of the run."""

    def compile_evaluation(self) -> float:
        """Makes ``evaluate`` ready; returns the seconds it took, 0 when there is nothing to evaluate."""

    def compile_pictures(self) -> float:
        """Makes the pictures ready; returns the seconds it took, 0 when there are none."""

    def run_block(self, until: int | None = None) -> TrainedBlock:
        """Trains the next block, which ends at the latest where something is due, or at step ``until``."""

    def evaluate(self) -> dict[str, float]:
        """Measures the held-out samples; may stop the run early."""

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        """The pictures that are due now, as events; with ``last`` all that were not taken at this step yet."""

    def save(self, folder: Path) -> None:
        """Writes everything that the run needs to go on into ``folder``, which is made."""

    def restore(self, folder: Path) -> None:
        """Goes on from what ``save`` wrote. Raises ``ProblemError`` when it does not fit this run."""
