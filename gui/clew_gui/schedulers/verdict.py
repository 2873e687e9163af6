"""Concludes how a job ended, from all that is known: the queue, the accounts, and the exit record that the job's keeper
leaves."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from clew_gui.schedulers.state import ENDED, ON_NODE, JobState, Phase

_LINE = re.compile(r"([a-z]{1,16})=([^\n\0]{0,300})")
_NUMBERS = ("restart", "starts", "began", "until", "written")
NAME = re.compile(r"record\.[0-9]{1,6}")
"""Files in the job's folder that are records: one for each time that the scheduler started the job."""


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record that a job's keeper leaves. ``state`` is running, ending or ended; ``why`` one of finished, time,
    terminated, absent, refused, crashing, module, ended.

    Times are seconds since 1970 by the node's clock; ``until`` is when the scheduler ends the job, 0 if not known.
    ``code`` is the agent's last exit code, ``detail`` the module, or for absent, refused and crashing what was printed
    last, for the last two after the exit code.
    """

    job: str
    state: str
    why: str = ""
    detail: str = ""
    id: str = ""
    host: str = ""
    restart: int = 0
    starts: int = 0
    began: int = 0
    until: int = 0
    written: int = 0
    code: int | None = None


def parse_record(text: str, job: str) -> ExitRecord | None:
    """The record of the job with the UUID ``job``; None when the text is none, is torn, or is another job's."""
    values = {match[1]: match[2] for line in text.split("\n") if (match := _LINE.fullmatch(line))}
    if values.get("job") != job or values.get("state") not in ("running", "ending", "ended") or "code" not in values:
        return None
    words: dict[str, Any] = {name: values.get(name, "") for name in ("state", "why", "detail", "id", "host")}
    numbers: dict[str, Any] = {name: _number(values.get(name, "")) or 0 for name in _NUMBERS}
    return ExitRecord(job=job, code=_number(values["code"]), **words, **numbers)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


_PHASES = {
    "finished": Phase.COMPLETED,
    "time": Phase.TIMED_OUT,
    "terminated": Phase.CANCELLED,
    "absent": Phase.FAILED,
    "refused": Phase.FAILED,
    "crashing": Phase.FAILED,
    "module": Phase.FAILED,
    "ended": Phase.FAILED,
}


def state_of_record(record: ExitRecord, job_id: str) -> JobState | None:
    """Returns what the record says of the job's end; None while it has not ended, as far as the record shows.

    The scheduler ends a job in the same way when its time is up and when it was cancelled: the clock tells them apart.
    """
    if record.state == "running":
        return None
    phase = _PHASES.get(record.why, Phase.FAILED)
    if phase is Phase.CANCELLED and record.until and record.written >= record.until - 5:
        phase = Phase.TIMED_OUT
    end = float(record.written) if record.state == "ended" else None
    reason = f"keeper: {record.why}{' ' + record.detail if record.detail else ''}"
    code = None if phase in (Phase.COMPLETED, Phase.TIMED_OUT, Phase.CANCELLED) else record.code
    return JobState(
        id=job_id, phase=phase, reason=reason, nodes=record.host, start=float(record.began), end=end, exit_code=code
    )


# --- Verdict ----------------------------------------------------------------------------------------------------------
# What became of a job, from all that is known: the queue, the accounts, and the record that its keeper left.


NO_TRACE = "no trace"
"""Reason of a job that is gone although its record says that it was running: nobody saw it end."""
NEVER_BEGAN = "never began"
"""Reason of a job that is gone and has no record: as far as anybody knows it never ran."""
_CERTAIN = frozenset({Phase.OUT_OF_MEMORY, Phase.NODE_FAILED, Phase.TIMED_OUT})
"""The ends that the scheduler knows better than the keeper, which was only asked to end, or not even that."""


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
    out_of_memory: bool = False,
    done: bool = False,
) -> JobState:
    """Returns how the job ended, with what the accounts say that it used; a state that is not over is returned as it
    is.

    ``looked`` says that the record was looked for and that ``record`` is what there was. Without that a job of which
    the scheduler knows nothing is SILENT, not GONE: one source alone does not end a job. ``out_of_memory`` says that
    the scheduler wrote so into the job's output. ``done`` says that all its runs have ended in it: then it has done its
    work, although nobody saw it end.
    """
    if queue.phase not in ENDED and queue.phase is not Phase.GONE:
        return queue
    if accounts is not None:
        queue = msgspec.structs.replace(queue, use=accounts.use)
    reported = _best(queue, accounts)
    kept = state_of_record(record, queue.id) if record is not None else None
    if kept is not None and reported.phase not in _CERTAIN:
        return _joined(kept, reported)
    if reported.phase is Phase.FAILED and out_of_memory:
        return msgspec.structs.replace(reported, phase=Phase.OUT_OF_MEMORY)
    if reported.phase in ENDED:
        return reported
    if not looked:
        return msgspec.structs.replace(queue, phase=Phase.SILENT, reason="only one source was asked")
    if done and record is not None:
        return msgspec.structs.replace(reported, phase=Phase.COMPLETED, nodes=record.host, start=float(record.began))
    return msgspec.structs.replace(reported, phase=Phase.GONE, reason=NEVER_BEGAN if record is None else NO_TRACE)


def _best(queue: JobState, accounts: JobState | None) -> JobState:
    """The accounts say more (exit code, who cancelled), the queue is newer."""
    if accounts is not None and accounts.phase in ENDED and (queue.phase not in ENDED or accounts.phase is queue.phase):
        return accounts
    return queue


def _joined(kept: JobState, reported: JobState) -> JobState:
    """Joins the keeper's word with what only the scheduler knows."""
    phase = kept.phase
    if reported.phase in (Phase.FAILED, Phase.CANCELLED) and phase is Phase.COMPLETED:
        phase = reported.phase  # an agent that was asked to end did so in good order
    return msgspec.structs.replace(
        kept,
        phase=phase,
        name=reported.name,
        nodes=reported.nodes or kept.nodes,
        limit=reported.limit,
        by=reported.by,
        exit_code=kept.exit_code if kept.exit_code is not None or phase is not Phase.FAILED else reported.exit_code,
        signal=reported.signal,
        use=reported.use,
    )
