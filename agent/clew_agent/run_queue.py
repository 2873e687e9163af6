"""Which runs wait and which have a device slot. Pure bookkeeping: starting and ending processes is done elsewhere."""

from __future__ import annotations

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """One attempt of one run."""

    run: str
    attempt: int


class QueueRecord(msgspec.Struct, frozen=True):
    """The queue as it is kept on disk for the agent's successor."""

    waiting: tuple[Entry, ...] = ()
    running: tuple[str, ...] = ()


class RunQueue:
    """First come, first served, at most ``slots`` at a time.

    A run waits in it once; its next attempt may wait while the processes of the last one are still ending, and is
    passed over until they have.
    """

    def __init__(self, slots: int = 1, record: QueueRecord | None = None) -> None:
        record = record or QueueRecord()
        self.slots = slots
        self._waiting = list(record.waiting)
        self._running = dict.fromkeys(record.running)

    @property
    def record(self) -> QueueRecord:
        """What a successor needs to go on."""
        return QueueRecord(tuple(self._waiting), tuple(self._running))

    def __contains__(self, run: str) -> bool:
        return run in self._running or self.position(run) > 0

    def __len__(self) -> int:
        return len(self._waiting)

    def position(self, run: str) -> int:
        """Place in the queue from 1; 0 when it does not wait."""
        return next((place for place, entry in enumerate(self._waiting, 1) if entry.run == run), 0)

    def add(self, entry: Entry) -> None:
        """Queue an attempt; a run that waits already is left as it is."""
        if not self.position(entry.run):
            self._waiting.append(entry)

    def cancel(self, run: str) -> bool:
        """Take a waiting run out; False when it does not wait."""
        before = len(self._waiting)
        self._waiting = [entry for entry in self._waiting if entry.run != run]
        return len(self._waiting) < before

    def next_to_start(self) -> Entry | None:
        """Give a free slot to the first that waits, and return it; None when there is no slot or nobody waits."""
        if len(self._running) >= self.slots:
            return None
        entry = next((entry for entry in self._waiting if entry.run not in self._running), None)
        if entry is not None:
            self._waiting.remove(entry)
            self._running[entry.run] = None
        return entry

    def running(self) -> tuple[str, ...]:
        """The runs that have a slot."""
        return tuple(self._running)

    def ended(self, run: str) -> bool:
        """Free the slot of ``run``; False when it had none."""
        if run not in self._running:
            return False
        del self._running[run]
        return True
