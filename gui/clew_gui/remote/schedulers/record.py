"""The exit record that a job's keeper leaves in the job's folder: many sites keep no accounts of what has ended."""

from __future__ import annotations

import re

import msgspec

from clew_gui.remote.schedulers.state import JobState, Phase

_LINE = re.compile(r"([a-z]{1,16})=([^\n\0]{0,300})")
NAME = re.compile(r"record\.[0-9]{1,6}")
"""Files in the job's folder that are records: one for each time that the scheduler started the job."""


class ExitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``state`` is running, ending or ended; ``why`` one of finished, time, terminated, absent, crashing, module,
    ended.

    Times are seconds since 1970 by the node's clock; ``until`` is when the scheduler ends the job, 0 if not known.
    ``code`` is the agent's last exit code.
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
    values = {match[1]: match[2] for line in text.splitlines() if (match := _LINE.fullmatch(line))}
    if values.get("job") != job or values.get("state") not in ("running", "ending", "ended") or "code" not in values:
        return None
    return ExitRecord(
        job=job,
        state=values["state"],
        why=values.get("why", ""),
        detail=values.get("detail", ""),
        id=values.get("id", ""),
        host=values.get("host", ""),
        code=_number(values["code"]),
        restart=_number(values.get("restart", "")) or 0,
        starts=_number(values.get("starts", "")) or 0,
        began=_number(values.get("began", "")) or 0,
        until=_number(values.get("until", "")) or 0,
        written=_number(values.get("written", "")) or 0,
    )


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


_PHASES = {
    "finished": Phase.COMPLETED,
    "time": Phase.TIMED_OUT,
    "terminated": Phase.CANCELLED,
    "absent": Phase.FAILED,
    "crashing": Phase.FAILED,
    "module": Phase.FAILED,
    "ended": Phase.FAILED,
}


def state_of_record(record: ExitRecord, job_id: str) -> JobState | None:
    """What the record says of the job's end; None while it has not ended, as far as the record tells.

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
