"""The samples on their way from the guard to the trainer, and as events of the journal."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from clew_agent.node.pulse import spool
from clew_agent.node.pulse.batches import HOLD_S, TRAINER, PulseBatch, as_event, last_of
from clew_agent.node.pulse.sampler import Sample
from clew_agent.node.pulse.spool import SpoolReader, SpoolWriter, remove_spool, spool_folder
from clew_shared.journal.events import Event, Log, Pulse
from clew_shared.journal.pulse import read_pulse
from clew_shared.journal.run_folder import RunFolder


@pytest.fixture
def folder(home: Path) -> Path:
    return spool_folder(RunFolder(home / "run"), 1)


def sample(number: int, **values: float) -> Sample:
    return Sample(1000.0 + number, values)


def test_each_sample_arrives_once_and_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_PER_FILE", 3)
    writer, reader, found = SpoolWriter(folder), SpoolReader(folder), list[Sample]()
    assert reader.take() == []
    for number in range(11):
        writer.add(sample(number, cpu=number / 2))
        if number % 4 == 0:
            found += reader.take()
    found += reader.take()
    assert found == [sample(number, cpu=number / 2) for number in range(11)]
    assert len(list(folder.iterdir())) == 1, "what was read is removed"


def test_who_comes_later_takes_what_was_not_removed(folder: Path) -> None:
    writer = SpoolWriter(folder)
    for number in range(4):
        writer.add(sample(number))
    SpoolReader(folder).take()
    assert len(SpoolReader(folder).take()) == 4


def test_half_a_sample_is_waited_for(folder: Path) -> None:
    SpoolWriter(folder).add(sample(0))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:7])
    reader = SpoolReader(folder)
    assert len(reader.take()) == 1
    path.write_bytes(whole + whole)
    assert reader.take() == [sample(0)]


def test_a_spool_that_was_removed_stays_so(home: Path, folder: Path) -> None:
    writer = SpoolWriter(folder)
    writer.add(sample(0))
    remove_spool(RunFolder(home / "run"), 1)
    writer.add(sample(1))
    assert not folder.exists()


def pulses(events: list[Event]) -> list[Pulse]:
    return [event for event in events if isinstance(event, Pulse)]


def test_samples_become_columns_of_some_seconds() -> None:
    batch = PulseBatch(TRAINER, "node17")
    events = [event for number in range(7) for event in batch.add(sample(number, cpu=1.0, **{f"only{number}": 2.0}))]
    events += batch.rest()
    found = [read_pulse(event) for event in pulses(events)]
    assert len(found) == math.ceil(7 / (HOLD_S + 1))
    assert all(one is not None for one in found)
    assert [time for one in found if one is not None for time in one[0]] == [1000.0 + number for number in range(7)]
    first = found[0]
    assert first is not None
    assert [value for value in first[1]["only1"].tolist() if not math.isnan(value)] == [2.0]
    assert batch.rest() == []


def test_what_is_in_the_journal_is_not_recorded_again() -> None:
    recorded = as_event(TRAINER, "node17", [sample(0), sample(1)])
    batch = PulseBatch(TRAINER, "node17")
    batch.skip(recorded)
    for number in range(4):
        batch.add(sample(number))
    assert [event.times for event in pulses(batch.rest())] == [as_event(TRAINER, "", [sample(2), sample(3)]).times]
    assert last_of(as_event("worker 1", "node17", [sample(9)])) == 0.0


def test_memory_near_its_limit_is_said_once_and_at_once() -> None:
    batch = PulseBatch("worker 1", "node2")
    assert batch.add(sample(0, memory_used=7.1e9, memory_limit=8e9)) == []
    pulse, warning = batch.add(sample(1, memory_used=7.3e9, memory_limit=8e9))
    assert isinstance(pulse, Pulse)
    assert isinstance(warning, Log)
    assert warning.text.startswith("Memory is nearly used up on node2: 7.3 GB of 8.0 GB.")
    assert batch.add(sample(2, memory_used=7.9e9, memory_limit=8e9)) == []


def test_a_warning_that_is_in_the_journal_is_not_said_again() -> None:
    near = {"memory_used": 7.3e9, "memory_limit": 8e9}
    first, later = PulseBatch(TRAINER, "node17"), PulseBatch(TRAINER, "node17")
    for event in first.add(sample(1, **near)):
        later.skip(event)
    assert later.add(sample(2, **near)) == []


def test_memory_whose_limit_is_not_known_is_no_warning() -> None:
    assert PulseBatch(TRAINER, "node17").add(sample(0, memory_used=7.9e9)) == []
