"""The schedulers that a site can name.

A new scheduler is one file beside this one with a class that implements ``Scheduler`` (scheduler.py): its script and
commands, what it reads from answers, its reasons and refusals, its directives, the doctor's questions, its preset. Here
it needs its name in ``SchedulerName`` and its object in ``SCHEDULERS``. If it gives jobs other variables for their id
and their end than Slurm and PBS do, ``clew_begin`` in keeper.sh must read them, and tests/contract/test_schedulers.py
wants its recorded answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from clew_gui.schedulers.mnsubmit import MnSubmit
from clew_gui.schedulers.none import NoScheduler
from clew_gui.schedulers.pbs import Pbs
from clew_gui.schedulers.scheduler import Scheduler
from clew_gui.schedulers.slurm import Slurm

SchedulerName = Literal["slurm", "pbs", "mnsubmit", "none"]
NAMES: tuple[SchedulerName, ...] = get_args(SchedulerName)
"""The schedulers' names, in the order in which people see them."""
NO_SCHEDULER: SchedulerName = "none"
"""The name where jobs are processes on the host itself."""
SCHEDULERS: Mapping[SchedulerName, Scheduler] = {
    "mnsubmit": MnSubmit(),
    "slurm": Slurm(),
    "pbs": Pbs(),
    "none": NoScheduler(),
}
"""The most specific one first, as they are looked for: mnsubmit is over a Slurm, and Slurm has a qsub of its own."""


def scheduler_of(name: SchedulerName) -> Scheduler:
    """The dialect of this name."""
    return SCHEDULERS[name]
