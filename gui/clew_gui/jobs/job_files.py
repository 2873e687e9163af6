"""Reads what a job has left in its folder on the site."""

from __future__ import annotations

from typing import Final

from clew_gui.schedulers.job import SCHEDULER_LOG
from clew_gui.schedulers.verdict import ExitRecord, parse_record
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError

_MOST_RECORDS: Final = 200
"""A job that is requeued writes another record each time."""
_PRINTED_BYTES: Final = 16384


def read_record(connection: SiteConnection, job: str) -> ExitRecord | None:
    """Reads the latest record that the job's keeper has left; None if there is none.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    folder, latest = connection.layout().job(job), None
    for number in range(_MOST_RECORDS):
        path = f"{folder}/record.{number}"
        if connection.connection.stat(path) is None:
            break
        latest = parse_record(connection.connection.read(path, 0, 65536).decode(errors="replace"), job) or latest
    return latest


def read_printed(connection: SiteConnection, job: str, log: str = SCHEDULER_LOG) -> str:
    """The end of what the scheduler wrote into the job's output, or of another log in its folder; empty when there is
    nothing that can be read.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    path = f"{connection.layout().job(job)}/{log}"
    try:
        found = connection.connection.stat(path)
        start = max(0, found.size - _PRINTED_BYTES) if found is not None else 0
        data = connection.connection.read(path, start, _PRINTED_BYTES) if found is not None else b""
    except ProblemError as error:
        if error.problems[0].code != "ssh.file":
            raise
        return ""
    return data.decode(errors="replace")
