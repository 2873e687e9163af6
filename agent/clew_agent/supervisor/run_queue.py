"""The queue of runs: which ones wait and which have devices. Pure bookkeeping: starting and ending processes is done
elsewhere."""

from __future__ import annotations

import msgspec

from clew_agent.node.devices import Devices
from clew_shared.spec import RunSpec


class QueueEntry(msgspec.Struct, frozen=True):
    """An attempt of a run, and for how many devices it asks. ``alone``: it is timed, so nothing may train beside it."""

    run: str
    attempt: int
    devices: int = 1
    alone: bool = False


class QueueRecord(msgspec.Struct, frozen=True):
    """The queue as it is kept on disk for the agent's successor.

    ``devices`` are the ids that each running run has, ``attempts`` which attempt of it runs; earlier agents did not
    keep them. ``cancelled`` are the runs that left the queue before they began and have no folder that would show
    them. ``begun`` are the runs of a job that its agent has begun by itself, with the incarnation of the job;
    ``stopped`` are those that a person has stopped: they stay so when the job starts again. ``discarded`` are those
    whose folders are to be removed. ``alone`` are the running ones that nothing may train beside.
    """

    waiting: tuple[QueueEntry, ...] = ()
    running: tuple[str, ...] = ()
    devices: dict[str, tuple[str, ...]] = {}
    attempts: dict[str, int] = {}
    cancelled: tuple[RunSpec, ...] = ()
    begun: dict[str, str] = {}
    stopped: frozenset[str] = frozenset()
    discarded: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()


class RunQueue:
    """First come, first served, as far as devices go round.

    Nobody is passed over for want of devices: while the first that waits needs four of them and three are free, those
    after it wait as well, so that its turn comes. Only a run whose own last attempt is still ending lets others by.
    A run that is timed has all devices idle beside its own. A run waits in it once.
    """

    def __init__(self, devices: Devices | None = None, record: QueueRecord | None = None) -> None:
        record = record or QueueRecord()
        self.devices = devices or Devices()
        self._waiting = list(record.waiting)
        self._held = {run: record.devices.get(run, ()) for run in record.running}
        self._attempts = {run: record.attempts.get(run, 0) for run in record.running}
        self._alone = set(record.alone)

    @property
    def record(self) -> QueueRecord:
        """Returns what a successor needs to go on."""
        return QueueRecord(
            waiting=tuple(self._waiting),
            running=tuple(self._held),
            devices=dict(self._held),
            attempts=dict(self._attempts),
            alone=frozenset(self._alone),
        )

    def __contains__(self, run: str) -> bool:
        return run in self._held or self.position(run) > 0

    def __len__(self) -> int:
        return len(self._waiting)

    def position(self, run: str) -> int:
        """Place in the queue from 1; 0 when it does not wait."""
        return next((place for place, entry in enumerate(self._waiting, 1) if entry.run == run), 0)

    def add(self, entry: QueueEntry) -> None:
        """Queue an attempt; a run that waits already is left as it is."""
        if not self.position(entry.run):
            self._waiting.append(entry)

    def move(self, run: str, place: int) -> bool:
        """Put a waiting run at a place from 1, or at the end when there are fewer; False when nothing changes."""
        before = self.position(run)
        after = min(max(place, 1), len(self._waiting))
        if not before or before == after:
            return False
        self._waiting.insert(after - 1, self._waiting.pop(before - 1))
        return True

    def cancel(self, run: str) -> bool:
        """Take a waiting run out; False when it does not wait."""
        before = len(self._waiting)
        self._waiting = [entry for entry in self._waiting if entry.run != run]
        return len(self._waiting) < before

    def hopeless(self) -> QueueEntry | None:
        """The first waiting run that asks for more devices than there are; None when there is none.

        Only a queue that an agent with more devices left behind has such runs; they would block it for ever.
        """
        return next((entry for entry in self._waiting if self.devices.problem(entry.devices)), None)

    def next_to_start(self) -> QueueEntry | None:
        """Give devices to the first that waits, and return it; None when too few are free or nobody waits."""
        entry = next((entry for entry in self._waiting if entry.run not in self._held), None)
        if entry is None or self._alone or (entry.alone and self._held):
            return None
        taken = self.devices.take(entry.devices, self._held)
        if taken is None:
            return None
        self._waiting.remove(entry)
        if entry.alone:
            self._alone.add(entry.run)
        self._held[entry.run], self._attempts[entry.run] = taken, entry.attempt
        return entry

    def hold(self, run: str, attempt: int) -> None:
        """Have a further attempt of ``run`` wait until ``attempt``, which an earlier agent started, has ended."""
        self._held[run], self._attempts[run] = (), attempt

    def running(self) -> tuple[str, ...]:
        """The runs that have devices."""
        return tuple(self._held)

    def held(self, run: str) -> tuple[str, ...]:
        """The ids of the devices that ``run`` has."""
        return self._held.get(run, ())

    def attempt(self, run: str) -> int:
        """The attempt for which ``run`` got its devices; 0 when an earlier agent did not note that."""
        return self._attempts.get(run, 0)

    def ended(self, run: str) -> bool:
        """Take the devices of ``run`` back; False when it had none."""
        self._attempts.pop(run, None)
        self._alone.discard(run)
        return self._held.pop(run, None) is not None

    def again(self, entry: QueueEntry) -> None:
        """Take the devices of a run back that got them in vain; it is the next to have some."""
        self.ended(entry.run)
        if not self.position(entry.run):
            self._waiting.insert(0, entry)
