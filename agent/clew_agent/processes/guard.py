"""The guard: parent of one trainer. It waits, and when the trainer dies without a word it writes the last ones.

It imports neither TensorFlow nor NumPy and does nothing but wait, so that nothing can happen to it that happens to a
trainer. What the trainer and its libraries print goes to the run's ``log.txt``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec

from clew_agent.node.allocation import read_allocation
from clew_agent.node.child_output import tail
from clew_agent.node.exit_codes import BAD_INPUT, FAILED, KILLED, STOPPED, TAKEN, exit_code_for
from clew_agent.node.host import clear_traces
from clew_agent.node.memory_kills import memory_shortages, out_of_memory_kills
from clew_agent.node.pulse.sampler import sampling
from clew_agent.node.pulse.spool import GuardSamples, SpoolWriter, remove_spool, spool_folder
from clew_agent.peers.processes import end_left
from clew_agent.processes.guard_mark import GuardMark
from clew_agent.processes.nursery_messages import StartGuard
from clew_agent.processes.trainer_death import TrainerEnd, explain_death
from clew_agent.trainer import checkpoints, compile_cache
from clew_agent.trainer.control_address import remove_address
from clew_agent.trainer.resuming import find_start
from clew_agent.trainer.time_limit import Deadline
from clew_shared.base import operating_system
from clew_shared.base.disk_full import disk_full
from clew_shared.base.harmless import say
from clew_shared.base.places import find_places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.events import Attempt, Event, State
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter, Record, first_attempt, read_journal
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.spec import RunSpec, read_spec

_POLL_S = 0.05
"""Seconds between two looks at the trainer: its death is in the journal before anybody asks."""
_KILL_AFTER = 3
"""Number of the request to stop that kills: the first stops after the block, the second at once, and both may go
unheard."""
TRAINER_DEFAULTS = {"PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
"""A trainer's environment where the user's says nothing else: TensorFlow prints only warnings."""


StartTrainer = Callable[[RunFolder, int, Path | None], operating_system.Child]
"""Starts the trainer's process, from the run folder, the attempt and a folder of exercises."""


def main(argv: Sequence[str]) -> int:
    """``clew-agent guard RUN_FOLDER --attempt N``: returns the exit code for how the run ended."""
    parser = argparse.ArgumentParser(prog="clew-agent guard")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, default=1)
    parser.add_argument("--exercises", type=Path)
    options = parser.parse_args(argv)
    return exit_code_for(watch(RunFolder(options.folder.absolute()), options.attempt, options.exercises))


def watch_request(request: StartGuard, start: StartTrainer) -> int:
    """Be the guard of the run that was asked for; returns the exit code for how it ended."""
    request.take_environment()
    operating_system.set_title(f"clew-agent guard {request.folder} --attempt {request.attempt}")
    try:
        fold = watch(RunFolder(Path(request.folder)), request.attempt, request.exercises_folder(), start=start)
    except ProblemError as error:
        say(f"clew-agent guard: {error}", sys.stderr)
        return BAD_INPUT
    return exit_code_for(fold)


def watch(
    folder: RunFolder,
    attempt: int,
    exercises: Path | None = None,
    on_wait: Callable[[], None] = lambda: None,
    start: StartTrainer | None = None,
) -> RunFold:
    """Start the trainer of ``attempt``, wait for its end, seal its journal if need be; returns what became of it.

    ``start`` starts the trainer (default: a fresh interpreter); ``on_wait`` is called about twenty times a second. Only
    in the main thread: requests to stop go on to the trainer. Raises ``ProblemError`` when the attempt's journal exists
    already, or when another guard is running: it looks after the run.
    """
    operating_system.restore_sigchld()
    mark = GuardMark(folder.path)
    if folder.journal(attempt).exists() or not mark.take():
        raise _taken(folder, attempt)
    try:
        return _watch(folder, attempt, lambda: (start or spawn)(folder, attempt, exercises), on_wait)
    finally:
        mark.release()


def _watch(
    folder: RunFolder, attempt: int, start: Callable[[], operating_system.Child], on_wait: Callable[[], None]
) -> RunFold:
    _clear_earlier(folder, attempt)
    kills, shortages, deadline = out_of_memory_kills(), memory_shortages(), Deadline.of(read_allocation())
    deliver = SpoolWriter(spool_folder(folder, attempt)).add
    sampled = partial(sampling, deliver=deliver)
    exit_code, asked = _train(start, on_wait, deadline, sampled)
    if asked and exit_code == FAILED and not folder.journal(attempt).exists():
        exit_code = STOPPED  # Python itself, interrupted while it starts, says that it failed
    if exit_code == TAKEN:
        raise _taken(folder, attempt)
    timed_out = exit_code in (STOPPED, KILLED) and (deadline.overdue() or (asked and deadline.asks()))
    ended = TrainerEnd(exit_code, out_of_memory_kills() > kills, timed_out, memory_shortages() > shortages)
    try:
        return seal(folder, attempt, ended)
    except OSError as error:
        return _unsealed(folder, attempt, error)


def _clear_earlier(folder: RunFolder, attempt: int) -> None:
    """Remove what earlier attempts left on this computer whose trainer and guard were both killed: scratch files, and
    what was to find their other processes. What another computer has left is its own."""
    for number in (one for one in folder.attempts() if one < attempt):
        begun = first_attempt(folder.journal(number))
        if begun is not None and begun.boot and begun.boot == operating_system.boot_id():
            checkpoints.clear(folder, number)
            end_left(folder, number)
            remove_spool(folder, number)
            clear_traces(begun.pid)


def _taken(folder: RunFolder, attempt: int) -> ProblemError:
    text = f"Attempt {attempt} of the run in {folder.path} has a journal or a guard already."
    return problem("run.attempt", text, "Continue it as a new attempt.", str(folder.path))


def trainer_command(folder: Path, attempt: int, exercises: Path | None) -> list[str]:
    """The command line of the trainer. ``-P``: a file in the current folder must not replace a module."""
    words = [sys.executable, "-P", "-m", "clew_agent", "trainer", str(folder), "--attempt", str(attempt)]
    return [*words, "--exercises", str(exercises)] if exercises else words


def trainer_environment() -> dict[str, str]:
    """Returns this process's environment and what a trainer needs beside it; what the user has set stays."""
    return TRAINER_DEFAULTS | compile_cache.environment(find_places()) | os.environ


def spawn(folder: RunFolder, attempt: int, exercises: Path | None) -> subprocess.Popen[bytes]:
    """Start the trainer as a fresh interpreter, which prints into the run's log."""
    with folder.log.open("ab") as log:
        return subprocess.Popen(
            trainer_command(folder.path, attempt, exercises),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=trainer_environment(),
            **operating_system.own_session(),
        )


def _train(
    start: Callable[[], operating_system.Child],
    on_wait: Callable[[], None],
    deadline: Deadline,
    sampled: Callable[[Callable[[], int]], AbstractContextManager[None]],
) -> tuple[int, bool]:
    """Start the trainer and wait for its end, which comes by force when the job is nearly over; returns its exit code
    and whether it was asked to end. Without a job there is no bound on a run's length. ``sampled`` samples
    it meanwhile, in another thread.

    Requests to stop are passed on, the third one kills. A trainer that dies of them, because it could not handle them
    yet or any more, was stopped and has not failed.
    """
    asked: list[int] = []

    def note(number: int) -> None:
        asked.append(number)
        if process is not None:
            _pass_on(process, asked)

    process: operating_system.Child | None = None
    with operating_system.stop_requests(
        note
    ):  # before it is started, so that none can end this process and leave it alone
        process = child = start()
        if asked:
            _pass_on(process, asked)
        with sampled(lambda: child.pid):
            while (exit_code := process.poll()) is None:
                time.sleep(_POLL_S)
                on_wait()
                if deadline.overdue():
                    process.kill()
        clear_traces(process.pid)
    killed = len(asked) >= _KILL_AFTER and operating_system.signal_name(exit_code) == "SIGKILL"
    return STOPPED if killed or -exit_code in asked else exit_code, bool(asked)


def _pass_on(process: operating_system.Child, asked: Sequence[int]) -> None:
    if len(asked) >= _KILL_AFTER:
        process.kill()
    else:
        operating_system.pass_on(process, asked[-1])


def seal(folder: RunFolder, attempt: int, ended: TrainerEnd, name: str = "guard") -> RunFold:
    """Complete the journal of a trainer that has ended, and return its fold; nothing to do for a sealed one.

    ``name`` is who seals: the guard, or a supervisor that finds neither trainer nor guard. Raises ``OSError`` when the
    disk refuses; then the next supervisor seals.
    """
    path, samples = folder.journal(attempt), GuardSamples(folder, attempt)
    fold = _fold(path, attempt, samples)
    remove_address(fold.run or folder.path.name)  # first: nobody cleans up after a sealed run
    if fold.sealed:
        remove_spool(folder, attempt)
        return fold
    checkpoints.clear(folder, attempt)
    end_left(folder, attempt)
    with open_end(folder, attempt) as writer:
        for event in samples.events(last=True) if not fold.done else ():
            writer.append(event)
        for files in final_files(folder.path):
            _append(writer, files, fold, attempt)
        if not fold.done:
            _append(writer, _last_state(folder, fold, ended), fold, attempt)
        writer.seal(name)
    remove_spool(folder, attempt)
    return fold


def _unsealed(folder: RunFolder, attempt: int, error: OSError) -> RunFold:
    """The fold of a journal whose end the disk refused; a supervisor that finds it seals it."""
    fold = _fold(folder.journal(attempt), attempt)
    text = f"The end of the journal could not be written: {error.strerror or error}."
    hint = "Make room on that disk, then continue the run." if disk_full(error) else "Check that disk."
    found = Problem("journal.write", text, hint, str(folder.path))
    fold.feed(attempt, State(state=RunState.FAILED, reason=text, step=fold.step, problem=found))
    return fold


def _fold(path: Path, attempt: int, samples: GuardSamples | None = None) -> RunFold:
    fold = RunFold()
    for item in read_journal(path) if path.exists() else ():
        if isinstance(item, Record):
            fold.feed(attempt, item.event)
            if samples is not None:
                samples.skip(item.event)
    return fold


def open_end(folder: RunFolder, attempt: int) -> JournalWriter:
    """The journal of a trainer that has ended, to append its end. Raises ``OSError``.

    One that died before it wrote a byte gets its first frame here, as if it had.
    """
    path = folder.journal(attempt)
    empty = not path.exists() or not path.stat().st_size
    first = _first(folder, attempt) if empty else None
    writer = JournalWriter.open_to_seal(path) if path.exists() else JournalWriter.create(path)
    try:
        if first is not None:
            writer.append(first)
    except BaseException:
        writer.close()
        raise
    return writer


def _first(folder: RunFolder, attempt: int) -> Attempt:
    start = find_start(folder, attempt)
    try:
        spec = read_spec(folder.spec)
    except ProblemError:  # that may be what the trainer died of
        spec = RunSpec(exercise="")
    return Attempt(
        time=time.time(),
        format=JOURNAL_FORMAT,
        run=spec.run or folder.path.name,
        attempt=attempt,
        exercise=spec.exercise,
        spec_sha256="",
        host=operating_system.host_name(),
        boot=operating_system.boot_id(),
        start_step=start.step,
        resumes=start.resumes,
        checkpoint=start.checkpoint,
        earlier_size=start.earlier_size,
        earlier_sha256=start.earlier_sha256,
        job=read_allocation().job,
    )


def _append(writer: JournalWriter, event: Event, fold: RunFold, attempt: int) -> None:
    stamped = msgspec.structs.replace(event, time=time.time())
    writer.append(stamped)
    fold.feed(attempt, stamped)


def _last_state(folder: RunFolder, fold: RunFold, ended: TrainerEnd) -> State:
    """Returns the state that the trainer would have reported. Stopping at once is no failure."""
    if ended.timed_out:
        reason = "The job's time was up before the run could be saved. It can be continued from its last checkpoint."
        return State(state=RunState.TIMED_OUT, reason=reason, step=fold.step, exit_code=ended.exit_code)
    if ended.exit_code == STOPPED:
        return State(state=RunState.STOPPED, reason="Stopped at once.", step=fold.step, exit_code=STOPPED)
    found = explain_death(ended, tail(folder.log))
    # Only a trainer that says why refuses its input; anyone who takes this for a refusal would remove what was trained.
    exit_code = FAILED if ended.exit_code == BAD_INPUT else ended.exit_code
    return State(state=RunState.FAILED, reason=found.text, step=fold.step, problem=found, exit_code=exit_code)
