"""The trainer: one process for one attempt of a run. It checks, builds, trains, and writes the journal.

The journal exists before TensorFlow is imported, so that a student sees something at once. All that goes wrong becomes
the run's last state; the guard, its parent, covers only a death without a word.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from clew_agent.datasets.load import load
from clew_agent.node.allocation import read_allocation
from clew_agent.node.exit_codes import FAILED, STOPPED, TAKEN, UNWRITTEN, exit_code_for
from clew_agent.node.pulse.spool import GuardSamples, remove_spool
from clew_agent.peers.processes import StartPeer, spawn
from clew_agent.trainer import checkpoints
from clew_agent.trainer.attempt import Attempt, LoadData, run
from clew_agent.trainer.control import ControlRequests, JobEnds
from clew_agent.trainer.failures import failed
from clew_agent.trainer.recorder import PATIENCE_S, Recorder, Reserve
from clew_agent.trainer.time_limit import Deadline, TimeIsUp, Timekeeper
from clew_shared.base import operating_system
from clew_shared.base.harmless import log_to, say
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Event, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunFold
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.wire.messages import Stop

EventT = TypeVar("EventT", bound=Event)


def main(argv: Sequence[str]) -> int:
    """``clew-agent trainer RUN_FOLDER --attempt N``: returns the exit code for how the run ended."""
    parser = argparse.ArgumentParser(prog="clew-agent trainer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--exercises", type=Path)
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds that a full disk may last")
    options = parser.parse_args(argv)
    prepare_process()
    folder = RunFolder(options.folder.absolute())
    return train(folder, options.attempt, options.exercises, options.patience)


def prepare_process() -> None:
    """Make a process a trainer: it logs, a crash shows its stack, and when memory runs out it goes before its guard."""
    faulthandler.enable()
    operating_system.end_before_others()
    log_to(None, logging.WARNING, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("clew_agent").setLevel(logging.INFO)


def train(
    folder: RunFolder,
    attempt: int,
    exercises: Path | None = None,
    patience: float = PATIENCE_S,
    load_data: LoadData = load,
    start_peer: StartPeer = spawn,
    asked: Sequence[int] = (),
) -> int:
    """Run the attempt from its first frame to its seal; returns the exit code. ``load_data`` reads its data set,
    ``start_peer`` starts its peers on this node. ``asked`` are the signals by which it was asked to stop before it
    could listen to them itself."""
    try:
        writer = JournalWriter.create(folder.journal(attempt))
    except FileExistsError:
        return TAKEN  # without a word: what is printed goes into the other one's log, maybe after its end
    except OSError as error:
        say(f"clew-agent trainer: cannot begin the journal: {error}", sys.stderr)
        return FAILED
    commands, deadline = ControlRequests(), Deadline.of(read_allocation())
    reserve, samples = Reserve(checkpoints.reserve(folder, attempt)), GuardSamples(folder, attempt)
    recorder = Recorder(writer, reserve, patience=patience, beside=samples.events)
    recorder.start()
    with _stop_signals(folder.path.name, commands, deadline, asked):
        timekeeper = Timekeeper(deadline, commands, folder.path.name, recorder.put)
        this = Attempt(folder, attempt, recorder, commands, timekeeper, exercises, load_data, start_peer)
        return finish(folder, attempt, recorder, run(this))


@contextmanager
def _stop_signals(run: str, commands: ControlRequests, deadline: Deadline, asked: Sequence[int]) -> Iterator[None]:
    """Sets up the signals: the first one stops after the block, with a checkpoint; a second Ctrl+C at once, and the
    guard seals.

    In a job SIGTERM comes from the scheduler or the keeper: its time is up, or someone cancelled it.
    """

    def note(number: int) -> None:
        if commands.stop is not None and number == signal.SIGINT:
            operating_system.exit_at_once(STOPPED)
        if number != signal.SIGINT and deadline.asks():
            commands.put(TimeIsUp(run=run))
        else:
            commands.put(JobEnds(run=run) if number == signal.SIGTERM and deadline.in_job else Stop(run=run))

    with operating_system.stop_requests(note):
        for number in asked:
            note(number)
        yield


def finish(folder: RunFolder, attempt: int, recorder: Recorder, last: State) -> int:
    """Record the files, the ``last`` state and the seal; returns the exit code.

    When the disk refuses even that, the journal stays unsealed, and the guard tries again.
    """
    sys.stdout.flush()
    writer = recorder.close()
    if recorder.failure is not None:
        last = failed(recorder.failure, min(last.step, recorder.step))
        say(str(recorder.failure), sys.stderr)
    if not folder.journal(attempt).exists():
        last = failed(_removed(folder), last.step)
    operating_system.silence()
    fold = RunFold()
    with writer:
        try:
            for files in final_files(folder.path, recorder.files if attempt == 1 else None):
                writer.append(_now(files))
            writer.append(_now(last))
            writer.seal("trainer")
        except OSError:
            return UNWRITTEN
    remove_spool(folder, attempt)
    fold.feed(attempt, last)
    return exit_code_for(fold)


def _removed(folder: RunFolder) -> Problem:
    """Says that a script or a person deleted the folder during the run: no viewer may believe that it is kept."""
    text = f"The run's folder {folder.path} was removed while it trained, so nothing of the run is kept."
    return Problem("run.removed", text, "Find out what removed it, and start the run again.", str(folder.path))


def _now(event: EventT) -> EventT:
    return msgspec.structs.replace(event, time=time.time())
