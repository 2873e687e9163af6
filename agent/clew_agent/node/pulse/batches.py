"""Makes events of the journal of samples: columns of some seconds, and a sentence where memory is nearly used up."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from clew_agent.node.pulse.sampler import Sample
from clew_shared.base.number_words import in_bytes
from clew_shared.journal.events import Event, Log, Pulse

HOLD_S = 2.0
"""Seconds of samples in one event: a viewer sees them that much later."""
_MOST_NAMES = 400
NEAR = 0.9
"""Share of its limit from which memory counts as nearly used up: a kill may be seconds away."""
PULSE_STAGE = "pulse"
"""The ``stage`` of sentences about the machine."""
TRAINER = "trainer"
_NAN = float("nan")


class PulseBatch:
    """The samples of one process that are not in the journal yet."""

    def __init__(self, process: str, host: str) -> None:
        self._process, self._host = process, host
        self._waiting: list[Sample] = []
        self._last = 0.0
        self._warned = False

    def add(self, sample: Sample) -> list[Event]:
        """Take one; returns the events that are due with it. One that is not later than the last changes nothing."""
        if not sample.time > self._last:
            return []
        self._last = sample.time
        self._waiting.append(sample)
        warning = self._warning(sample)
        if warning is not None:
            return [*self.rest(), warning]
        return self.rest() if sample.time - self._waiting[0].time >= HOLD_S else []

    def rest(self) -> list[Event]:
        """An event of everything that waits, if anything does."""
        samples, self._waiting = self._waiting, []
        return [as_event(self._process, self._host, samples)] if samples else []

    def skip(self, event: Event | None) -> None:
        """Leave out what an event of the journal says already."""
        self._last = max(self._last, last_of(event, self._process))
        self._warned |= isinstance(event, Log) and event.stage == PULSE_STAGE

    def _warning(self, sample: Sample) -> Log | None:
        used, limit = sample.values.get("memory_used"), sample.values.get("memory_limit")
        if self._warned or used is None or not limit or used < NEAR * limit:
            return None
        self._warned = True
        node = f" on {self._host}" if self._process != TRAINER else ""
        text = (
            f"Memory is nearly used up{node}: {in_bytes(round(used))} of {in_bytes(round(limit))}. If it runs out, the"
            " run is killed; a smaller batch size needs less."
        )
        return Log(time=sample.time, text=text, level="warning", stage=PULSE_STAGE)


def as_event(process: str, host: str, samples: Sequence[Sample]) -> Pulse:
    """The samples of one process as columns; NaN where a sample lacks a value."""
    names = list(dict.fromkeys(name for sample in samples for name in sample.values))[:_MOST_NAMES]
    columns = ([sample.values.get(name, _NAN) for sample in samples] for name in names)
    return Pulse(
        time=samples[-1].time,
        process=process,
        host=host,
        times=struct.pack(f"<{len(samples)}d", *(sample.time for sample in samples)),
        names=tuple(names),
        values=tuple(struct.pack(f"<{len(column)}f", *column) for column in columns),
    )


def last_of(event: Event | None, process: str = TRAINER) -> float:
    """The time of the last sample of ``process`` in an event; 0 for another event."""
    if not isinstance(event, Pulse) or event.process != process or len(event.times) < 8:
        return 0.0
    found: float = struct.unpack("<d", event.times[-8:])[0]
    return found
