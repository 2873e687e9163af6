"""The schedulers that a site can name."""

from __future__ import annotations

from typing import Literal

from clew_gui.schedulers.mnsubmit import MnSubmit
from clew_gui.schedulers.none import NoScheduler
from clew_gui.schedulers.pbs import Pbs
from clew_gui.schedulers.scheduler import Scheduler
from clew_gui.schedulers.slurm import Slurm

SchedulerName = Literal["slurm", "pbs", "mnsubmit", "none"]
NAMES: tuple[SchedulerName, ...] = ("slurm", "pbs", "mnsubmit", "none")


def scheduler_of(name: SchedulerName) -> Scheduler:
    """The dialect of this name."""
    known: dict[SchedulerName, Scheduler] = {
        "slurm": Slurm(),
        "pbs": Pbs(),
        "mnsubmit": MnSubmit(),
        "none": NoScheduler(),
    }
    return known[name]
