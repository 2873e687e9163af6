"""The samples that the guard takes of its trainer, on their way into the journal."""

from __future__ import annotations

from clew_agent.node.pulse.batches import TRAINER, PulseBatch
from clew_agent.node.pulse.spool import SpoolReader, SpoolWriter, remove_spool, spool_folder
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.journal.events import Event
from clew_shared.journal.run_folder import RunFolder


def samples_to_trainer(folder: RunFolder, attempt: int) -> SpoolWriter:
    """Returns where the guard puts the samples of an attempt."""
    return SpoolWriter(spool_folder(find_places(), folder, attempt))


class GuardSamples:
    """The trainer's end: what its guard has sampled, as events."""

    def __init__(self, folder: RunFolder, attempt: int) -> None:
        self._reader = SpoolReader(spool_folder(find_places(), folder, attempt))
        self._batch = PulseBatch(TRAINER, operating_system.host_name())

    def skip(self, event: Event | None) -> None:
        """Leave out what an event of the journal has already."""
        self._batch.skip(event)

    def events(self, last: bool) -> list[Event]:
        """Returns the events that are due; all that are left the ``last`` time."""
        found = [event for sample in self._reader.take() for event in self._batch.add(sample)]
        return [*found, *self._batch.rest()] if last else found


def forget_samples(folder: RunFolder, attempt: int) -> None:
    """Remove the samples of an attempt whose journal has them all."""
    remove_spool(find_places(), folder, attempt)
