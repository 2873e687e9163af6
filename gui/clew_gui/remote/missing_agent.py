"""A job runs, and its agent does not say where it listens: for how long, and what the job's own log says to that."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

from clew_gui.remote.job_submitter import read_printed
from clew_gui.remote.prompts import plain
from clew_gui.remote.schedulers.job import LOG, SCHEDULER_LOG
from clew_gui.remote.site_line import SiteLine

PATIENCE_S = 120.0
"""Modules on a busy file system and a first import take their time; after that something is the matter."""
_AGAIN_S = 30.0
_LINES = 3
_CHARACTERS = 300
_SOON = "The job runs; its agent is coming up."


class MissingAgent:
    """Counts the time in which the job is known to run without an agent, and puts it into words.

    One thread calls ``look``, ``pause`` and ``end``; ``text`` may be read by others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.text = _SOON
        """Why nobody serves, in sentences."""
        self._clock = clock
        self._missed = 0.0
        self._looked: float | None = None
        self._read: float | None = None

    def look(self, line: SiteLine, job: str) -> None:
        """The scheduler says that the job runs, and there is no agent. After two minutes of that the job's log is read,
        which may wait. Raises ``ProblemError`` when the site cannot be reached."""
        now = self._clock()
        if self._looked is not None:
            self._missed += now - self._looked
        self._looked = now
        if self._missed < PATIENCE_S or (self._read is not None and now - self._read < _AGAIN_S):
            return
        self.text = _sentences(line, job)
        self._read = now

    def pause(self) -> None:
        """Nobody knows now: what passes until the next look does not count."""
        self._looked = None

    def end(self) -> None:
        """The job does not run, or has its agent."""
        self.text, self._missed = _SOON, 0.0
        self._looked = self._read = None


def _sentences(line: SiteLine, job: str) -> str:
    folder = line.layout().job(job)
    missing = f"The job has run for more than {PATIENCE_S / 60:.0f} minutes without its agent."
    doctor = f"`clew site doctor {shlex.quote(line.name)} --job` tries a node"
    for log in (LOG, SCHEDULER_LOG):
        if last := _last_lines(read_printed(line, job, log)):
            said = f"Its log, {folder}/{log} on {line.title}, ends with: {last.rstrip('.')}."
            return f"{missing} {said} Mend that, or cancel the job; {doctor}."
    said = f"Nothing is in its log yet, {folder}/{LOG} on {line.title}."
    why = "Look for what takes so long in the site's modules, its prologue or ~/.bashrc there"
    return f"{missing} {said} {why}, or cancel the job; {doctor}."


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in plain(text, len(text)).splitlines() if line.strip()]
    return " ".join(lines[-_LINES:])[-_CHARACTERS:]
