"""Reads what jobs and their runs have left on a site: records and logs of jobs; journals and specs of runs, where no
agent serves any more, or none can be reached."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from clew_gui.schedulers.job import SCHEDULER_LOG
from clew_gui.schedulers.verdict import ExitRecord, parse_record
from clew_gui.sites.many_files import FilePiece, file_sizes, read_pieces
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Seal, State
from clew_shared.journal.frames import FrameReader, Record
from clew_shared.wire.messages import MAX_FETCH_BYTES, Fetched

_MOST_RECORDS: Final = 200
"""A job that is requeued writes another record each time."""
_RECORD_BYTES: Final = 65536
_PRINTED_BYTES: Final = 16384
_READ_S = 30.0
"""Seconds for one piece of a file: a network disk may make a login node wait."""
_SPEC_BYTES = 1 << 20
_END_BYTES = 64 * 1024
"""The last state and the seal, which are the last of all, are a few hundred."""
MOST_ATTEMPTS = 9999


# --- Of a job ---------------------------------------------------------------------------------------------------------


def read_records(connection: SiteConnection, jobs: Sequence[str]) -> dict[str, ExitRecord]:
    """Reads the latest record that each job's keeper has left, by job; nothing of a job that has none.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    folders = {connection.layout().job(job): job for job in jobs}
    wanted = list[FilePiece]()
    for folder, sizes in zip(folders, file_sizes(connection, [*folders], "record.[0-9]*"), strict=True):
        if isinstance(sizes, ProblemError):
            raise sizes
        for name in takewhile(sizes.__contains__, (f"record.{number}" for number in range(_MOST_RECORDS))):
            wanted.append(FilePiece(f"{folder}/{name}", 0, min(sizes[name], _RECORD_BYTES)))
    found: dict[str, ExitRecord] = {}
    for piece, data in read_pieces(connection, wanted):
        if isinstance(data, ProblemError):
            raise data
        job = folders[piece.path.rpartition("/")[0]]
        record = parse_record(data.decode(errors="replace"), job)
        if record is None:  # the keeper may just have written a longer one
            again = connection.ssh.read(piece.path, 0, _RECORD_BYTES, timeout=_READ_S)
            record = parse_record(again.decode(errors="replace"), job)
        found |= {job: record} if record is not None else {}
    return found


def read_printed(connection: SiteConnection, job: str, log: str = SCHEDULER_LOG) -> str:
    """The end of what the scheduler wrote into the job's output, or of another log in its folder; empty when there is
    nothing that can be read.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    path = f"{connection.layout().job(job)}/{log}"
    try:
        found = connection.ssh.stat(path)
        start = max(0, found.size - _PRINTED_BYTES) if found is not None else 0
        data = connection.ssh.read(path, start, _PRINTED_BYTES) if found is not None else b""
    except ProblemError as error:
        if error.problems[0].code != "ssh.file":
            raise
        return ""
    return data.decode(errors="replace")


# --- Of a run ---------------------------------------------------------------------------------------------------------


def fetch_journal(
    connection: SiteConnection, run: str, attempt: int, offset: int, known: int, over: bool
) -> Fetched | None:
    """Reads at most 256 KiB of one journal from ``offset`` on; None if there is no such journal. ``known`` is how many
    attempts of the run are known. If the job is ``over`` no file grows any more.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    path = connection.layout().journal(run, attempt)
    state = connection.ssh.stat(path, timeout=_READ_S)
    if state is None or state.folder:
        return None
    left = min(MAX_FETCH_BYTES, state.size - offset)
    data = connection.ssh.read(path, offset, left, timeout=_READ_S) if left > 0 else b""
    whole = offset + len(data) >= state.size  # before that nobody asks for a later attempt
    least = max(known, attempt)
    attempts = _count_attempts(connection, run, least) if whole else least
    return Fetched(
        run=run,
        attempt=attempt,
        offset=offset,
        data=data,
        size=state.size,
        attempts=attempts,
        sealed=over or attempt < attempts,
    )


def _count_attempts(connection: SiteConnection, run: str, least: int = 0) -> int:
    """Counts the run's attempts, of which ``least`` are known; they are numbered without gaps."""
    count, layout = least, connection.layout()
    while count < MOST_ATTEMPTS and connection.ssh.stat(layout.journal(run, count + 1), timeout=_READ_S):
        count += 1
    return count


def ended_at(connection: SiteConnection, run: str) -> float | None:
    """Returns when a run's latest attempt ended, by its node's clock; None while its journal there has no seal.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    attempt = _count_attempts(connection, run)
    path = connection.layout().journal(run, attempt)
    state = connection.ssh.stat(path, timeout=_READ_S) if attempt else None
    if state is None:
        return None
    reader = FrameReader(max(0, state.size - _END_BYTES))
    data = connection.ssh.read(path, reader.offset, _END_BYTES, timeout=_READ_S)
    events = [found.event for found in (*reader.feed(data), *reader.finish()) if isinstance(found, Record)]
    if not events or not isinstance(events[-1], Seal):
        return None
    return next((event.time for event in reversed(events) if isinstance(event, State)), None)


def read_spec_text(connection: SiteConnection, folder: str) -> str | None:
    """The spec in a run folder on the site, unchanged; None if there is none."""
    path = f"{folder}/spec.toml"
    if connection.ssh.stat(path, timeout=_READ_S) is None:
        return None
    return connection.ssh.read(path, 0, _SPEC_BYTES, timeout=_READ_S).decode(errors="replace")
