"""Where a run stands: what the engine must remember besides the variables, and what the settings ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from clew_shared.params import Params

_COUNTERS = ("step", "evaluated_at", "saved_at", "diverged_at", "waited")


@dataclass(frozen=True)
class Plan:
    """Length and rhythm of a run. ``batch_size`` 0: the whole set; ``evaluate_every`` None: each epoch and the end."""

    steps: int
    batch_size: int = 0
    order: str = "file"
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    patience: int = 0

    @staticmethod
    def of(settings: Params) -> Plan:
        """What ``settings`` say; fields that an exercise does not offer keep the plan's own defaults."""
        names = ("steps", "batch_size", "order", "evaluate_every", "checkpoint_every", "patience")
        return Plan(**{name: getattr(settings, name) for name in names if hasattr(settings, name)})


class Progress:
    """Counters (-1: never), the best watched value and the live values (float64, in the order of the settings)."""

    def __init__(self, live: Sequence[float]) -> None:
        self.step = 0
        self.evaluated_at = -1
        self.saved_at = -1
        self.diverged_at = -1
        self.waited = 0
        self.best = -np.inf
        self.live = np.array(live, np.float64)

    def variables(self) -> dict[str, tf.Variable]:
        """The present values as variables, to be saved or filled by ``tf.train.Checkpoint``."""
        counters = {name: tf.Variable(getattr(self, name), dtype=tf.int64) for name in _COUNTERS}
        values = {**counters, "best": tf.Variable(self.best, dtype=tf.float64), "live": tf.Variable(self.live)}
        return {f"progress/{name}": variable for name, variable in values.items()}

    def read(self, variables: Mapping[str, tf.Variable]) -> None:
        """Take over what ``variables`` hold."""
        for name in _COUNTERS:
            setattr(self, name, int(variables[f"progress/{name}"].numpy()))
        self.best = float(variables["progress/best"].numpy())
        self.live = np.array(variables["progress/live"].numpy())


@dataclass(frozen=True)
class EarlyStopping:
    """Ends a run when the evaluated metric ``watch`` has not risen for ``patience`` evaluations in a row (0: never)."""

    patience: int
    watch: str

    def note(self, values: Mapping[str, float], progress: Progress) -> None:
        """Count one evaluation."""
        if self.patience == 0 or self.watch not in values:
            return
        better = values[self.watch] > progress.best
        progress.waited = 0 if better else progress.waited + 1
        progress.best = max(progress.best, values[self.watch])

    def exhausted(self, progress: Progress) -> bool:
        """Whether it is time to stop."""
        return 0 < self.patience <= progress.waited
