"""Finds where an attempt begins: at step 0, or at the last checkpoint of the run's chain of attempts that is still
intact."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, problem
from clew_shared.journal.events import Attempt, Checkpoint, Diverged, Event, Live, Points
from clew_shared.journal.files import PrefixHash, Record, is_mirror, mirror_problem, read_journal
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.journal.run_folder import RunFolder, record_file

_UNKNOWN = sys.maxsize
"""Begin of an attempt that neither says where it began nor did a step."""


class AttemptStart(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of an attempt. ``resumes`` is the earlier attempt (0: none), ``checkpoint`` a path in the folder.

    ``earlier_size`` and ``earlier_sha256`` say up to where the earlier attempt's journal counts. ``damaged`` are
    checkpoints that were passed over because a file of theirs has changed. ``live`` are the changes of hyperparameters
    that act at ``step`` or later, by step: the steps that are done again need them. ``diverged`` names the metrics of
    which the journal says already that they are no finite numbers.
    """

    step: int = 0
    resumes: int = 0
    checkpoint: str = ""
    earlier_size: int = 0
    earlier_sha256: str = ""
    damaged: tuple[str, ...] = ()
    live: tuple[Live, ...] = ()
    diverged: frozenset[str] = frozenset()


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier attempt as far as it counts: how it ended, and what of it matters to a later one.

    ``begin`` is the first step that it did, ``size`` the end of its last intact frame that counts.
    """

    fold: RunFold
    first: Attempt | None
    begin: int
    size: int
    checkpoints: tuple[Checkpoint, ...] = ()
    live: tuple[Live, ...] = ()
    diverged: tuple[Diverged, ...] = ()


class _Link(NamedTuple):
    """An attempt of the chain: up to which step its checkpoints count."""

    number: int
    until: int


def read_earlier(folder: RunFolder, attempt: int, cut: int | None = None) -> Earlier:
    """Reads what the journal of ``attempt`` says, before byte ``cut`` if a later attempt has found its end there."""
    fold, size, first, points = RunFold(), 0, None, None
    found: list[Event] = []
    for item in read_journal(folder.journal(attempt)):
        if cut is not None and item.offset >= cut:
            break
        if not isinstance(item, Record):
            continue
        size = item.offset + item.size
        fold.feed(attempt, item.event)
        if isinstance(item.event, Attempt):
            first = first or item.event
        elif isinstance(item.event, Points):
            points = points or item.event
        elif isinstance(item.event, Checkpoint | Live | Diverged):
            found.append(item.event)
    knows = first is not None and (first.resumes > 0 or attempt == 1)  # not so one that a guard began in its stead
    return Earlier(
        fold=fold,
        first=first,
        begin=first.start_step if first is not None and knows else points.first if points is not None else _UNKNOWN,
        size=size,
        checkpoints=tuple(event for event in found if isinstance(event, Checkpoint)),
        live=tuple(event for event in found if isinstance(event, Live)),
        diverged=tuple(event for event in found if isinstance(event, Diverged)),
    )


def read_all_earlier(folder: RunFolder, attempt: int) -> dict[int, Earlier]:
    """Reads what counts of every attempt before ``attempt``, by number.

    The latest ones are read first, because each says where the one that it goes on from ends.
    """
    cuts: dict[int, int] = {}
    found: dict[int, Earlier] = {}
    for number in sorted((one for one in folder.attempts() if one < attempt), reverse=True):
        found[number] = earlier = read_earlier(folder, number, cuts.get(number))
        first = earlier.first
        if first is not None and first.earlier_size:
            cuts[first.resumes] = min(first.earlier_size, cuts.get(first.resumes, first.earlier_size))
    return dict(sorted(found.items()))


def check_resumable(folder: RunFolder) -> tuple[Problem, ...]:
    """Says why the run in ``folder`` cannot go on; nothing when it can."""
    numbers = folder.attempts()
    if not numbers:
        text = f"{folder.path} is not a run folder: it has no journal.0001."
        return (Problem("run.folder", text, "Name the folder of a run.", str(folder.path)),)
    if is_mirror(folder.path):
        return (mirror_problem(folder.path),)
    last = read_earlier(folder, numbers[-1])
    if last.fold.state is RunState.FINISHED:
        text = f"The run in {folder.path} has finished after {last.fold.step} steps."
        return (Problem("run.finished", text, "Start a new run with more steps.", str(folder.path)),)
    if not last.fold.done and last.first is not None and _still_here(last.first):
        return (still_going_on(folder, last.first.pid),)
    return ()


def still_going_on(folder: RunFolder, pid: int) -> Problem:
    """Says that the run in ``folder`` cannot go on, because the process ``pid`` works on it."""
    text = f"The run in {folder.path} is still going on (process {pid})."
    return Problem("run.running", text, "Stop it first.", str(folder.path))


def find_start(folder: RunFolder, attempt: int) -> AttemptStart:
    """Returns where ``attempt`` begins. Raises ``ProblemError`` when an earlier attempt has no journal."""
    if attempt == 1:
        return AttemptStart()
    earlier = read_all_earlier(folder, attempt)
    if not earlier:
        text = f"Attempt {attempt} has nothing to continue from: {folder.path} holds no earlier journal."
        raise problem("run.attempt", text, "Start a new run.", str(folder.path))
    damaged: list[str] = []
    for link in chain(earlier):
        for checkpoint in reversed(earlier[link.number].checkpoints):
            if checkpoint.step > link.until:
                continue
            if _intact(folder.path, checkpoint):
                return _start(folder, earlier, link.number, checkpoint, damaged)
            damaged.append(checkpoint.folder)
    return _start(folder, earlier, max(earlier), None, damaged)


def chain(earlier: Mapping[int, Earlier]) -> Iterator[_Link]:
    """The attempts of which the run's curve is made, the latest first.

    What an attempt did after the step from which a later one went on does not count: of two that were there at the
    same time only one is the run.
    """
    number, until = max(earlier), _UNKNOWN
    while True:
        yield _Link(number, until)
        this = earlier[number]
        until = min(until, this.begin)
        below = [one for one in earlier if one < number]
        if not below:
            return
        resumes = this.first.resumes if this.first is not None else 0
        number = resumes if resumes in below else max(below)


def live_changes(earlier: Mapping[int, Earlier], step: int) -> tuple[Live, ...]:
    """The changes of hyperparameters that act at ``step`` or later when the run goes on from there, by step.

    A later attempt's changes replace an earlier one's from its first step on. It repeats those that it reaches; what it
    did not reach still counts, unless someone changed the same value again.
    """
    plan: list[Live] = []
    for attempt in earlier.values():
        waiting = [change for change in plan if change.step >= attempt.begin]
        repeated = {(change.name, change.step, change.value) for change in waiting}
        changed_again = {
            change.name for change in attempt.live if (change.name, change.step, change.value) not in repeated
        }
        plan = [change for change in plan if change.step < attempt.begin]
        plan += attempt.live
        seen = {(change.name, change.step) for change in attempt.live}
        plan += [
            change
            for change in waiting
            if change.step >= attempt.fold.step
            and change.name not in changed_again
            and (change.name, change.step) not in seen
        ]
    return tuple(sorted((change for change in plan if change.step >= step), key=lambda change: change.step))


def diverged_before(earlier: Mapping[int, Earlier], step: int) -> frozenset[str]:
    """The metrics for which the journal says that they became NaN or infinite before ``step``."""
    diverged: dict[str, int] = {}
    for attempt in earlier.values():
        diverged = {metric: first for metric, first in diverged.items() if first < attempt.begin}
        diverged |= {event.metric: event.step for event in attempt.diverged}
    return frozenset(metric for metric, first in diverged.items() if first < step)


def _start(
    folder: RunFolder,
    earlier: Mapping[int, Earlier],
    number: int,
    checkpoint: Checkpoint | None,
    damaged: Sequence[str],
) -> AttemptStart:
    step = checkpoint.step if checkpoint else 0
    size = earlier[number].size
    return AttemptStart(
        step=step,
        resumes=number,
        checkpoint=checkpoint.folder if checkpoint else "",
        earlier_size=size,
        earlier_sha256=_sha256(folder.journal(number), size),
        damaged=tuple(damaged),
        live=live_changes(earlier, step),
        diverged=diverged_before(earlier, step),
    )


def _still_here(first: Attempt) -> bool:
    here = first.host == operating_system.host_name() and first.boot == operating_system.boot_id()
    return here and first.pid > 0 and operating_system.is_alive(first.pid)


def _intact(folder: Path, checkpoint: Checkpoint) -> bool:
    """Whether every file of the checkpoint still is what its record says."""
    try:
        return bool(checkpoint.files) and all(
            record_file(folder, folder / record.path).sha256 == record.sha256 for record in checkpoint.files
        )
    except OSError:
        return False


def _sha256(path: Path, size: int) -> str:
    with PrefixHash(path) as prefix:
        return prefix.sha256(size)
