"""One run folder as the supervisor follows it: the fold of its latest attempt, read as the journal grows."""

from __future__ import annotations

from pathlib import Path

from clew_shared.events import Attempt, Seal
from clew_shared.journal import FrameReader, Record
from clew_shared.lifecycle import RunFold, RunState
from clew_shared.messages import MAX_FETCH_BYTES, Fetched, RunStatus
from clew_shared.problem import problem
from clew_shared.runfolder import RunFolder
from clew_shared.spec import RunSpec

_READ_AT_ONCE = 1 << 20
"""Bytes folded in one turn of the loop, so that a long journal delays nobody's answer."""
_ENDS = 64 * 1024
"""Of a sealed journal only so much is read at each end."""


class TrackedRun:
    """Follows one run. ``fold`` is its latest attempt's; ``host``, ``boot`` and ``pid`` are what that attempt says."""

    def __init__(self, folder: RunFolder, spec: RunSpec) -> None:
        self.folder = folder
        self.spec = spec
        self.run = folder.path.name
        self.fold = RunFold()
        self.attempt = 0
        self.size = 0
        self.host = self.boot = ""
        self.pid = 0
        self.started = 0.0
        self.problem_text = ""
        """Why a run failed of which there is no journal."""
        self.cancelled = False
        self.wanted = 0
        """The attempt that was started last."""
        self._reader = FrameReader()
        self._read = 0

    @property
    def live(self) -> bool:
        """Whether its journal may still grow."""
        return self.attempt > 0 and not self.fold.sealed

    def adopt(self) -> None:
        """Catch up with a run that existed before; a sealed journal is read at its two ends only."""
        self.attempt = max(self.folder.attempts(), default=0)
        if self.attempt and not self._adopt_sealed():
            self._open(self.attempt)

    def refresh(self) -> bool:
        """Read what is new, at most 1 MiB; whether something changed that a viewer's list shows."""
        before = (self.fold.state, self.fold.reason, self.attempt, self.fold.sealed)
        if self.folder.journal(self.attempt + 1).exists():
            self._open(self.attempt + 1)
        if self.attempt:
            self._read_on()
        return before != (self.fold.state, self.fold.reason, self.attempt, self.fold.sealed)

    @property
    def behind(self) -> bool:
        """Whether there is more to read than one turn allowed."""
        return self.size > self._read

    def has_news(self, attempt: int, offset: int) -> bool:
        """Whether a fetch from ``offset`` has something to bring: bytes, the end of that file, or a later attempt."""
        if attempt < self.attempt:
            return True
        try:
            size = self.folder.journal(attempt).stat().st_size
        except OSError:
            size = 0
        return size != offset or (attempt == self.attempt and self.fold.sealed and not self.behind)

    def fetch(self, attempt: int, offset: int) -> Fetched:
        """What the journal file of ``attempt`` holds from ``offset`` on, at most 256 KiB; no data for a file to come.

        Raises ``ProblemError`` for an offset behind the end and for a file that cannot be read.
        """
        data, size = b"", 0
        try:
            with self.folder.journal(attempt).open("rb") as file:
                size = file.seek(0, 2)
                file.seek(offset)
                data = file.read(MAX_FETCH_BYTES)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise problem("fetch.read", f"Cannot read the journal of run {self.run}: {error}.") from None
        if offset > size:
            text = f"The journal of attempt {attempt} has {size} bytes; byte {offset} was asked for."
            raise problem("fetch.offset", text, "Remove the mirror of this run and fetch it anew.")
        size = max(size, offset + len(data))  # it may have grown in between
        sealed = attempt < self.attempt or (attempt == self.attempt and self.fold.sealed and not self.behind)
        return Fetched(
            run=self.run,
            attempt=attempt,
            offset=offset,
            data=data,
            size=size,
            attempts=max(self.attempt, attempt if size else 0),
            sealed=sealed,
        )

    def status(self, position: int, starting: bool) -> RunStatus:
        """Its line in a viewer's list; ``position`` in the queue, ``starting`` when its processes come up."""
        state, reason = self.fold.state, self.fold.reason
        if position:
            state, reason = RunState.QUEUED, ""
        elif starting:
            state, reason = RunState.STARTING, ""
        elif not self.attempt and self.problem_text:
            state, reason = RunState.FAILED, self.problem_text
        elif not self.attempt:
            state, reason = RunState.STOPPED, "Taken out of the queue." if self.cancelled else ""
        return RunStatus(
            run=self.run,
            exercise=self.spec.exercise,
            state=state,
            attempt=self.attempt,
            size=self.size,
            name=self.spec.name,
            step=self.fold.step,
            steps=self.fold.steps,
            queue=position,
            started=self.fold.started,
            reason=reason,
        )

    def _open(self, attempt: int) -> None:
        self.attempt = attempt
        self.size = self._read = 0
        self._reader = FrameReader()

    def _read_on(self) -> None:
        path = self.folder.journal(self.attempt)
        try:
            self.size = path.stat().st_size
            if self.size <= self._read:
                return
            with path.open("rb") as file:
                file.seek(self._read)
                data = file.read(_READ_AT_ONCE)
        except OSError:
            return  # it is there again at the next turn, or the folder is gone and the registry drops the run
        self._read += len(data)
        self._take(self._reader, data)

    def _take(self, reader: FrameReader, data: bytes) -> None:
        for item in reader.feed(data):
            if isinstance(item, Record):
                if isinstance(item.event, Attempt):
                    self._note(item.event)
                self.fold.feed(self.attempt, item.event)

    def _note(self, event: Attempt) -> None:
        self.host, self.boot, self.pid, self.started = event.host, event.boot, event.pid, event.time

    def _adopt_sealed(self) -> bool:
        """Fold the two ends of a journal that ends with its seal; False when it does not."""
        head, tail, size = _ends(self.folder.journal(self.attempt))
        reader = FrameReader(size - len(tail))
        last = [item for item in reader.feed(tail) if isinstance(item, Record)]
        if not last or not isinstance(last[-1].event, Seal) or reader.offset != size:
            return False
        self._take(FrameReader(), head)
        for item in last:
            self.fold.feed(self.attempt, item.event)
        self.size = self._read = size
        return True


def _ends(path: Path) -> tuple[bytes, bytes, int]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            head = file.read(_ENDS)
            file.seek(max(0, size - _ENDS))
            return head, file.read(size - file.tell()), size
    except OSError:
        return b"", b"", 0
