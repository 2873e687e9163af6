"""Explains in words why a trainer died without a message."""

from __future__ import annotations

from typing import NamedTuple

from clew_agent.node.exit_codes import UNWRITTEN
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem

_HINTS = {
    "SIGSEGV": "A native library crashed. The last lines of log.txt show where.",
    "SIGABRT": "A native library gave up. The last lines of log.txt show why.",
    "SIGBUS": "A file that was mapped into memory changed or its disk is full.",
    "SIGILL": "This TensorFlow was built for another processor. Install the one for this machine.",
    "SIGKILL": "A person or another program killed it. Continue the run from its last checkpoint.",
    "SIGTERM": "A person, or the batch system at its time limit, ended it.",
    "SIGXCPU": "The processor time allowed to one process was used up.",
}
_OUT_OF_MEMORY = "Choose a smaller batch size or a smaller model, or ask for more memory."


class TrainerEnd(NamedTuple):
    """The end of the trainer: its exit code (negative: a signal's number), whether the kernel ran out of memory,
    whether that was because the job's time was up, and whether memory was short, so that it may have been the
    kernel."""

    exit_code: int
    out_of_memory: bool
    timed_out: bool = False
    memory_was_short: bool = False


def explain_death(ended: TrainerEnd, last_lines: str) -> Problem:
    """Says why a trainer ended without a message, as far as that can be seen from outside."""
    name = operating_system.signal_name(ended.exit_code)
    if ended.exit_code == UNWRITTEN:
        text = "The disk refused the run's journal for too long."
        hint = "Make room on that disk, then continue the run."
    elif name == "SIGKILL" and ended.out_of_memory:
        text, hint = "The machine ran out of memory and killed the trainer (SIGKILL).", _OUT_OF_MEMORY
    elif name == "SIGKILL":
        text = "The trainer was killed (SIGKILL)."
        likely = f"Most likely the machine ran out of memory, unless someone killed it. {_OUT_OF_MEMORY}"
        hint = likely if ended.memory_was_short else _HINTS[name]
    elif name:
        text, hint = f"The trainer died of {name}.", _HINTS.get(name, "The last lines of log.txt may show why.")
    else:
        text = f"The trainer ended with exit code {ended.exit_code} and without a message."
        hint = "The last lines of log.txt may show why."
    if last_lines:
        text += f" Last output:\n{last_lines}\n"
    return Problem("run.died", text, hint, "log.txt")
