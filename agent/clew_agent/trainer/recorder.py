"""The trainer's writer thread: events go into a bounded queue, and from there into the journal.

Training waits for nothing but the disk. When the disk refuses, the thread keeps the event, says PAUSED in the journal
(a small reserve file makes room for that), and tries again; after ten minutes it gives up. Who is asked to stop
meanwhile does not wait: what is left goes into the room of the reserve, if it fits. An event counts once it is in the
file, so an unrecorded step does not exist.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.events import Checkpoint, Event, Points, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState

PATIENCE_S = 600.0
"""Seconds that the disk may refuse before a run ends FAILED."""
SYNC_EVERY_S = 5.0
"""What a power cut may cost. A sync of a network disk can take a second, so there is none for each frame."""
_RETRY_S = 1.0
"""Seconds between two tries to write on a disk that refuses."""
_ASK_EVERY_S = 1.0
"""Seconds between two questions for events from elsewhere."""
_QUEUE = 64
"""Events that may wait: some seconds of training, and at most a few megabytes."""
_RESERVE_BYTES = 64 * 1024
"""Room that a run takes in advance: half of it for the news that the disk is full, the rest for its end."""
_LAST_BYTES = 16 * 1024
"""Number of bytes that are kept for a run's last words: the records of its files, its last state and the seal."""


class Reserve:
    """A file of no content that is given up, half by half, when the disk is full, so that the journal can say so."""

    def __init__(self, path: Path, size: int = _RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    def fill(self) -> None:
        """Take the room (again). A disk without that much room is met later, by the journal."""
        with suppress(OSError), self._path.open("wb") as file:
            file.write(os.urandom(self._size))  # not zeros: a file system could store those without taking room
            file.flush()
            operating_system.sync(file.fileno())

    def halve(self) -> None:
        """Give up one half, for the news that the disk is full; the other half is for the end."""
        self._shrink(self._size // 2)

    def keep_for_the_end(self) -> None:
        """Give up all but what the last words need, because nothing is trained any more."""
        self._shrink(_LAST_BYTES)

    def _shrink(self, size: int) -> None:
        with suppress(OSError):
            if self._path.stat().st_size > size:
                os.truncate(self._path, size)

    def release(self) -> None:
        """Give up all of it."""
        with suppress(OSError):
            self._path.unlink()


class Recorder:
    """Appends events to ``writer`` in its own thread, in the order of ``put``.

    ``patience`` is how long the disk may refuse, ``retry`` the pause between attempts, both in seconds. ``beside`` is
    asked now and then for events that come from elsewhere (``last``: for the last time).
    """

    def __init__(
        self,
        writer: JournalWriter,
        reserve: Reserve,
        patience: float = PATIENCE_S,
        retry: float = _RETRY_S,
        beside: Callable[[bool], Sequence[Event]] = lambda _: (),
    ) -> None:
        self._beside, self._asked = beside, time.monotonic()
        self._writer = writer
        self._reserve = reserve
        self.patience = patience
        self._retry = retry
        self._queue: queue.Queue[Event | None] = queue.Queue(_QUEUE)
        self._last_from = 0
        self.files: set[str] = set()
        """Paths of the files whose records are in the journal; to be read after ``close``."""
        self._failed: BaseException | None = None
        self._step = 0
        self._running = self._paused = False
        self._refused = self._training_refused = ""
        """Why the disk refuses what the journal, and what training has to write; empty while it does not."""
        self._unsaid: State | None = None
        self._given_up = threading.Event()
        self._clear = threading.Event()
        self._clear.set()
        self._synced = time.monotonic()
        self._dirty = False
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)

    @property
    def held_up(self) -> bool:
        """Whether the disk is refusing what was handed over."""
        return not self._clear.is_set()

    def start(self) -> None:
        """Begin to write what is put in."""
        self._reserve.fill()
        self._thread.start()

    def put(self, event: Event) -> None:
        """Hand over one event; waits while the queue is full. Raises ``ProblemError`` when the disk has refused."""
        stamped = event if event.time else msgspec.structs.replace(event, time=time.time())
        while True:
            while self._last_from not in (0, threading.get_ident()):
                time.sleep(_RETRY_S)  # for ever: another thread has put the last state and ends the process
            self._raise_failure()
            with suppress(queue.Full):
                self._queue.put(stamped, timeout=0.2)
                return

    def put_last(self, state: State) -> None:
        """Hand over the run's last state and wait until it is on the disk; other threads can put nothing after it.

        Raises ``ProblemError`` when the disk has refused.
        """
        self._last_from = threading.get_ident()
        self.put(state)
        self.flush()

    def training_waits(self, reason: str) -> None:
        """Say that training waits because the disk refuses what it writes itself; that it goes on is said no sooner
        than after ``training_goes_on``, whatever the journal meets. Raises what ``put`` raises."""
        waited, self._training_refused = self._training_refused, reason
        if not waited:
            self.put(Event())

    def training_goes_on(self) -> None:
        """Say that training waits no longer, if it did. Raises what ``put`` raises."""
        if self._training_refused:
            self._training_refused = ""
            self.put(Event())

    def wait_for_disk(self, give_up: Callable[[], bool]) -> None:
        """Return at once unless the disk is refusing just now, else when it takes what was handed over so far.

        Raises ``ProblemError`` after ``patience``, or when ``give_up()`` says that nobody wants to wait and the reserve
        has not room enough. Called at the end of each block: no step is trained meanwhile.
        """
        while not self._clear.wait(0.2):
            if give_up():
                self._given_up.set()
        self._raise_failure()

    def flush(self) -> None:
        """Return when everything handed over is in the file and on the disk."""
        done = threading.Event()
        self.put(_Mark(done=done.set))
        while not done.wait(0.2):
            self._raise_failure()

    def close(self) -> JournalWriter:
        """End the thread after everything handed over was written; the writer is the caller's again, reserve released.

        Never raises: what could not be written is lost, and ``failure`` says why.
        """
        if self._thread.is_alive():
            while self._failed is None:
                with suppress(queue.Full):
                    self._queue.put(None, timeout=0.2)
                    break
            self._thread.join()
        self._reserve.release()
        return self._writer

    @property
    def step(self) -> int:
        """Returns how many steps are in the journal; to be read after ``close``."""
        return self._step

    @property
    def failure(self) -> Problem | None:
        """Says why not everything could be written; None when all is well."""
        if self._failed is None:
            return None
        if isinstance(self._failed, ProblemError):
            return self._failed.problems[0]
        where = str(self._writer.path)
        text = (
            f"The journal could not be written: {_reason(self._failed)}. Nothing from step {self._step} on is recorded."
        )
        return Problem("journal.write", text, "Make room on that disk, then continue the run.", where)

    def _raise_failure(self) -> None:
        if (found := self.failure) is not None:
            raise ProblemError(found)

    # In the writer thread.

    def _work(self) -> None:
        try:
            while (event := self._next()) is not None:
                if isinstance(event, _Mark):
                    self._persist(self._sync)
                    event.done()
                elif type(event) is not Event:
                    self._record(event)
                self._settle()
                self._ask_beside()
                if time.monotonic() - self._synced > SYNC_EVERY_S and self._dirty:
                    self._persist(self._sync)
            self._ask_beside(last=True)
            self._persist(self._sync)
        except BaseException as error:  # noqa: BLE001  # the trainer must learn of whatever ended its writer
            self._failed = error
        finally:
            self._clear.set()

    def _next(self) -> Event | None:
        """The next event; an empty one when none came for a while, so that the disk is synced in time."""
        try:
            return self._queue.get(timeout=SYNC_EVERY_S / 2)
        except queue.Empty:
            return Event()

    def _ask_beside(self, last: bool = False) -> None:
        """Write what comes from elsewhere. A journal begins with the description of its attempt, which a slow start may
        delay; after the run's last state nothing may come any more."""
        if not self._writer.size or self._last_from or (not last and time.monotonic() - self._asked < _ASK_EVERY_S):
            return
        self._asked = time.monotonic()
        for event in self._beside(last):
            self._record(event)

    def _record(self, event: Event) -> None:
        self._persist(lambda: self._writer.append(event))
        self._follow(event)
        self._dirty = True
        if isinstance(event, State | Checkpoint):
            self._persist(self._sync)
        if isinstance(event, Checkpoint):
            self.files.update(record.path for record in event.files)

    def _settle(self) -> None:
        """Say that training waits for the disk, or that it goes on, where the journal does not say so yet."""
        while self._running and (event := self._unsaid or self._turn()) is not None:
            try:
                self._writer.append(event)
            except OSError:
                return
            self._paused, self._unsaid, self._dirty = event.state is RunState.PAUSED, None, True

    def _turn(self) -> State | None:
        refused = self._refused or self._training_refused
        if bool(refused) is self._paused:
            return None
        reason = f"Waiting for the disk: {refused}" if refused else ""
        state = RunState.PAUSED if refused else RunState.RUNNING
        return State(state=state, reason=reason, step=self._step, time=time.time())

    def _follow(self, event: Event) -> None:
        if isinstance(event, State):
            self._running, self._paused, self._unsaid = event.state is RunState.RUNNING, False, None
            self._step = max(self._step, event.step)
        elif isinstance(event, Points):
            self._step = event.first + event.count

    def _sync(self) -> None:
        self._writer.sync()
        self._dirty = False
        self._synced = time.monotonic()

    def _persist(self, action: Callable[[], object]) -> None:
        """Do ``action`` until the disk takes it, at most for ``patience``; then the ``OSError`` comes."""
        try:
            action()
        except OSError as error:
            self._clear.clear()
            self._insist(action, error)
            self._clear.set()

    def _insist(self, action: Callable[[], object], error: OSError) -> None:
        deadline = time.monotonic() + self.patience
        self._refused = _reason(error)
        told = self._turn()
        if self._running:
            self._reserve.halve()
            self._settle()
        while True:
            last = self._given_up.wait(self._retry)
            if last:
                self._reserve.keep_for_the_end()
            try:
                action()
            except OSError:
                if time.monotonic() > deadline or last:
                    raise
                continue
            break
        if not last:
            self._reserve.fill()
        self._refused = ""
        self._unsaid = None if self._paused else told


class _Mark(Event, frozen=True, kw_only=True):
    """A mark for the thread, not an event: asks it to sync and to call ``done``."""

    done: Callable[[], None]


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
