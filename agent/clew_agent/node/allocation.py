"""The job around this process: which one it is, its folder, and when its time is up. No TensorFlow."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_shared.base.file_names import is_uuid
from clew_shared.base.problem import Problem

_log = logging.getLogger(__name__)

JOB, FOLDER, UNTIL = "CLEW_JOB", "CLEW_JOB_FOLDER", "CLEW_JOB_UNTIL"
_RESTART = "CLEW_JOB_RESTART"
"""The variable that the batch script's keeper sets."""
_SLURM_UNTIL, _SLURM_RESTART = "SLURM_JOB_END_TIME", "SLURM_RESTART_COUNT"
"""The variables for a batch script without a keeper."""
_MOST_RECORD = 64 * 1024
_OUTPUT, _MOST_OUTPUT = "scheduler.log", 16 * 1024
"""The job's output in its folder: Slurm writes into it that the time is up before it asks anybody to end."""
_TIME_IS_UP = re.compile(rb"DUE TO TIME LIMIT|job killed: walltime")
"""Slurm's words for that, and those of PBS."""


class Allocation(msgspec.Struct, frozen=True):
    """``job`` is our own UUID of it (empty: none), ``folder`` its folder on the shared file system, ``until`` the
    second since 1970 at which the scheduler ends it (0: unknown), ``restart`` how often it was queued again."""

    job: str = ""
    folder: Path | None = None
    until: float = 0.0
    restart: int = 0

    @property
    def runs(self) -> Path | None:
        """Specs that the job's agent begins by itself."""
        return self.folder / "runs" if self.folder is not None else None

    def record(self) -> dict[str, str]:
        """Reads what the keeper has written down so far: ``began``, ``until``, ``why`` it ends, and how much the
        scheduler had ``said`` before this start of the job. Empty without a keeper."""
        if self.folder is None:
            return {}
        try:
            with (self.folder / f"record.{self.restart}").open(encoding="utf-8", errors="replace") as file:
                pairs = (line.partition("=") for line in file.read(_MOST_RECORD).splitlines())
                return {name: value for name, equals, value in pairs if equals}
        except OSError:
            return {}

    def note_served(self) -> None:
        """Tells the keeper that the agent has served: from now on it is started again when it crashes."""
        if self.folder is not None:
            with suppress(OSError):  # then it is not, which a full disk would prevent anyway
                (self.folder / f"served.{self.restart}").touch()

    def ending(self) -> str | None:
        """Returns why the job is being ended: the keeper's word, or ``time`` as soon as the scheduler has said so,
        which may ask everybody at once. Empty while the job goes on, None without a keeper."""
        record = self.record()
        why = record.get("why")
        return "time" if why is not None and self._time_is_up(_count(record.get("said", ""))) else why

    def _time_is_up(self, said: int) -> bool:
        """Whether the scheduler says that the time is up, whatever end it named when the job began. Its output had
        ``said`` bytes before."""
        if self.folder is None:
            return False
        try:
            with (self.folder / _OUTPUT).open("rb") as file:
                file.seek(max(said, file.seek(0, os.SEEK_END) - _MOST_OUTPUT))
                return _TIME_IS_UP.search(file.read(_MOST_OUTPUT)) is not None
        except OSError:
            return False

    @property
    def incarnation(self) -> str:
        """Returns another text each time the scheduler starts the job, the same for all agents that the keeper starts
        then."""
        return f"{self.restart}:{self.record().get('began', '')}:{self.until:.0f}"


def read_allocation(environment: Mapping[str, str] = os.environ) -> Allocation:
    """The job that ``environment`` names. A bad value is logged and ignored."""
    found: list[Problem] = []
    allocation = Allocation(
        job=_job(environment.get(JOB, ""), found),
        folder=_folder(environment.get(FOLDER, ""), found),
        until=_until(environment.get(UNTIL, ""), UNTIL, found) or _until(environment.get(_SLURM_UNTIL, ""), "", found),
        restart=_count(environment.get(_RESTART, environment.get(_SLURM_RESTART, ""))),
    )
    for problem in found:
        _log.warning("%s", problem)
    return allocation


def _job(text: str, found: list[Problem]) -> str:
    if not text or is_uuid(text):
        return text
    found.append(_bad(JOB, text, "that is not a UUID"))
    return ""


def _folder(text: str, found: list[Problem]) -> Path | None:
    path = Path(text)
    if not text or (path.is_absolute() and path.is_dir()):
        return path if text else None
    found.append(_bad(FOLDER, text, "there is no such folder"))
    return None


def _until(text: str, name: str, found: list[Problem]) -> float:
    """The time in ``text``, 0 when it is none. Without a ``name`` the variable is the scheduler's, and not ours to
    judge."""
    try:
        number = float(text or 0)
    except ValueError:
        number = math.nan
    if math.isfinite(number) and number >= 0:
        return number
    if name:
        found.append(_bad(name, text, "that is not a time in seconds since 1970"))
    return 0.0


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _bad(name: str, value: str, why: str) -> Problem:
    text = f"The environment variable {name} is {value[:80]!r}, and {why}."
    return Problem("job.environment", text, "It is ignored. The job's script sets it.", name)
