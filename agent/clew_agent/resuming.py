"""Where an attempt begins: at step 0, or at the last checkpoint of an earlier attempt that is still intact."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clew_agent import posix
from clew_shared.events import Attempt, Checkpoint, Seal
from clew_shared.journal import Record, read_journal
from clew_shared.lifecycle import RunFold, RunState
from clew_shared.problem import Problem, problem
from clew_shared.runfolder import RunFolder, record_file

_CHUNK = 1 << 20


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of an attempt. ``resumes`` is the earlier attempt (0: none), ``checkpoint`` a path in the folder.

    ``earlier_size`` and ``earlier_sha256`` say up to where the earlier attempt's journal counts. ``damaged`` are
    checkpoints that were passed over because a file of theirs has changed.
    """

    step: int = 0
    resumes: int = 0
    checkpoint: str = ""
    earlier_size: int = 0
    earlier_sha256: str = ""
    damaged: tuple[str, ...] = ()


class Earlier(msgspec.Struct, frozen=True):
    """One earlier attempt: how it ended, its checkpoints with the journal's length behind each, its own length."""

    fold: RunFold
    first: Attempt | None
    checkpoints: tuple[tuple[Checkpoint, int], ...]
    sealed: bool
    size: int


def read_earlier(folder: RunFolder, attempt: int) -> Earlier:
    """What the journal of ``attempt`` says."""
    fold, first, found, sealed, size = RunFold(), None, [], False, 0
    for item in read_journal(folder.journal(attempt)):
        if not isinstance(item, Record):
            continue
        size = item.offset + item.size
        fold.feed(attempt, item.event)
        if isinstance(item.event, Attempt):
            first = item.event
        elif isinstance(item.event, Checkpoint):
            found.append((item.event, size))
        elif isinstance(item.event, Seal):
            sealed = True
    return Earlier(fold, first, tuple(found), sealed, size)


def check_resumable(folder: RunFolder) -> tuple[Problem, ...]:
    """Why the run in ``folder`` cannot go on; nothing when it can."""
    numbers = folder.attempts()
    if not numbers:
        text = f"{folder.path} is no run folder: it holds no journal.0001."
        return (Problem("run.folder", text, "Name the folder of a run.", str(folder.path)),)
    last = read_earlier(folder, numbers[-1])
    if last.fold.state is RunState.FINISHED:
        text = f"The run in {folder.path} has finished after {last.fold.step} steps."
        return (Problem("run.finished", text, "Start a new run with more steps.", str(folder.path)),)
    if not last.fold.done and last.first is not None and _still_here(last.first):
        text = f"The run in {folder.path} is still going on (process {last.first.pid})."
        return (Problem("run.running", text, "Stop it first.", str(folder.path)),)
    return ()


def find_start(folder: RunFolder, attempt: int) -> Start:
    """Where ``attempt`` begins. Raises ``ProblemError`` when an earlier attempt has no journal."""
    if attempt == 1:
        return Start()
    earlier = [number for number in folder.attempts() if number < attempt]
    if not earlier:
        text = f"Attempt {attempt} has nothing to go on from: {folder.path} holds no earlier journal."
        raise problem("run.attempt", text, "Start a new run.", str(folder.path))
    damaged: list[str] = []
    for number in reversed(earlier):
        found = read_earlier(folder, number)
        for checkpoint, size in reversed(found.checkpoints):
            if not _intact(folder.path, checkpoint):
                damaged.append(checkpoint.folder)
                continue
            counts = found.size if found.sealed else size
            return _start(folder, number, counts, checkpoint, damaged)
    last = read_earlier(folder, earlier[-1])
    return _start(folder, earlier[-1], last.size, None, damaged)


def _start(folder: RunFolder, number: int, size: int, checkpoint: Checkpoint | None, damaged: list[str]) -> Start:
    return Start(
        step=checkpoint.step if checkpoint else 0,
        resumes=number,
        checkpoint=checkpoint.folder if checkpoint else "",
        earlier_size=size,
        earlier_sha256=_sha256(folder.journal(number), size),
        damaged=tuple(damaged),
    )


def _still_here(first: Attempt) -> bool:
    here = first.host == posix.host_name() and first.boot == posix.boot_id()
    return here and first.pid > 0 and posix.is_alive(first.pid)


def _intact(folder: Path, checkpoint: Checkpoint) -> bool:
    """Whether every file of the checkpoint still is what its record says."""
    try:
        return bool(checkpoint.files) and all(
            record_file(folder, folder / record.path).sha256 == record.sha256 for record in checkpoint.files
        )
    except OSError:
        return False


def _sha256(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    for part in _pieces(path, size):
        digest.update(part)
    return digest.hexdigest()


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while size > 0 and (part := file.read(min(size, _CHUNK))):
            size -= len(part)
            yield part
