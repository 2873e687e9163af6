"""A run folder read whole, and the run as one flat table for programs."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from clew_shared.base.problem import ProblemError, problem
from clew_shared.journal.files import Record, attempts, first_attempt, journal_path, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.trace import shares
from clew_shared.spec import RunSpec, from_toml


def read_run(folder: Path) -> History:
    """The history in a run folder or mirror. Raises ``ProblemError`` when it has no journal that can be read.

    A frame that is cut at the end of a journal that may still grow is not counted as damage.
    """
    numbers = attempts(folder)
    if not numbers:
        text = f"{folder} is not a run folder: it has no journal.0001."
        raise problem("run.folder", text, "Name the folder of a run.", str(folder))
    history = History(updates_kept=None)
    try:
        cuts = _cuts(folder, numbers)
        for attempt in numbers:
            _read_attempt(history, folder, attempt, cuts.get(attempt))
    except OSError as error:
        raise problem("run.read", f"Cannot read {error.filename}: {error.strerror}.", where=str(folder)) from None
    return history


def _cuts(folder: Path, numbers: tuple[int, ...]) -> dict[int, int]:
    """The length up to which each attempt counts, where a later one says so."""
    cuts: dict[int, int] = {}
    for attempt in numbers[1:]:
        event = first_attempt(journal_path(folder, attempt))
        if event is not None and 0 < event.resumes < attempt and event.earlier_size:
            cuts[event.resumes] = min(event.earlier_size, cuts.get(event.resumes, event.earlier_size))
    return cuts


def _read_attempt(history: History, folder: Path, attempt: int, cut: int | None) -> None:
    for item in read_journal(journal_path(folder, attempt)):
        if cut is not None and item.offset >= cut:
            return
        if isinstance(item, Record):
            history.feed(attempt, item.event, item.offset)
        elif not item.tail or history.fold.done:
            history.note(attempt, item)


def spec_of(history: History) -> RunSpec | None:
    """The spec of the run's latest attempt; None where its journal does not hold it, or not one that can be read."""
    try:
        return from_toml(history.fold.spec) if history.fold.spec else None
    except ProblemError:
        return None


def summary(history: History, run_dir: Path) -> dict[str, object]:
    """A run as one flat table for ``--json``: values that are missing or not finite become None.

    ``metrics`` has each metric's last value, ``best`` those that have a best, ``diverged`` the step from which on one
    is no finite number; times are seconds.
    """
    fold = history.fold
    best = {name: found for name in history.recorded() if (found := history.best(name)) is not None}
    numbers = attempts(run_dir)
    result: dict[str, object] = {
        "run": fold.run,
        "exercise": fold.exercise,
        "state": fold.state.value,
        "steps": fold.step,
        "metrics": {name: _finite(history.last(name)) for name in history.recorded()},
        "best": {name: {"step": found.step, "value": found.value} for name, found in best.items()},
        "steps_per_second": _finite(history.steps_per_second()),
        "first_point_seconds": _finite(history.first_point_seconds),
        "seconds": _finite(history.fold.seconds),
        "run_dir": str(run_dir),
        "journal": str(journal_path(run_dir, numbers[-1])) if numbers else "",
    }
    if fold.reason:
        result["reason"] = fold.reason
    if history.peers:
        result["peers"] = [
            {"role": peer.role, "index": peer.index, "host": peer.host, "address": peer.address, "status": peer.status}
            for peer in history.peers.values()
        ]
    if history.updates.counts.workers.any():
        result["updates"] = updates_summary(history)
    if len(history.pulse):
        used = msgspec.structs.asdict(history.pulse_summary())
        result["usage"] = {name: value for name, value in used.items() if value is not None}
    traced = history.trace
    if traced is not None:
        result["trace"] = {"step": traced.step, "count": traced.count, "seconds": traced.seconds} | shares(traced)
    if history.first_nonfinite:
        result["diverged"] = dict(history.first_nonfinite)
    if fold.problem is not None and fold.state is not RunState.FINISHED:
        result["problem"] = msgspec.to_builtins(fold.problem)
    return result


def updates_summary(history: History) -> dict[str, object]:
    """Summarises what parameter servers took: ``gradients`` in all, those ``dropped`` as too old, the ``staleness`` of
    the applied ones, and for each worker how many it computed and its ``share`` of the applied ones."""
    counts = history.updates.counts
    shares = counts.shares()
    return {
        "gradients": counts.applied + counts.dropped,
        "applied": counts.applied,
        "dropped": counts.dropped,
        "bytes_each": history.updates.moved,
        "staleness": {
            "mean": counts.mean_staleness,
            "median": counts.median_staleness(),
            "max": counts.largest_staleness,
            "histogram": counts.staleness[1].tolist(),
            "dropped": counts.staleness[0].tolist(),
        },
        "workers": [
            {
                "index": worker,
                "applied": int(counts.workers[1, worker]),
                "dropped": int(counts.workers[0, worker]),
                "share": share,
            }
            for worker, share in shares.items()
        ],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
