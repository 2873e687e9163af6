"""Runs that are over are read once; a journal that has changed counts, not what was kept of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clew_gui.session import summaries
from clew_gui.session.summaries import RunSummary, Summaries
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.files import JournalWriter, journal_path
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from tests.unit.runs import begin_run, describe, end_run, small_run


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "home", tmp_path / "private")


@pytest.fixture
def run(places: Places) -> Path:
    return small_run(places.runs / "one").path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that were read."""
    found: list[str] = []

    def read(folder: Path) -> History:
        found.append(folder.name)
        return read_run(folder)

    monkeypatch.setattr(summaries, "read_run", read)
    return found


def summed_up(places: Places, run: Path) -> RunSummary:
    """As one command does it."""
    known = Summaries(places)
    found = known.of(run)
    known.save()
    return found


def test_a_run_that_is_over_is_read_once(places: Places, run: Path, reads: list[str]) -> None:
    first, second = summed_up(places, run), summed_up(places, run)
    assert reads == ["one"]
    assert second.results == first.results
    assert second.results["test_accuracy"] == pytest.approx(0.9)
    assert (second.spec, second.fold.state) == (first.spec, RunState.FINISHED)
    assert Summaries(places).started(run) == first.fold.first_started == 1_700_000_000.0


def test_a_run_that_goes_on_is_read_each_time(places: Places, reads: list[str]) -> None:
    folder = begin_run(places.runs / "one")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
    for _ in range(2):
        assert not summed_up(places, folder.path).fold.done
    assert reads == ["one", "one"]


def test_what_a_window_sums_up_stays_when_the_run_goes_on(places: Places, run: Path, reads: list[str]) -> None:
    known, history, spec = Summaries(places), read_run(run), read_spec(RunFolder(run).spec)
    known.take(run, history, spec)
    history.feed(2, describe(RunFolder(run), 2, resumes=1))
    known.save()
    kept = summed_up(places, run)
    assert (kept.fold.attempt, kept.fold.done, kept.spec) == (1, True, spec)
    assert reads == []


def test_a_spec_that_was_mended_is_seen(places: Places, run: Path) -> None:
    text = RunFolder(run).spec.read_text()
    RunFolder(run).spec.write_text("nothing of the kind")
    assert summed_up(places, run).spec is None
    RunFolder(run).spec.write_text(text)
    assert summed_up(places, run).spec is not None


def test_a_run_that_was_continued_is_read_again(places: Places, run: Path, reads: list[str]) -> None:
    assert summed_up(places, run).fold.attempt == 1
    folder = RunFolder(run)
    with JournalWriter.create(folder.journal(2)) as writer:
        writer.append(describe(folder, 2, resumes=1))
        end_run(folder, writer, RunState.STOPPED)
    again = summed_up(places, run)
    assert (again.fold.attempt, again.fold.state) == (2, RunState.STOPPED)
    assert reads == ["one", "one"]


def test_a_journal_that_was_changed_is_read_again(places: Places, run: Path, reads: list[str]) -> None:
    summed_up(places, run)
    journal = journal_path(run, 1)
    journal.write_bytes(b"\0" * 40 + journal.read_bytes()[40:])
    assert summed_up(places, run).fold.exercise == ""
    journal.write_bytes(b"nothing")
    assert not summed_up(places, run).fold.attempt
    assert reads == ["one"] * 3


@pytest.mark.parametrize("content", [b"", b"\x81", b"\xff" * 100, b"\x91" * 5000])
def test_a_file_that_cannot_be_read_is_made_anew(content: bytes, places: Places, run: Path, reads: list[str]) -> None:
    summed_up(places, run)
    (places.home / "summaries.msgpack").write_bytes(content)
    summed_up(places, run)
    summed_up(places, run)
    assert reads == ["one", "one"]


def test_another_version_sums_up_anew(
    places: Places, run: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summed_up(places, run)
    monkeypatch.setattr(summaries, "__version__", "0.0.1")
    summed_up(places, run)
    assert reads == ["one", "one"]


def test_runs_that_are_gone_are_forgotten_with_the_next_new_one(places: Places, run: Path) -> None:
    summed_up(places, run)
    full = (places.home / "summaries.msgpack").stat().st_size
    shutil.rmtree(run)
    summed_up(places, small_run(places.runs / "two").path)
    assert (places.home / "summaries.msgpack").stat().st_size <= full
    with pytest.raises(ProblemError):
        Summaries(places).of(run)


def test_a_disk_that_refuses_costs_time_only(places: Places, run: Path, reads: list[str]) -> None:
    (places.home / "summaries.msgpack").mkdir()
    summed_up(places, run)
    summed_up(places, run)
    assert reads == ["one", "one"]
