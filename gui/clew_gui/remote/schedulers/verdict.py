"""What became of a job, from all that is known: the queue, the accounts, and the record that its keeper left."""

from __future__ import annotations

import re

import msgspec

from clew_gui.remote.schedulers.record import ExitRecord, state_of_record
from clew_gui.remote.schedulers.state import ENDED, ON_NODE, WAITING, JobState, Phase

NO_TRACE = "no trace"
"""Reason of a job that is gone although its record says that it was running: nobody saw it end."""
NEVER_BEGAN = "never began"
"""Reason of a job that is gone and has no record: as far as anybody knows it never ran."""
_CERTAIN = frozenset({Phase.OUT_OF_MEMORY, Phase.NODE_FAILED, Phase.TIMED_OUT})
"""What the scheduler knows better than the keeper, which was only told to end, or not even that."""

_MEMORY = re.compile(r"exceeded (job )?memory limit|\boom[-_]kill|job killed: v?mem \S+ exceeded limit", re.IGNORECASE)
"""Where no control groups keep the limit, Slurm ends the job, calls it FAILED, and says why in its output alone."""


def follow(before: JobState | None, now: JobState) -> JobState:
    """``now`` in the light of what was known before.

    A job that ran and waits again was requeued, if the scheduler gives a reason; without one a controller has come back
    with an older memory, and the job still runs.
    """
    if before is None or before.phase not in ON_NODE or now.phase is not Phase.PENDING:
        return now
    if now.reason in ("", "None"):
        return before
    return msgspec.structs.replace(now, phase=Phase.REQUEUED)


def conclude(
    queue: JobState,
    accounts: JobState | None = None,
    record: ExitRecord | None = None,
    looked: bool = True,
    printed: str = "",
    done: bool = False,
) -> JobState:
    """How the job ended; a state that is not over is returned as it is.

    ``looked`` says that the record was looked for and that ``record`` is what there was. Without that a job of which
    the scheduler knows nothing is SILENT, not GONE: one source alone does not end a job. ``printed`` is what the
    scheduler wrote into the job's output. ``done`` says that all its runs have ended in it: then it has done its work,
    although nobody saw it end.
    """
    if queue.phase is Phase.SILENT or queue.phase in WAITING or queue.phase in ON_NODE:
        return queue
    told = _best(queue, accounts)
    kept = state_of_record(record, queue.id) if record is not None else None
    if kept is not None and told.phase not in _CERTAIN:
        return _joined(kept, told)
    if told.phase is Phase.FAILED and _MEMORY.search(printed):
        return msgspec.structs.replace(told, phase=Phase.OUT_OF_MEMORY)
    if told.phase in ENDED:
        return told
    if not looked:
        return msgspec.structs.replace(queue, phase=Phase.SILENT, reason="only one source was asked")
    if done and record is not None:
        return msgspec.structs.replace(told, phase=Phase.COMPLETED, nodes=record.host, start=float(record.began))
    return msgspec.structs.replace(told, phase=Phase.GONE, reason=NEVER_BEGAN if record is None else NO_TRACE)


def _best(queue: JobState, accounts: JobState | None) -> JobState:
    """The accounts say more (exit code, who cancelled), the queue is newer."""
    if accounts is not None and accounts.phase in ENDED and (queue.phase not in ENDED or accounts.phase is queue.phase):
        return accounts
    return queue


def _joined(kept: JobState, told: JobState) -> JobState:
    """The keeper's word, with what only the scheduler knows."""
    phase = kept.phase
    if told.phase in (Phase.FAILED, Phase.CANCELLED) and phase is Phase.COMPLETED:
        phase = told.phase  # an agent that was asked to end did so in good order
    return msgspec.structs.replace(
        kept,
        phase=phase,
        name=told.name,
        nodes=told.nodes or kept.nodes,
        limit=told.limit,
        by=told.by,
        exit_code=kept.exit_code if kept.exit_code is not None or phase is not Phase.FAILED else told.exit_code,
        signal=told.signal,
    )
