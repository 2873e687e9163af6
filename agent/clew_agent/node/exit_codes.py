"""Exit codes of the agent's programs."""

from __future__ import annotations

from clew_shared.journal.lifecycle import RunFold, RunState

FINISHED = 0
FAILED = 1
"""The run failed or its time was up."""
BAD_INPUT = 2
"""Exit code when nothing was trained, because something in the run spec, the exercise or the data was wrong."""
TRY_AGAIN = 75
"""The agent cannot serve now, and perhaps can later: no port is free, a disk refuses (``EX_TEMPFAIL``)."""
TAKEN = 73
"""The attempt's journal exists already: another trainer writes it (``EX_CANTCREAT`` of sysexits.h)."""
UNWRITTEN = 74
"""The trainer could not write the end of its journal (``EX_IOERR`` of sysexits.h)."""
KILLED = -9
"""The exit code that ``subprocess`` reports for a process killed by SIGKILL."""
STOPPED = 130
"""Stopped on request; what a shell reports of a program that Ctrl+C ended."""


def exit_code_for(fold: RunFold) -> int:
    """The exit code for the end of a run."""
    if fold.state is RunState.FINISHED:
        return FINISHED
    if fold.state is RunState.STOPPED:
        return STOPPED
    return BAD_INPUT if fold.exit_code == BAD_INPUT else FAILED
