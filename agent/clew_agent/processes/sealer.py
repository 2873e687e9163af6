"""Writes the last words of a run whose trainer *and* guard are gone. The supervisor starts it as a program, because
hashing the run's files may take longer than a viewer should wait."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from clew_agent.node.exit_codes import FAILED, STOPPED
from clew_agent.node.host import clear_traces
from clew_agent.processes.guard import open_end, seal
from clew_agent.processes.trainer_death import TrainerEnd
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Attempt, State
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.lifecycle import RESTARTED, VANISHED, RunFold, RunState
from clew_shared.journal.run_folder import RunFolder


def main(argv: Sequence[str]) -> int:
    """``python -m clew_agent.processes.sealer RUN_FOLDER --attempt N (--stopped | --lost)``."""
    parser = argparse.ArgumentParser(prog="clew-agent sealer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--stopped", action="store_true", help="someone asked for the end")
    how.add_argument("--lost", action="store_true", help="nobody did")
    options = parser.parse_args(argv)
    folder = RunFolder(options.folder.absolute())
    if options.stopped:
        seal(folder, options.attempt, TrainerEnd(STOPPED, out_of_memory=False), "supervisor")
    else:
        seal_lost(folder, options.attempt)
    return 0


def seal_lost(folder: RunFolder, attempt: int) -> None:
    """Seal the journal of an attempt that nobody watched when it ended; nothing to do for a sealed one."""
    fold, boot, pid = RunFold(), "", 0
    for item in read_journal(folder.journal(attempt)):
        if isinstance(item, Record):
            fold.feed(attempt, item.event)
            if isinstance(item.event, Attempt):
                boot, pid = item.event.boot, item.event.pid
    if boot == operating_system.boot_id():
        clear_traces(pid)
    if not fold.done:
        with open_end(folder, attempt) as writer:
            found = lost(boot)
            writer.append(_failed(found, fold.step))
    seal(folder, attempt, TrainerEnd(FAILED, out_of_memory=False), "supervisor")


def _failed(found: Problem, step: int) -> State:
    return State(time=time.time(), state=RunState.FAILED, reason=found.text, step=step, problem=found)


def lost(boot: str) -> Problem:
    """Says why a run ended of which no process is left."""
    hint = "Continue it from its last checkpoint."
    if boot and boot != operating_system.boot_id():
        return Problem(RESTARTED, "The computer was restarted while the run trained.", hint)
    text = "The training process and its watchdog both stopped without a message; log.txt may say why."
    return Problem(VANISHED, text, hint, "log.txt")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
