"""The board of a class: what a student shares, what others may plant there, and what a teacher reads of it."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.courses import board as board_module
from clew_gui.courses import shared_folder
from clew_gui.courses.board import LINE_BYTES, SUFFIX, Board, BoardLine, Member, Sharing, fold_line, line_of
from clew_gui.courses.course import SharedPlace
from clew_gui.courses.shared_folder import MOST_BYTES, Rights, SharedFolder
from clew_gui.deploy import folder_there
from clew_gui.deploy.folder_there import answer
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Points, RunState, Schema, State
from clew_shared.journal.history import History
from clew_shared.spec import RunSpec
from tests.class_folder import class_folder

NOW = 1_800_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> SharedFolder:
    """A shared folder on this computer."""
    return class_folder(tmp_path / "board")


def at(shared: SharedFolder, name: str) -> Path:
    return Path(shared.place.path, name)


def line(run: str = "aaaaaaaa", time: float = NOW, **words: object) -> BoardLine:
    usual = {"exercise": "softmax", "state": "RUNNING", "steps": 100}
    return BoardLine(time=time, run=run, **(usual | words))  # type: ignore[arg-type]


def sharing(tmp_path: Path, name: str = "Ada", curves: bool = False) -> Sharing:
    one = Sharing(tmp_path / f"of-{name}", "b")
    one.join(name, curves, NOW)
    return one


def read(shared: SharedFolder) -> list[Member]:
    seen = Board(shared)
    seen.refresh()
    return sorted(seen.members.values(), key=lambda member: member.name)


def test_the_teacher_sees_what_a_student_shares(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    one.note([line(step=10, best=0.5, goals={"accuracy": 5.0})])
    assert one.send(folder) > 0
    (member,) = read(folder)
    (run,) = member.of("softmax")
    assert (member.name, member.owner) == ("Ada", answer({"do": "rights", "folder": folder.place.path})["owner"])
    assert (run.line.step, run.line.best, member.reached("softmax")) == (10, 0.5, {"accuracy": 5.0})


def test_nothing_is_kept_before_joining(tmp_path: Path, folder: SharedFolder) -> None:
    one = Sharing(tmp_path / "own", "b")
    one.note([line()])
    assert one.send(folder) == 0
    assert not (tmp_path / "own").exists()
    assert read(folder) == []


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 61])
def test_a_name_that_nobody_could_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProblemError, match="needs a name"):
        Sharing(tmp_path / "own", "b").join(name, False, NOW)


def test_what_was_noted_offline_catches_up_and_is_sent_once(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    one.send(folder)
    for step in range(5):
        one.note([line(step=step, time=NOW + 20 * step)])
    again = Sharing(tmp_path / "of-Ada", "b")  # the next window
    again.note([line(step=4, time=NOW + 90)])
    assert again.send(folder) > 0
    assert again.send(folder) == 0
    (member,) = read(folder)
    assert member.of("softmax")[0].line.step == 4
    assert len(at(folder, member.file).read_bytes().splitlines()) == 6


def test_a_run_that_has_ended_is_looked_at_once_until_it_goes_on_or_somebody_joins_again(tmp_path: Path) -> None:
    one = sharing(tmp_path)
    one.note([line(run="0123abcd", state="FINISHED")])
    assert one.is_settled("0123abcd-and-more", RunState.FINISHED)
    assert not one.is_settled("0123abcd-and-more", RunState.RUNNING)
    assert not one.is_settled("another", RunState.FINISHED)
    one.join("Ada", True, NOW)  # with curves now
    assert not one.is_settled("0123abcd-and-more", RunState.FINISHED)


def test_without_news_nobody_asks_the_site(
    tmp_path: Path, folder: SharedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sharing(tmp_path)
    asked, do = list[str](), folder._do

    def noted(what: str, **words: object) -> dict[str, object]:
        asked.append(what)
        return do(what, **words)

    monkeypatch.setattr(folder, "_do", noted)
    one.send(folder)
    one.note([line(step=1)])
    asked.clear()
    one.send(folder)
    assert asked == ["rights", "append"]
    one.send(folder)
    assert asked == ["rights", "append"]


def test_steps_alone_are_no_news_for_a_while(tmp_path: Path) -> None:
    one = sharing(tmp_path)
    for second in range(30):
        one.note([line(step=second, time=NOW + second)])
    one.note([line(step=30, time=NOW + 30, state="FINISHED")])
    assert len((tmp_path / "of-Ada/shared.lines").read_bytes().splitlines()) == 4  # name, 0 s, 15 s, the end


def test_a_long_term_begins_a_new_file_that_says_the_same(
    tmp_path: Path, folder: SharedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_module, "_FULL", 2_000)
    one = sharing(tmp_path)
    for number in range(40):
        one.note([line(step=number, time=NOW + 20 * number)])
        one.send(folder)
        assert len(list(Path(folder.place.path).iterdir())) == 1
    (member,) = read(folder)
    assert (member.name, member.of("softmax")[0].line.step) == ("Ada", 39)
    assert at(folder, member.file).stat().st_size < 4_000


def test_what_is_on_an_earlier_board_of_the_course_is_deleted_there_first(tmp_path: Path, folder: SharedFolder) -> None:
    Sharing(tmp_path / "of", folder.place.path).join("Ada", curves=False, now=NOW)
    Sharing(tmp_path / "of", folder.place.path).send(folder)
    moved = Sharing(tmp_path / "of", "another board")
    assert (moved.member, moved.board) == (None, folder.place.path)
    with pytest.raises(ProblemError, match="You still share on"):
        moved.join("Ada", curves=False, now=NOW)
    moved.leave(folder)
    assert not list(Path(folder.place.path).iterdir())
    moved.join("Ada", curves=False, now=NOW)
    assert moved.member is not None


def test_what_is_sent_while_one_leaves_is_deleted_as_well(tmp_path: Path, folder: SharedFolder) -> None:
    one, other = sharing(tmp_path), Sharing(tmp_path / "of-Ada", "b")

    class Slow(SharedFolder):
        """A folder whose rights take a while: meanwhile another window leaves."""

        def checked(self) -> SharedFolder:
            other.leave(folder)
            return self

    one.send(Slow(folder.place))
    assert not list(Path(folder.place.path).iterdir())
    assert one.member is None


def test_who_joins_again_keeps_the_times_of_goals(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    one.note([line(time=5.0, state="FINISHED", goals={"accuracy": 5.0})])
    one.join("Ada L.", curves=True, now=60.0)
    assert not one.is_settled("aaaaaaaa", RunState.FINISHED), "it is told again, with its curve"
    for _ in range(2):
        one.note([line(time=65.0, state="FINISHED", goals={"accuracy": 65.0}, points=((1, 0.5),))])
    assert one.is_settled("aaaaaaaa", RunState.FINISHED)
    one.send(folder)
    (member,) = read(folder)
    assert (member.name, member.reached("softmax")) == ("Ada L.", {"accuracy": 5.0})
    assert member.of("softmax")[0].line.points


def test_joining_without_room_on_the_disk_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("clew_gui.base.settings.write_private", full)
    one = Sharing(tmp_path / "of", "b")
    with pytest.raises(ProblemError, match="No space left on device"):
        one.join("Ada", curves=False, now=NOW)
    assert one.member is None


def test_leaving_deletes_it_here_and_there(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    one.send(folder)
    one.leave(folder)
    assert list(Path(folder.place.path).iterdir()) == []
    assert list((tmp_path / "of-Ada").iterdir()) == []
    assert one.member is None


def test_a_reader_goes_on_where_it_was(tmp_path: Path, folder: SharedFolder) -> None:
    one, seen = sharing(tmp_path), Board(folder)
    one.send(folder)
    seen.refresh()
    (file,) = seen.members
    with at(folder, file).open("ab") as half:  # a line whose end comes later
        half.write(b'{"time": 5, "run": "r1", "exer')
    seen.refresh()
    with at(folder, file).open("ab") as half:
        half.write(b'cise": "softmax", "step": 7}\n')
    seen.refresh()
    assert seen.members[file].of("softmax")[0].line.step == 7
    assert seen.members[file].strange == 0
    at(folder, file).unlink()
    seen.refresh()
    assert seen.members == {}


# --- What others may plant --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[1, 2]",
        b'{"time": "now"}',
        b'{"time": 1e999}',
        b'{"time": NaN}',
        b'{"time": -5}',
        b'{"time": 1, "name": "a\\u0007b"}',
        b'{"time": 1, "name": "' + b"x" * 61 + b'"}',
        b'{"time": 1, "run": "r", "points": ' + json.dumps([[n, 1.0] for n in range(200)]).encode() + b"}",
        b'{"time": 1, "name": "' + b"[" * LINE_BYTES + b'"}',
    ],
)
def test_a_line_that_clew_would_not_write_is_counted_and_not_believed(data: bytes) -> None:
    member = Member(file="f", owner="o", runs={})
    fold_line(member, data, NOW)
    assert (member.strange, member.name, member.runs) == (1, "", {})


@given(st.binary(max_size=200))
def test_no_line_breaks_the_reader(data: bytes) -> None:
    fold_line(Member(file="f", owner="o", runs={}), data, NOW)


def test_a_goal_keeps_the_time_when_it_was_first_reached(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    one.note([line(time=5.0, step=10, goals={"accuracy": 5.0})])
    one.note([line(time=65.0, step=20, goals={"accuracy": 65.0, "fast": 65.0})])
    one.note([line("bbbbbbbb", time=95.0, goals={"accuracy": 95.0})])
    one.send(folder)
    (member,) = read(folder)
    assert member.of("softmax")[0].line.goals == {"accuracy": 5.0, "fast": 65.0}
    assert member.reached("softmax") == {"accuracy": 5.0, "fast": 65.0}


def test_a_time_in_the_future_is_the_files_own() -> None:
    member = Member(file="f", owner="o", runs={})
    fold_line(member, b'{"time": 99999999999, "run": "r", "exercise": "softmax", "goals": {"a": 99999999999}}', NOW)
    assert (member.runs["r"].line.time, member.reached("softmax")) == (NOW, {"a": NOW})


@pytest.mark.unix
def test_links_pipes_and_twins_are_not_read(tmp_path: Path, folder: SharedFolder) -> None:
    (tmp_path / "secret").write_text('{"time": 1, "name": "secret"}\n')
    at(folder, f"a{SUFFIX}").symlink_to(tmp_path / "secret")
    os.mkfifo(at(folder, f"b{SUFFIX}"))
    os.link(tmp_path / "secret", at(folder, f"c{SUFFIX}"))
    at(folder, f"d{SUFFIX}").mkdir()
    found = read(folder)
    assert [(member.name, bool(member.refused)) for member in found] == [("", True)] * 4


def test_a_huge_file_is_read_up_to_its_limit(folder: SharedFolder) -> None:
    with at(folder, f"a{SUFFIX}").open("wb") as file:
        file.truncate(10 * MOST_BYTES)
    seen = Board(folder)
    for _ in range(3):
        seen.refresh()
    assert sum(size for size, _ in seen._read.values()) == MOST_BYTES
    assert seen.members[f"a{SUFFIX}"].strange > 0


@pytest.mark.unix
def test_names_that_are_no_text_are_said_and_break_nothing(folder: SharedFolder) -> None:
    for name in (b"\xff", b"\x1b[31m", b"\nclew:{}\n", b"clew:{}"):
        Path(os.fsdecode(os.fsencode(folder.place.path) + b"/" + name + SUFFIX.encode())).write_bytes(b"x")
    seen = Board(folder)
    for _ in range(2):
        seen.refresh()
    assert [bool(member.refused) for member in seen.members.values()] == [True, True, False, True]
    assert all(member.owner for member in seen.members.values())
    msgspec.json.encode(list(seen.members.values()))


@pytest.mark.unix
def test_nobody_crowds_out_the_others(folder: SharedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        at(folder, f"{number}{SUFFIX}").write_bytes(b"x" * 2_000)
    one = sharing(tmp_path)
    one.send(folder)
    assert one.member is not None
    os.chown(at(folder, one.member.file), 4711, -1)
    monkeypatch.setattr(shared_folder, "MOST_FILES", 10)
    monkeypatch.setattr(shared_folder, "_ROOM", 3_000)
    seen = Board(folder)
    seen.refresh()
    assert (len(seen.members), seen.more) == (10, 21)
    assert seen.members[one.member.file].name == "Ada"


def test_a_file_is_fetched_though_another_name_ends_as_its_own(tmp_path: Path, folder: SharedFolder) -> None:
    at(folder, "a-course.zip").write_bytes(b"theirs")
    at(folder, "course.zip").write_bytes(b"mine")
    one = next(one for one in folder.look("course.zip", {})[0] if one.name == "course.zip")
    folder.fetch(one, tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == b"mine"
    at(folder, "course.zip").unlink()
    with pytest.raises(ProblemError, match="changed meanwhile"):
        folder.fetch(one, tmp_path / "here")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "..", "", "a/b", "a\n", "\udcff"])
def test_no_name_leaves_the_folder(folder: SharedFolder, name: str) -> None:
    with pytest.raises(ProblemError, match=r"no name of a file|Is a directory|Permission denied|no file"):
        folder.append(name, 0, b"x")


@pytest.mark.unix
def test_a_planted_file_is_not_written_to(tmp_path: Path, folder: SharedFolder) -> None:
    (tmp_path / "mine").write_text("mine")
    at(folder, "a.board").symlink_to(tmp_path / "mine")
    with pytest.raises(ProblemError):
        folder.append("a.board", 4, b"theirs")
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("mode", "listed", "ours", "safe"),
    [
        (0o3733, False, False, True),
        (0o1773, True, True, True),  # the group's bits are the list's mask
        (0o3733, False, True, False),  # classmates are in the group that reads
        (0o1733, False, False, False),  # new files get the student's own group
        (0o2733, False, False, False),  # others could remove files
        (0o3737, False, False, False),  # others could list them
        (0o3773, False, False, False),
        (0o1777, False, True, False),
        (0o1777, True, True, False),
    ],
)
def test_only_a_folder_that_protects_its_files_is_written_to(mode: int, listed: bool, ours: bool, safe: bool) -> None:
    rights = Rights(folder=True, mode=mode, owner="t", ours=ours, listed=listed, posix=True)
    assert (rights.problem("/b") is None) == safe


@pytest.mark.unix
def test_a_folder_that_others_can_replace_is_not_written_to(folder: SharedFolder) -> None:
    folder.checked()
    above = Path(folder.place.path).parent
    above.chmod(0o777)
    with pytest.raises(ProblemError, match="could replace the folder and read yours"):
        folder.checked()
    above.chmod(0o1777)
    folder.checked()


ENTRIES = {
    "u::": (1, 6, -1),
    "g::": (4, 0, -1),
    "u:0": (2, 4, 0),
    "g:9": (8, 4, 9),
    "m::": (16, 4, -1),
    "o::": (32, 0, -1),
}


@pytest.mark.unix
@pytest.mark.parametrize(
    ("changed", "groups", "listed"),
    [
        ({}, {20}, True),  # a teacher, and a group of teachers
        ({}, {9, 20}, False),  # the group that reads is the student's own
        ({"g::": (4, 4, -1)}, {20}, False),  # each file's group reads it
    ],
)
def test_a_list_that_lets_classmates_read_protects_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    changed: dict[str, tuple[int, int, int]],
    groups: set[int],
    listed: bool,
) -> None:
    entries = b"".join(struct.pack("<HHi", *entry) for entry in (ENTRIES | changed).values())
    monkeypatch.setattr(os, "getxattr", lambda _path, _name: b"\2\0\0\0" + entries)
    monkeypatch.setattr(os, "getgroups", lambda: list(groups))
    monkeypatch.setattr(os, "getgid", lambda: 20)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    tmp_path.chmod(0o1773)
    assert answer({"do": "rights", "folder": str(tmp_path)})["shown"] is not listed


@pytest.mark.unix
def test_a_group_that_does_not_exist_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no such account or group"):
        SharedFolder(SharedPlace("", str(tmp_path / "board"))).make(group="nobody-has-this")
    assert not (tmp_path / "board").exists()


def test_a_disk_that_is_full_is_said_and_not_called_damage(
    folder: SharedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [3]

    class Full:
        """A file on a disk with room for three bytes."""

        def __init__(self, handle: int, *words: object, **more: object) -> None:
            self._handle = handle

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            os.close(self._handle)

        def write(self, data: bytes) -> int:
            if not room[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            written = os.write(self._handle, data[: room[0]])
            room[0] -= written
            return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", Full)
        with pytest.raises(ProblemError, match="No space left on device"):
            folder.append("a.zip", 0, b"hand-in")


def test_a_hand_in_arrives_whole_and_replaces_the_earlier_one(tmp_path: Path, folder: SharedFolder) -> None:
    for data in (b"first", b"second" * 1_000_000):
        (tmp_path / "h.zip").write_bytes(data)
        digest, when = folder.put("ada.zip", tmp_path / "h.zip")
        assert at(folder, "ada.zip").read_bytes() == data
        assert len(digest) == 64
        assert when > 0
    assert [path.name for path in Path(folder.place.path).iterdir()] == ["ada.zip"]


# --- What is shared ---------------------------------------------------------------------------------------------------


def test_a_line_says_what_the_card_counts() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    spec = RunSpec(exercise="softmax", run="0123456789", params={"steps": 300})
    made = line_of(History(), RunState.QUEUED, spec, card, NOW, curves=True)
    assert (made.run, made.state, made.steps, made.best, made.goals, made.points) == (
        "01234567",
        "QUEUED",
        300,
        None,
        {},
        (),
    )


@pytest.mark.parametrize(
    ("words", "idle", "said"),
    [
        ({"state": "RUNNING"}, 60, ""),
        ({"state": "RUNNING"}, 1200, "no step for 20 min"),
        ({"state": "FAILED"}, 5, "failed"),
        ({"state": "TIMED_OUT"}, 5, "out of time"),
        ({"state": "FINISHED", "diverged": True}, 5, "diverged"),
        ({"state": "QUEUED"}, 600, ""),
        ({"state": "QUEUED"}, 3600, "waits for 60 min"),
        ({"state": "FINISHED"}, 86400, ""),
        ({"state": "nonsense"}, 86400, ""),
    ],
)
def test_who_is_stuck_is_said(words: dict[str, object], idle: float, said: str) -> None:
    member = Member(file="f", owner="o", runs={})
    for time in (NOW, NOW + idle):
        fold_line(member, json.dumps({"time": time, "run": "r", "exercise": "softmax", **words}).encode(), time)
    assert member.stuck() == said


@pytest.mark.parametrize(
    ("state", "silent", "said"),
    [
        ("RUNNING", 500, ""),
        ("RUNNING", 1200, "not heard of for 20 minutes"),
        ("QUEUED", 7200, "not heard of for 2 hours"),
        ("FINISHED", 7200, ""),
    ],
)
def test_a_run_that_nobody_tells_of_is_not_called_stuck(state: str, silent: float, said: str) -> None:
    member = Member(file="f", owner="o", runs={}, seen=NOW)
    fold_line(member, json.dumps({"time": NOW, "run": "r", "exercise": "softmax", "state": state}).encode(), NOW)
    assert (member.stuck(), member.unheard(NOW + silent)) == ("", said)


def test_a_run_that_goes_on_without_news_is_told_again(tmp_path: Path) -> None:
    one = sharing(tmp_path)
    for state in ("RUNNING", "FINISHED"):
        for minute in range(22):
            one.note([line(time=NOW + 60 * minute, state=state)])
    lines = [json.loads(text) for text in (tmp_path / "of-Ada/shared.lines").read_bytes().splitlines()]
    assert [(text["state"], text["time"] - NOW) for text in lines[1:]] == [
        ("RUNNING", 0),
        ("RUNNING", 360),
        ("RUNNING", 720),
        ("RUNNING", 1080),
        ("FINISHED", 0),
    ]


# --- Agreement, and what goes wrong -----------------------------------------------------------------------------------


def test_agreement_is_for_one_board(tmp_path: Path) -> None:
    sharing(tmp_path)
    assert Sharing(tmp_path / "of-Ada", "another").member is None
    assert Sharing(tmp_path / "of-Ada", "b").member is not None


def test_who_joins_again_shares_from_the_beginning(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    one.note([line(step=5)])
    one.send(folder)
    one.leave(folder)
    one.join("Ada", False, NOW)
    one.note([line(step=5)])
    one.send(folder)
    (member,) = read(folder)
    assert [run.line.step for run in member.of("softmax")] == [5]


def test_what_was_lost_here_begins_again_in_a_new_file(tmp_path: Path, folder: SharedFolder) -> None:
    one = sharing(tmp_path)
    for step in range(5):
        one.note([line(step=step, time=NOW + 20 * step)])
    one.send(folder)
    (tmp_path / "of-Ada/shared.lines").write_bytes(b"")
    again = Sharing(tmp_path / "of-Ada", "b")
    again.note([line(step=9, time=NOW + 200)])
    again.send(folder)
    assert [[run.line.step for run in member.of("softmax")] for member in read(folder)] == [[9]]


def test_a_clock_that_was_set_back_stops_nothing(tmp_path: Path) -> None:
    one = sharing(tmp_path)
    one.note([line(step=1, time=NOW)])
    one.note([line(step=2, time=NOW - 3600)])
    assert (tmp_path / "of-Ada/shared.lines").read_bytes().count(b'"step":2') == 1


@pytest.mark.parametrize(
    "words",
    [
        {"step": 10**400},
        {"step": -1},
        {"steps": 2**60},
        {"best": 1e308},
        {"points": [[1, 1e300], [2, 1e300]]},
        {"points": [[-5, 1.0]]},
        {"goals": {"a": -1}},
    ],
)
def test_numbers_that_no_chart_holds_are_not_believed(words: dict[str, object]) -> None:
    member = Member(file="f", owner="o", runs={})
    fold_line(member, json.dumps({"time": 1, "run": "r", **words}).encode(), NOW)
    assert (member.strange, member.runs) == (1, {})


@pytest.mark.unix
def test_a_file_says_when_it_was_changed_whatever_its_owner_sets(folder: SharedFolder) -> None:
    folder.append("a.zip", 0, b"late")
    os.utime(at(folder, "a.zip"), (1_000_000_000, 1_000_000_000))
    (one,), _ = folder.look("a.zip", {})
    assert one.time > 1_700_000_000


def test_a_file_is_fetched_by_its_whole_name(tmp_path: Path, folder: SharedFolder) -> None:
    folder.append("2025-ml.zip", 0, b"old")
    folder.append("ml.zip", 0, b"new")
    files, _ = folder.look("ml.zip", {})
    for one in files:
        folder.fetch(one, tmp_path / one.name)
    assert (tmp_path / "ml.zip").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ([(2, 4, 7)], False),  # the owner of the folder
        ([(2, 4, 8)], True),
        ([(8, 4, 100)], True),  # a group of this account
        ([(8, 4, 200), (4, 0, 0), (32, 0, 0)], False),  # the teachers'
        ([(32, 4, 0)], True),
    ],
)
def test_an_access_list_that_shows_files_to_others_is_seen(
    entries: list[tuple[int, int, int]], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"\x02\0\0\0" + b"".join(struct.pack("<HHI", *one) for one in entries)
    monkeypatch.setattr(folder_there, "_posix", SimpleNamespace(getxattr=lambda *_: data))
    assert folder_there.others_read(Path("/b"), 7, [100]) is shown
    rights = Rights(folder=True, mode=0o1773, owner="t", ours=True, listed=True, posix=True, shown=shown)
    assert (rights.problem("/b") is not None) == shown


def test_a_run_that_diverged_is_shared_as_such_and_believed() -> None:
    card = find_card(load_builtin().exercises, "linear-regression")
    spec = RunSpec(exercise="linear-regression", run="0123456789")
    history = History()
    loss = next(metric for metric in card.metrics if metric.name == "loss")
    values = np.array([1.0, 2.7e70, 4.2e288, np.inf])
    for event in (
        Attempt(format=1, run=spec.run, attempt=1, exercise=spec.exercise, spec_sha256=""),
        Schema(id=1, metrics=(loss,), batch_size=4, samples_per_epoch=4),
        State(state=RunState.RUNNING),
        Points(schema=1, first=0, count=4, seconds=1.0, clock=1.0, values=(values.astype(loss.dtype).tobytes(),)),
    ):
        history.feed(1, event)
    line = line_of(history, RunState.FAILED, spec, card, NOW, curves=True)
    assert line.time == NOW
    history.feed(1, State(state=RunState.FAILED, time=NOW - 60))
    ended = line_of(history, RunState.FAILED, spec, card, NOW, curves=True)
    assert ended.time == NOW - 60, "the run that ended last is the latest, whenever it is shared"
    member = Member(file="f", owner="o", runs={})
    fold_line(member, msgspec.json.encode(line), NOW)
    assert (member.strange, member.stuck()) == (0, "diverged")
    assert [value for _, value in line.points] == [1.0]
