"""Journals by files: the same mirror goes on, failures wait, and the end of a job settles its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import FrameBatch, Inbox, Restarted, Settled
from clew_gui.session.links.mirror import Mirror
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.events import Schema
from clew_shared.journal.files import JournalWriter, Record, journal_path, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.messages import Fetch, Fetched, Refused
from tests.unit.runs import METRICS, RUN, begin_run, describe, end_run, points, small_run

SCHEMA = Schema(id=1, metrics=METRICS)


class Folder:
    """A run's folder on a site; ``piece`` bytes at a time, until ``down``."""

    def __init__(self, data: bytes, piece: int = 400, sealed: bool = True) -> None:
        self.data, self.piece, self.sealed, self.down = data, piece, sealed, False
        self.asked: list[tuple[int, int]] = []

    def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
        return [self.piece_of(one.run, one.attempt, one.offset) for one in wanted]

    def piece_of(self, run: str, attempt: int, offset: int) -> Fetched | None:
        self.asked.append((attempt, offset))
        if self.down:
            raise problem("ssh.network", "No way there.")
        if attempt > 1:
            return None
        piece = self.data[offset : offset + self.piece]
        return Fetched(
            run=run, attempt=1, offset=offset, data=piece, size=len(self.data), attempts=1, sealed=self.sealed
        )


class Reader:
    """A link without an agent; ``over``: so is its job."""

    over = False

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher

    def turn(self, folder: Folder) -> bool:
        return self.fetcher.fetch_files(folder, self.over)


@pytest.fixture
def journal(tmp_path: Path) -> bytes:
    return small_run(tmp_path / "node").journal(1).read_bytes()


def follow(tmp_path: Path, have: bytes = b"") -> tuple[Inbox, Fetcher, Reader]:
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox, "job")
    if have:
        Mirror(tmp_path / "mirrors" / RUN).append(1, 0, have)
    fetcher.follow(RUN)
    while fetcher.replay():
        pass
    return inbox, fetcher, Reader(fetcher)


def read_all(reader: Reader, folder: Folder) -> None:
    while reader.turn(folder):
        pass


def taken(inbox: Inbox) -> list[object]:
    return list(iter(inbox.take, None))


def copied(tmp_path: Path) -> bytes:
    return journal_path(tmp_path / "mirrors" / RUN, 1).read_bytes()


def test_a_copy_goes_on_where_it_ends_and_a_job_that_is_over_settles_its_run(journal: bytes, tmp_path: Path) -> None:
    inbox, _, reader = follow(tmp_path, journal[:500])
    reader.over = True
    folder = Folder(journal)
    read_all(reader, folder)
    assert folder.asked[0] == (1, 500)
    assert copied(tmp_path) == journal
    assert taken(inbox)[-1] == Settled(RUN, "job")
    read_all(reader, folder)
    assert taken(inbox) == [], "once is enough"


def test_what_was_whole_already_is_looked_at_once_for_a_later_attempt(journal: bytes, tmp_path: Path) -> None:
    inbox, _, reader = follow(tmp_path, journal)
    taken(inbox)
    reader.over = True
    folder = Folder(journal)
    read_all(reader, folder)
    assert folder.asked == [(2, 0)]
    assert taken(inbox) == [Settled(RUN, "job")]


def test_a_long_copy_is_settled_as_well_when_it_has_been_read(journal: bytes, tmp_path: Path) -> None:
    inbox, fetcher, reader = follow(tmp_path)
    Mirror(tmp_path / "mirrors" / "other").append(1, 0, journal)
    fetcher.release(RUN)
    fetcher.follow("other")
    reader.over = True
    folder = Folder(journal)
    assert not reader.turn(folder), "it is still being read"
    while fetcher.replay():
        pass
    read_all(reader, folder)
    assert folder.asked == [(2, 0)]
    assert taken(inbox)[-1] == Settled("other", "job")


def test_a_journal_that_another_program_began_to_keep_is_read_from_its_beginning(
    journal: bytes, tmp_path: Path
) -> None:
    inbox, fetcher, reader = follow(tmp_path)
    Mirror(tmp_path / "mirrors" / RUN).append(1, 0, journal[:500])
    folder = Folder(journal)
    while not folder.asked:
        reader.turn(folder)
        fetcher.replay()
    read_all(reader, folder)
    assert folder.asked[0] == (1, 500)
    batches = [found for found in taken(inbox) if isinstance(found, FrameBatch)]
    assert [item for batch in batches for item in batch.items] == list(read_journal(tmp_path / "node/journal.0001"))


def test_a_copy_that_another_program_set_aside_comes_from_its_beginning_again(journal: bytes, tmp_path: Path) -> None:
    inbox, fetcher, reader = follow(tmp_path)
    folder = Folder(journal)
    reader.turn(folder)
    taken(inbox)
    other = Mirror(tmp_path / "mirrors" / RUN)
    other.set_aside(1)
    other.append(1, 0, journal[:100])
    while len(folder.asked) < 3:
        reader.turn(folder)
        fetcher.replay()
    read_all(reader, folder)
    assert folder.asked[1:3] == [(1, 400), (1, 100)]
    assert copied(tmp_path) == journal
    first, *rest = taken(inbox)
    assert first == Restarted(RUN)
    items = [item for found in rest if isinstance(found, FrameBatch) for item in found.items]
    assert items == list(read_journal(tmp_path / "node/journal.0001"))


def test_a_run_that_never_began_is_settled_without_a_journal(tmp_path: Path) -> None:
    inbox, _, reader = follow(tmp_path)
    reader.over = True

    class Nothing(Folder):
        def piece_of(self, run: str, attempt: int, offset: int) -> Fetched | None:
            return None

    read_all(reader, Nothing(b""))
    assert taken(inbox) == [Settled(RUN, "job")]


def test_a_file_that_still_grows_is_looked_at_again_only_after_a_while(journal: bytes, tmp_path: Path) -> None:
    inbox, _, reader = follow(tmp_path)
    folder = Folder(journal[:700], sealed=False)
    read_all(reader, folder)
    assert [offset for _, offset in folder.asked] == [0, 400]
    assert not reader.turn(folder)
    assert [type(found) for found in taken(inbox)] == [FrameBatch, FrameBatch]


def test_a_site_that_cannot_be_reached_is_asked_again(journal: bytes, tmp_path: Path) -> None:
    _, fetcher, reader = follow(tmp_path)
    reader.over = True
    folder = Folder(journal)
    folder.down = True
    with pytest.raises(ProblemError):
        reader.turn(folder)
    assert not reader.turn(folder), "not at once"
    folder.down = False
    fetcher.follow(RUN).not_before = 0.0
    read_all(reader, folder)
    assert copied(tmp_path) == journal


def test_runs_are_asked_for_together_and_one_that_cannot_be_read_holds_no_other_up(
    journal: bytes, tmp_path: Path
) -> None:
    together: list[int] = []

    class OneDenied(Folder):
        def fetch(self, wanted: Sequence[Fetch]) -> list[Fetched | ProblemError | None]:
            together.append(len(wanted))
            denied = problem("ssh.file", "Permission denied.")
            found = super().fetch(wanted)
            return [denied if one.run == "other" else piece for one, piece in zip(wanted, found, strict=True)]

    _, fetcher, reader = follow(tmp_path)
    fetcher.follow("other")
    folder = OneDenied(journal)
    with pytest.raises(ProblemError, match="denied"):
        reader.turn(folder)
    read_all(reader, folder)
    assert together[0] == 2
    assert copied(tmp_path) == journal


def test_a_copy_that_is_longer_than_the_journal_is_set_aside(journal: bytes, tmp_path: Path) -> None:
    inbox, fetcher, reader = follow(tmp_path, journal + b"more than there ever was")
    folder = Folder(journal[:700], sealed=False)
    fetcher.follow(RUN).complete = False
    fetcher.follow(RUN).attempt = 1
    reader.turn(folder)
    assert Restarted(RUN) in taken(inbox)
    while fetcher.replay():
        pass
    fetcher.replay()
    read_all(reader, folder)
    assert copied(tmp_path) == journal[:700]


# --- A node that was cut off wrote on when its job was over -----------------------------------------------------------


class TwoAttempts(Folder):
    """A run whose second attempt found more of the first than anybody had seen before."""

    def __init__(self, path: Path, sealed: bool = False) -> None:
        super().__init__(b"")
        folder = begin_run(path)
        with JournalWriter.create(folder.journal(1)) as writer:
            for event in (describe(folder), SCHEMA, points(0, [1.0, 0.9])):
                writer.append(event)
            self.seen = folder.journal(1).stat().st_size
            writer.append(points(2, [0.8, 0.7]))
            counts = folder.journal(1).stat().st_size
            writer.append(points(4, [0.6]))
            if sealed:
                end_run(folder, writer, RunState.STOPPED)
        with JournalWriter.create(folder.journal(2)) as writer:
            writer.append(describe(folder, 2, resumes=1, start_step=4, earlier_size=counts))
            for event in (SCHEMA, points(4, [0.5])):
                writer.append(event)
            end_run(folder, writer)
        self.first, self.second = (folder.journal(attempt).read_bytes() for attempt in (1, 2))
        self.counts = self.first[:counts]

    def piece_of(self, run: str, attempt: int, offset: int) -> Fetched | None:
        if attempt > 2:
            return None
        self.data = (self.first, self.second)[attempt - 1]
        found = super().piece_of(run, 1, offset)
        assert found is not None
        return msgspec.structs.replace(found, attempt=attempt, attempts=2)


def losses(inbox: Inbox) -> tuple[list[int], list[float]]:
    """The curve as a session would have folded it."""
    history = History()
    for arrival in taken(inbox):
        if isinstance(arrival, Restarted):
            history = History()
        elif isinstance(arrival, FrameBatch):
            for item in arrival.items:
                if isinstance(item, Record):
                    history.feed(arrival.attempt, item.event, item.offset)
    column = history.column("loss")
    return column.steps.tolist(), [round(float(value), 1) for value in column.values]


def read_with_replay(fetcher: Fetcher, reader: Reader, folder: Folder) -> None:
    resting = 0
    while resting < 2:  # what has been read may be a reason to ask for more
        resting = 0 if reader.turn(folder) or fetcher.replay() else resting + 1


@pytest.mark.parametrize("second", [0, 200])
def test_what_a_later_attempt_found_of_an_earlier_one_is_fetched_as_well(tmp_path: Path, second: int) -> None:
    folder = TwoAttempts(tmp_path / "node")
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox, "job")
    mirror = Mirror(tmp_path / "mirrors" / RUN)
    mirror.append(1, 0, folder.first[: folder.seen])
    mirror.append(2, 0, folder.second[:second] or folder.second)
    fetcher.follow(RUN)
    reader = Reader(fetcher)
    reader.over = True
    read_with_replay(fetcher, reader, folder)
    assert copied(tmp_path) == folder.counts, "no byte more: what stands behind it may still change"
    assert journal_path(tmp_path / "mirrors" / RUN, 2).read_bytes() == folder.second
    assert losses(inbox) == ([0, 1, 2, 3, 4], [1.0, 0.9, 0.8, 0.7, 0.5])


def test_what_the_node_has_lost_itself_is_asked_for_once(tmp_path: Path) -> None:
    folder = TwoAttempts(tmp_path / "node")
    folder.first = folder.first[: folder.seen]
    inbox, fetcher, reader = follow(tmp_path, folder.first)
    reader.over = True
    read_with_replay(fetcher, reader, folder)
    assert copied(tmp_path) == folder.first
    assert losses(inbox) == ([0, 1, 4], [1.0, 0.9, 0.5])
    assert folder.asked.count((1, folder.seen)) == 2, "at the end of the first attempt, and again for the second"


def test_an_agent_that_does_not_know_the_run_is_asked_once_for_what_is_owed(tmp_path: Path) -> None:
    folder = TwoAttempts(tmp_path / "node")
    mirror = Mirror(tmp_path / "mirrors" / RUN)
    mirror.append(1, 0, folder.first[: folder.seen])
    mirror.append(2, 0, folder.second)
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox)
    fetcher.follow(RUN)
    while fetcher.replay():
        pass
    assert fetcher.next_fetch() is None, "nobody has said that he has it"
    fetcher.expect(RUN)
    assert fetcher.next_fetch() == (RUN, Fetch(run=RUN, attempt=1, offset=folder.seen))
    fetcher.sent(RUN, b"1")
    assert fetcher.answered(b"1", Refused(problem=Problem("run.unknown", "There is no such run.")))
    assert fetcher.next_fetch() is None
    assert losses(inbox) == ([0, 1, 4], [1.0, 0.9, 0.5])


def test_a_damaged_copy_of_an_earlier_attempt_costs_the_later_one_nothing(tmp_path: Path) -> None:
    folder = TwoAttempts(tmp_path / "node", sealed=True)
    broken = bytearray(folder.first)
    broken[folder.seen + 40] ^= 1
    mirror = Mirror(tmp_path / "mirrors" / RUN)
    mirror.append(1, 0, bytes(broken))
    mirror.append(2, 0, folder.second)
    inbox = Inbox()
    fetcher = Fetcher(tmp_path / "mirrors", inbox, "job")
    fetcher.follow(RUN)
    reader = Reader(fetcher)
    reader.over = True
    read_with_replay(fetcher, reader, folder)
    assert copied(tmp_path) == folder.first
    assert journal_path(tmp_path / "mirrors" / RUN, 2).read_bytes() == folder.second
    assert sorted(path.name for path in mirror.folder.glob("damaged.*")) == ["damaged.journal.0001"]
    assert losses(inbox) == ([0, 1, 2, 3, 4], [1.0, 0.9, 0.8, 0.7, 0.5])
