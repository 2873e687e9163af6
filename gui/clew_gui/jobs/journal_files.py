"""Journals of runs as files on a site: where no agent serves any more, or none can be reached."""

from __future__ import annotations

from collections.abc import Callable

from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Seal, State
from clew_shared.journal.frames import FrameReader, Record
from clew_shared.spec import RunSpec, from_toml
from clew_shared.wire.messages import MAX_FETCH_BYTES, Fetched

_READ_S = 30.0
"""Seconds for one piece of a file: a network disk may make a login node wait."""
_SPEC_BYTES = 1 << 20
_END_BYTES = 64 * 1024
"""The last state and the seal, which are the last of all, are a few hundred."""
MOST_ATTEMPTS = 9999


class SiteJournals:
    """A ``JournalFiles`` over SFTP. ``over`` says whether the job has ended: then no file grows any more."""

    def __init__(self, line: Callable[[], SiteConnection], over: Callable[[], bool]) -> None:
        self._line = line
        self._over = over
        self._attempts: dict[str, int] = {}

    def fetch(self, run: str, attempt: int, offset: int) -> Fetched | None:
        """See ``JournalFiles.fetch``: at most 256 KiB of one journal."""
        line = self._line()
        over = self._over()  # before the file is looked at: what is written meanwhile is not the end
        path = line.layout().journal(run, attempt)
        state = line.connection.stat(path, timeout=_READ_S)
        if state is None or state.folder:
            return None
        left = min(MAX_FETCH_BYTES, state.size - offset)
        data = line.connection.read(path, offset, left, timeout=_READ_S) if left > 0 else b""
        whole = offset + len(data) >= state.size  # before that nobody asks for a later attempt
        attempts = self._count(line, run, attempt) if whole else max(self._attempts.get(run, 0), attempt)
        return Fetched(
            run=run,
            attempt=attempt,
            offset=offset,
            data=data,
            size=state.size,
            attempts=attempts,
            sealed=over or attempt < attempts,
        )

    def spec(self, run: str) -> RunSpec | None:
        """See ``JournalFiles.spec``."""
        line = self._line()
        text = read_spec_text(line, line.layout().run(run))
        try:
            return from_toml(text, "") if text is not None else None
        except ProblemError:
            return None

    def _count(self, line: SiteConnection, run: str, least: int) -> int:
        """Counts the run's attempts; they are numbered without gaps."""
        count = max(self._attempts.get(run, 0), least)
        while count < MOST_ATTEMPTS and line.connection.stat(line.layout().journal(run, count + 1), timeout=_READ_S):
            count += 1
        self._attempts[run] = count
        return count


def ended_at(line: SiteConnection, run: str) -> float | None:
    """Returns when a run's latest attempt ended, by its node's clock; None while its journal there has no seal.

    Raises ``ProblemError`` when the site cannot be reached.
    """
    attempt = 0
    while attempt < MOST_ATTEMPTS and line.connection.stat(line.layout().journal(run, attempt + 1), timeout=_READ_S):
        attempt += 1
    path = line.layout().journal(run, attempt)
    state = line.connection.stat(path, timeout=_READ_S) if attempt else None
    if state is None:
        return None
    reader = FrameReader(max(0, state.size - _END_BYTES))
    data = line.connection.read(path, reader.offset, _END_BYTES, timeout=_READ_S)
    events = [found.event for found in (*reader.feed(data), *reader.finish()) if isinstance(found, Record)]
    if not events or not isinstance(events[-1], Seal):
        return None
    return next((event.time for event in reversed(events) if isinstance(event, State)), None)


def read_spec_text(line: SiteConnection, folder: str) -> str | None:
    """The spec in a run folder on the site, unchanged; None if there is none."""
    path = f"{folder}/spec.toml"
    if line.connection.stat(path, timeout=_READ_S) is None:
        return None
    return line.connection.read(path, 0, _SPEC_BYTES, timeout=_READ_S).decode(errors="replace")
