"""A run folder as the supervisor follows it: the fold of its latest attempt, read as the journal grows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from clew_shared.base import operating_system
from clew_shared.base.problem import os_refused, problem
from clew_shared.journal.events import Attempt, Seal
from clew_shared.journal.files import Damage, FrameReader, Record, ends_sealed
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import MAX_FETCH_BYTES, Fetched, RunStatus

_READ_AT_ONCE = 1 << 20
"""Bytes folded in one turn of the loop, so that a long journal delays nobody's answer."""
_ENDS = 64 * 1024
"""Number of bytes that are read at each end of a sealed journal."""


class TrackedRun:
    """Follows one run. ``fold`` and the fields from ``host`` to ``devices`` come from its latest attempt."""

    def __init__(self, folder: RunFolder, spec: RunSpec, run: str = "") -> None:
        self.folder = folder
        self.spec = spec
        self.run = run or folder.path.name
        self.fold = RunFold()
        self.attempt = 0
        self.host = self.boot = self.job = ""
        self.pid = 0
        self.started = 0.0
        self.devices: tuple[str, ...] = ()
        self.problem_text = ""
        """The reason why the attempt that was started last has no journal."""
        self.cancelled = False
        self.wanted = 0
        """The attempt that was started last."""
        self._reader = FrameReader()
        self._read = 0
        self._length = 0

    @property
    def size(self) -> int:
        """Bytes of the latest attempt's journal that will stay as they are: of one that may still grow, its whole
        frames. What comes after them is a frame that is being written, or one that a full disk has the writer take
        back."""
        return self._length if self._ended else self._reader.offset

    @property
    def _ended(self) -> bool:
        return self._sealed and not self.has_more

    @property
    def live(self) -> bool:
        """Whether its journal may still grow."""
        return self.attempt > 0 and not self._sealed

    @property
    def elsewhere(self) -> bool:
        """Whether its latest attempt is another node's, of whose processes nothing is known here."""
        return self.host not in ("", operating_system.host_name())

    @property
    def done(self) -> bool:
        """Whether the latest attempt has said how it ended. One whose first frame has not come yet has not, whatever
        the attempt before it said."""
        return self.fold.done and self.fold.attempt == self.attempt

    @property
    def _sealed(self) -> bool:
        return self.fold.sealed and self.fold.attempt == self.attempt

    @property
    def beginning(self) -> bool:
        """Whether its first attempt is running and has recorded no point yet."""
        return self.attempt == 1 and not self.fold.done and self.fold.step == 0

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
    def has_more(self) -> bool:
        """Whether there is more to read than one turn allowed."""
        return self._length > self._read

    def has_news(self, attempt: int, offset: int) -> bool:
        """Whether a fetch from ``offset`` has something to bring: bytes, the end of that file, or a refusal."""
        if attempt < self.attempt:
            return True
        there = self._lasting(attempt)
        return offset < there or (attempt == self.attempt and self._ended) or offset > self._length_of(attempt)

    def _lasting(self, attempt: int) -> int:
        """Returns how many bytes of an attempt's journal can be handed out."""
        if attempt == self.attempt:
            return self.size
        return self._length_of(attempt) if attempt < self.attempt else 0

    def _length_of(self, attempt: int) -> int:
        try:
            return self.folder.journal(attempt).stat().st_size
        except OSError:
            return 0

    def fetch(self, attempt: int, offset: int) -> Fetched:
        """Returns what will stay in the journal file of ``attempt`` from ``offset`` on, at most 256 KiB; maybe nothing
        yet.

        Raises ``ProblemError`` for an offset beyond the file's end and for a file that cannot be read.
        """
        length, size = self._length_of(attempt), self._lasting(attempt)
        if offset > length:
            text = f"The journal of attempt {attempt} has {length} bytes; byte {offset} was asked for."
            raise problem("fetch.offset", text, "Remove the mirror of this run and fetch it again.")
        data = self._bytes(attempt, offset, min(size - offset, MAX_FETCH_BYTES)) if offset < size else b""
        sealed = attempt < self.attempt or (attempt == self.attempt and self._ended)
        return Fetched(
            run=self.run,
            attempt=attempt,
            offset=offset,
            data=data,
            size=size,
            attempts=max(self.attempt, attempt if size else 0),
            sealed=sealed,
        )

    def _bytes(self, attempt: int, offset: int, count: int) -> bytes:
        refused = os_refused("fetch.read", f"Cannot read the journal of run {self.run}")
        with refused, self.folder.journal(attempt).open("rb") as file:
            file.seek(offset)
            return file.read(count)

    def status(self, position: int, starting: bool, devices: tuple[str, ...] = ()) -> RunStatus:
        """Its line in a viewer's list; ``position`` in the queue, ``starting`` when its processes come up, ``devices``
        the names of those that it has now, if any."""
        state, reason = self.fold.state, self.fold.reason
        if position:
            state, reason = RunState.QUEUED, ""
        elif starting or self.attempt > self.fold.attempt:  # its journal is there, and not yet the first frame
            state, reason = RunState.STARTING, ""
        elif self.problem_text:
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
            devices=devices or (() if position else self.devices),
        )

    def _open(self, attempt: int) -> None:
        self.attempt, self.problem_text = attempt, ""
        self._length = self._read = 0
        self._reader = FrameReader()

    def _read_on(self) -> None:
        path = self.folder.journal(self.attempt)
        try:
            self._length = path.stat().st_size
            if self._length <= self._reader.offset:
                return
            with path.open("rb") as file:
                start = file.seek(self._reader.rewind())
                data = file.read(_READ_AT_ONCE)
        except OSError:
            self._length = self._read  # it is there again at the next turn, or the registry drops the run
            return
        self._read = start + len(data)
        self._length = max(self._length, self._read)  # it may have grown since, as far as its seal
        self._take(self._reader.feed(data))
        if self._reader.missing and ends_sealed(path, self._read):
            self._take(self._reader.finish())  # a damaged length promises bytes that will never come

    def _take(self, items: Iterable[Record | Damage]) -> None:
        for item in items:
            if isinstance(item, Record):
                if isinstance(item.event, Attempt):
                    self._note(item.event)
                self.fold.feed(self.attempt, item.event)

    def _note(self, event: Attempt) -> None:
        self.host, self.boot, self.pid, self.started = event.host, event.boot, event.pid, event.time
        self.job, self.devices = event.job, event.devices

    def _adopt_sealed(self) -> bool:
        """Fold the two ends of a journal that ends with its seal; False when it does not."""
        head, tail, size = _ends(self.folder.journal(self.attempt))
        reader = FrameReader(size - len(tail))
        last = [item for item in reader.feed(tail) if isinstance(item, Record)]
        if not last or not isinstance(last[-1].event, Seal) or reader.offset != size:
            return False
        self._take(FrameReader().feed(head))
        for item in last:
            self.fold.feed(self.attempt, item.event)
        self._length = self._read = size
        self._reader = FrameReader(size)
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
