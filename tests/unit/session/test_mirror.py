"""The viewer's copy of a journal: its length is the cursor, and only whole frames are given out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_gui.session.links.mirror import Mirror, Replaced
from clew_shared.journal.files import MAGIC, Damage, Record, ends_sealed, journal_path, read_journal
from clew_shared.spec import RunSpec
from tests.unit.runs import small_run


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small sealed journal."""
    return small_run(tmp_path_factory.mktemp("runs") / "run").journal(1).read_bytes()


def whole(data: bytes, folder: Path) -> list[Record | Damage]:
    (folder / "whole").write_bytes(data)
    return list(read_journal(folder / "whole"))


def test_pieces_become_the_nodes_bytes_and_frames(journal: bytes, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "run")
    found = []
    for start in range(0, len(journal), 37):
        assert mirror.length(1) == start
        found += mirror.append(1, start, journal[start : start + 37])
    assert journal_path(mirror.folder, 1).read_bytes() == journal
    assert found == whole(journal, tmp_path)
    assert (mirror.sealed, mirror.damaged, mirror.attempts()) == ({1}, {}, (1,))


@settings(max_examples=60)
@given(data=st.data())
def test_whatever_comes_twice_or_with_a_gap_the_copy_is_a_beginning_of_the_journal(
    data: st.DataObject, journal: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mirror = Mirror(tmp_path_factory.mktemp("mirror"))
    found = []
    for _ in range(data.draw(st.integers(1, 8))):
        start = data.draw(st.integers(0, len(journal)))
        found += mirror.append(1, start, journal[start : start + data.draw(st.integers(0, 2000))])
    found += mirror.append(1, mirror.length(1), journal[mirror.length(1) :])
    assert journal_path(mirror.folder, 1).read_bytes() == journal
    assert [item.offset for item in found] == sorted({item.offset for item in found})
    assert sum(item.size for item in found) == len(journal)


def test_two_programs_that_keep_the_same_copy_do_each_other_no_harm(journal: bytes, tmp_path: Path) -> None:
    mirrors = [Mirror(tmp_path / "run"), Mirror(tmp_path / "run")]
    found: list[list[Record | Damage]] = [[], []]
    assert [mirror.length(1) for mirror in mirrors] == [0, 0]
    for turn, size in enumerate((300, 500, 700, len(journal), len(journal))):
        which = turn % 2
        start = mirrors[which].length(1)
        found[which] += mirrors[which].append(1, start, journal[start:size])
    assert journal_path(tmp_path / "run", 1).read_bytes() == journal
    assert found == [whole(journal, tmp_path)] * 2
    assert [mirror.damaged for mirror in mirrors] == [{}, {}]


def test_what_another_program_adds_while_the_copy_is_read_is_taken_once(journal: bytes, tmp_path: Path) -> None:
    one, other = Mirror(tmp_path / "run"), Mirror(tmp_path / "run")
    other.append(1, 0, journal[:500])
    assert one.length(1) == 500
    other.append(1, 500, journal[500:900])
    found = [item for items in one.read(1) for item in items]
    assert one.length(1) == 900
    found += one.append(1, 900, journal[900:])
    assert found == whole(journal, tmp_path)


def test_behind_a_copy_that_another_program_set_aside_nothing_is_written(journal: bytes, tmp_path: Path) -> None:
    one, *others = (Mirror(tmp_path / "run") for _ in range(3))
    for mirror in (one, *others):
        mirror.append(1, 0, journal[:900])
    one.set_aside(1)
    for begun, other in zip((0, 300), others, strict=True):  # the new copy does not exist yet, or is shorter
        one.append(1, 0, journal[:begun])
        with pytest.raises(Replaced):
            other.append(1, 900, journal[900:1200])
        assert b"".join(path.read_bytes() for path in tmp_path.glob("run/journal.*")) == journal[:begun]
        assert other.length(1) == begun
    one.append(1, 300, journal[300:])
    assert journal_path(tmp_path / "run", 1).read_bytes() == journal
    assert one.sealed == {1}


@settings(max_examples=60)
@given(data=st.data())
def test_two_programs_never_leave_a_hole_whatever_they_do(
    data: st.DataObject, journal: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mirror")
    mirrors = [Mirror(folder), Mirror(folder)]
    for _ in range(data.draw(st.integers(1, 12))):
        mirror = data.draw(st.sampled_from(mirrors))
        if data.draw(st.integers(0, 3)) == 0:
            mirror.set_aside(1)
        else:
            have = mirror.length(1)
            with suppress(Replaced):
                mirror.append(1, have, journal[have : have + data.draw(st.integers(1, 2000))])
        for path in folder.glob("*journal.*"):
            assert journal.startswith(path.read_bytes())


def test_a_frame_that_is_still_coming_is_not_given_out(journal: bytes, tmp_path: Path) -> None:
    first = next(item for item in whole(journal, tmp_path) if isinstance(item, Record))
    mirror = Mirror(tmp_path / "run")
    assert mirror.append(1, 0, journal[: first.size - 1]) == []
    assert mirror.length(1) == first.size - 1
    assert mirror.append(1, first.size - 1, journal[first.size - 1 : first.size]) == [first]


def test_another_day_goes_on_where_the_copy_ends(journal: bytes, tmp_path: Path) -> None:
    cut = len(journal) // 2
    Mirror(tmp_path / "run").append(1, 0, journal[:cut])
    mirror = Mirror(tmp_path / "run")
    before = [item for items in mirror.read(1) for item in items]
    assert mirror.length(1) == cut
    after = mirror.append(1, cut, journal[cut:])
    assert before + after == whole(journal, tmp_path)
    assert mirror.sealed == {1}


def test_a_copy_that_differs_from_the_node_is_seen_at_its_seal_and_set_aside(journal: bytes, tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "run")
    broken = bytearray(journal)
    broken[len(journal) // 2] ^= 1
    items = mirror.append(1, 0, bytes(broken))
    assert any(isinstance(item, Damage) for item in items)
    assert list(mirror.damaged) == [1]
    assert mirror.sealed == set()
    mirror.set_aside(1)
    assert (mirror.length(1), mirror.attempts()) == (0, ())
    assert journal_path(mirror.folder, 1).with_name("damaged.journal.0001").read_bytes() == broken
    mirror.append(1, 0, journal)
    assert mirror.sealed == {1}


def test_a_disk_that_refuses_leaves_the_copy_as_it_was(
    journal: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror(tmp_path / "run")
    mirror.append(1, 0, journal[:100])
    opened, asked = Path.open, []

    def half(path: Path, mode: str = "r", *rest: object) -> object:
        """Writes half of what it should, then says that the disk is full."""
        file = opened(path, mode)
        asked.append(mode)
        if asked == ["r+b"]:
            file.seek(100)
            file.write(journal[100:150])
            file.close()
            raise OSError(28, "No space left on device")
        return file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", half)
        with pytest.raises(OSError, match="No space"):
            mirror.append(1, 100, journal[100:200])
    assert journal_path(mirror.folder, 1).read_bytes() == journal[:100]
    mirror.append(1, 100, journal[100:])
    assert mirror.sealed == {1}


def test_the_spec_is_kept_beside(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path / "run")
    assert mirror.spec() is None
    spec = RunSpec(exercise="softmax", run="r", params={"learning_rate": 0.5})
    mirror.keep_spec(spec)
    assert Mirror(tmp_path / "run").spec() == spec


def with_lying_length(journal: bytes, folder: Path) -> bytes:
    """The journal, but its second frame promises nearly a mebibyte."""
    second = [item for item in whole(journal, folder) if isinstance(item, Record)][1].offset
    data = bytearray(journal)
    data[second + len(MAGIC) + 2] = 0x0F
    return bytes(data)


def test_a_damaged_length_hides_nothing_once_no_more_bytes_come(journal: bytes, tmp_path: Path) -> None:
    data = with_lying_length(journal, tmp_path)
    mirror = Mirror(tmp_path / "run")
    first = mirror.append(1, 0, data)
    assert len(first) == 1, "what follows may be the long frame"
    assert [*first, *mirror.finish(1)] == whole(data, tmp_path)
    assert mirror.finish(1) == []


def test_a_copy_that_ends_with_its_seal_is_read_to_its_end(journal: bytes, tmp_path: Path) -> None:
    data = with_lying_length(journal, tmp_path)
    Mirror(tmp_path / "run").append(1, 0, data)
    again = Mirror(tmp_path / "run")
    assert [item for items in again.read(1) for item in items] == whole(data, tmp_path)
    path = journal_path(again.folder, 1)
    assert ends_sealed(path, len(data))
    assert not ends_sealed(path, len(data) - 1), "what was read is not all, so nothing in it is torn"
    path.write_bytes(data[:-1])
    assert not ends_sealed(path, len(data) - 1)
    assert len([item for items in again.read(1) for item in items]) == 1, "the seal may still come"
