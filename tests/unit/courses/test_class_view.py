"""The class of a course: hand-ins with receipts, late and altered ones, and the table that a teacher reads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from clew_gui.commands.main import main
from clew_gui.courses.board import Board, BoardLine, Member, fold_line
from clew_gui.courses.class_view import (
    HandedIn,
    HandInFolder,
    Receipt,
    ask_queue,
    class_table,
    class_view,
    send_hand_in,
    shared_curves,
)
from clew_gui.courses.course import Assigned, Course, Lesson, applied
from clew_gui.courses.shared_folder import SharedFolder
from clew_gui.reports.check import HandinVerdict, check_handin
from clew_gui.reports.facts import ExerciseFact, ReportFacts, read_source
from clew_gui.reports.handin import open_handin, write_handin
from clew_gui.reports.page import report_of
from clew_gui.schedulers.registry import SchedulerName, scheduler_of
from clew_gui.schedulers.scheduler import Question
from clew_gui.schedulers.state import Output
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.places import Places
from clew_shared.catalogue import load_builtin
from clew_shared.params import Value
from tests.class_folder import class_folder
from tests.unit.reports.test_handin import made_run

END = datetime(2026, 12, 1, 18, tzinfo=UTC)
COURSE = Course(
    format=1,
    id="dl",
    title="DL",
    lessons=(
        Lesson(title="One", until=END, exercises=(Assigned(id="softmax", goals=("slides",), questions=("Why so?",)),)),
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> SharedFolder:
    """The folder for hand-ins."""
    return class_folder(tmp_path / "handins")


def facts(student: str = "Ada") -> ReportFacts:
    exercises = (ExerciseFact(id="softmax", title="Softmax"),)
    return ReportFacts(format=1, version="", student=student, created=0.0, exercises=exercises, goals=(), runs=())


def send(folder: SharedFolder, kept: Path, data: bytes, now: float, student: str = "Ada") -> Receipt:
    bundle = kept.with_name("bundle")
    bundle.write_bytes(data)
    return send_hand_in(COURSE, folder, bundle, facts(student), kept, now)


def there(folder: SharedFolder) -> list[bytes]:
    return sorted(path.read_bytes() for path in Path(folder.place.path).iterdir())


def test_a_hand_in_replaces_the_students_own_and_nobody_elses(folder: SharedFolder, tmp_path: Path) -> None:
    first = send(folder, tmp_path / "kept", b"first", 1.0)
    second = send(folder, tmp_path / "kept", b"second", 1.0)
    send(folder, tmp_path / "kept", b"of Ben", 1.0, "Ben")
    assert first.file == second.file
    assert there(folder) == [b"of Ben", b"second"]
    assert second.sha256 in second.words


def test_one_that_comes_late_leaves_the_one_in_time(folder: SharedFolder, tmp_path: Path) -> None:
    send(folder, tmp_path / "kept", b"in time", 1.0)
    after = END.timestamp() + 60
    send(folder, tmp_path / "kept", b"late", after)
    send(folder, tmp_path / "kept", b"later", after)
    assert there(folder) == [b"in time", b"late", b"later"] or there(folder) == [b"in time", b"later"]


def test_receipts_that_nobody_can_read_stop_nothing(folder: SharedFolder, tmp_path: Path) -> None:
    send(folder, tmp_path / "kept", b"first", 1.0)
    (tmp_path / "kept/receipts.json").write_text("{")
    send(folder, tmp_path / "kept", b"second", 1.0)
    assert there(folder) == [b"first", b"second"]


# --- Hand-ins of a course ---------------------------------------------------------------------------------------------


def made(tmp_path: Path, course: str) -> Path:
    """A hand-in of a run that was started in a course, as the student's computer makes it."""
    run = made_run(tmp_path / "run", student="Ada", course=course)
    source = read_source(run)
    cards = {card.id: card for card in applied(COURSE if course else None, load_builtin()).exercises}
    places = Places(home=tmp_path / "home", private=tmp_path / "private")
    return write_handin(tmp_path / "a.clew.zip", report_of(places, [source], cards, "Ada", {}), [source])


def test_what_a_course_counts_and_asks_makes_no_hand_in_altered(tmp_path: Path) -> None:
    known = {card.id: card for card in load_builtin().exercises}
    found = check_handin(open_handin(made(tmp_path, "dl"), tmp_path / "into"), known)
    assert found.problems == ()
    assert found.facts is not None
    assert [one.question for one in found.facts.exercises[0].answers][-1] == "Why so?"
    assert [goal.id for goal in found.facts.goals] == ["slides"]


def test_a_hand_in_that_came_in_part_is_not_called_altered(folder: SharedFolder, tmp_path: Path) -> None:
    data = made(tmp_path, "dl").read_bytes()
    folder.append("ada.clew.zip", 0, data[: len(data) // 2])

    def check(path: Path) -> HandinVerdict:
        return check_handin(open_handin(path, path.with_name("opened")), {})

    (one,) = HandInFolder(COURSE, folder, check, ()).refresh()
    assert (one.checked, one.ok) == ("NOT CHECKED", False)
    assert "is not a hand-in that can be read" in one.notes[0]
    assert "clew-class-" not in one.notes[0]


def test_goals_that_a_hand_in_leaves_out_are_named(folder: SharedFolder, tmp_path: Path) -> None:
    folder.append("a.clew.zip", 0, b"x")
    card = next(card for card in load_builtin().exercises if card.id == "softmax")
    goal = card.goals[0]
    fact = facts()
    fact = msgspec.structs.replace(fact, goals=())
    verdict = HandinVerdict(problems=(), facts=fact)
    (one,) = HandInFolder(COURSE, folder, lambda _: verdict, (msgspec.structs.replace(card, goals=(goal,)),)).refresh()
    assert goal.text in " ".join(one.notes)


# --- The table --------------------------------------------------------------------------------------------------------


def test_the_table_joins_board_and_hand_ins_by_account() -> None:
    cards = applied(COURSE, load_builtin()).exercises
    members = []
    for name in ("Ada", "Ben"):
        member = Member(file=f"{name}.board", owner=name.lower(), runs={})
        fold_line(member, f'{{"time": 1, "name": "{name}"}}'.encode(), 9.0)
        fold_line(member, b'{"time": 2, "exercise": "softmax", "run": "r", "state": "RUNNING", "best": 0.5}', 9.0)
        members.append(member)
    handed = [
        HandedIn("a.zip", "Softmax", "ada", 1.0, "", "as recorded", True, "Ada", "1 of 2"),
        HandedIn("z.zip", "Softmax", "zoe", 1.0, "2 h late", "ALTERED", False, "Zoe", "0 of 2"),
    ]
    rows = class_view(COURSE, cards, members, handed, 9.0)
    found = [(row.name, row.owner, len(row.handed)) for row in rows]
    assert found == [("Ada", "ada", 1), ("Ben", "ben", 0), ("Zoe", "zoe", 1)]
    heads, *lines = class_table(rows, cards, names=False)
    assert [line[0] for line in lines] == ["Student 1", "Student 2", "Student 3"]
    assert lines[2][heads.index("Handed in")] == "Softmax: ALTERED, 0 of 2, 2 h late"


def seen(name: str, owner: str, *runs: BoardLine) -> Member:
    member = Member(file=f"{name}.board", owner=owner, runs={})
    for line in (BoardLine(time=1.0, name=name), *runs):
        fold_line(member, msgspec.json.encode(line), 99.0)
    return member


def test_a_hand_in_of_a_shared_account_is_in_nobody_elses_row() -> None:
    handed = [HandedIn("a.zip", "Softmax", "lab", 1.0, "", "as recorded", True, "Anna", "1 of 2")]
    cards = applied(COURSE, load_builtin()).exercises
    rows = class_view(COURSE, cards, [seen("Eve", "lab"), seen("Zoe", "lab")], handed, 9.0)
    assert [(row.name, len(row.handed)) for row in rows] == [("Anna", 1), ("Eve", 0), ("Zoe", 0)]
    (row,) = class_view(COURSE, cards, [seen("Pia", "lab")], handed, 9.0)
    assert (row.name, len(row.handed), row.notes) == ("Pia", 1, ("handed in under another name: Anna",))


def test_the_race_shows_everybodys_best_run_and_none_that_diverged(folder: SharedFolder) -> None:
    card = next(card for card in applied(COURSE, load_builtin()).exercises if card.id == "softmax")
    lines = [
        BoardLine(time=5.0, exercise="softmax", run="a", best=0.9, points=((1, 0.9),)),
        BoardLine(time=6.0, exercise="softmax", run="b", best=0.5, points=((1, 0.5),)),
        BoardLine(time=7.0, exercise="softmax", run="c", best=0.95, points=((1, 1e20),), diverged=True),
    ]
    board = Board(folder)
    board.members["Ada.board"] = seen("Ada", "ada", *lines)
    rows = class_view(COURSE, [card], board.members.values(), [], 9.0)
    (run,) = shared_curves(board, rows, card, names=True).values()
    assert run.line.run == "a"


SQUEUE = "7|RUNNING|None|node1|2026-12-02T10:00:00|2026-12-02T11:00:00|1:00:00|1|a\n"
WAITS = "|PENDING|Resources||2026-12-0{}T11:00:00|2026-12-08T12:00:00|1:00:00|1|b\n"


def connection(name: SchedulerName, output: Output) -> tuple[SiteConnection, list[tuple[str, ...]]]:
    asked: list[tuple[str, ...]] = []

    def ask(question: Question[object] | None) -> object:
        if question is None:
            return None
        asked.append(question.command)
        return question.read(output)

    return cast("SiteConnection", SimpleNamespace(scheduler=scheduler_of(name), ask=ask)), asked


def in_lessons(**allocation: Value) -> Course:
    over = Lesson(title="Over", until=END, allocation={"reservation": "monday"})
    return msgspec.structs.replace(COURSE, lessons=(over, Lesson(title="On", allocation=allocation)))


@pytest.mark.parametrize(
    ("scheduler", "allocation", "output", "command", "said"),
    [
        (
            "slurm",
            {"reservation": "tuesday"},
            Output(0, SQUEUE + f"8{WAITS.format(5)}9{WAITS.format(3)}"),
            "--reservation=tuesday",
            "tuesday: 1 job running, 2 waiting, the next one begins at 2026-12-03",
        ),
        ("slurm", {"partition": "gpu"}, Output(0), "--partition=gpu", "gpu: 0 jobs running, 0 waiting"),
        ("slurm", {"partition": "gpu"}, Output(1, err="Unable to contact"), "gpu", "gpu: the site does not say"),
        (
            "pbs",
            {"partition": "R12"},
            Output(0, "Job Id: 7.login\n    job_state = R\nJob Id: 8.login\n    job_state = Q\n"),
            "R12",
            "R12: 1 job running, 1 waiting",
        ),
    ],
)
def test_the_queue_of_the_lesson_that_is_on_is_counted(
    scheduler: SchedulerName, allocation: dict[str, Value], output: Output, command: str, said: str
) -> None:
    site, asked = connection(scheduler, output)
    found = ask_queue(in_lessons(**allocation), site, END.timestamp() + 1)
    assert found is not None
    assert command in asked[0][-2] + asked[0][-1]
    assert found.words.startswith(said)


@pytest.mark.parametrize(("scheduler", "words"), [("pbs", "tuesday: the site does not say"), ("none", "tuesday: the")])
def test_a_queue_that_cannot_be_asked_for_is_not_called_empty(scheduler: SchedulerName, words: str) -> None:
    site, asked = connection(scheduler, Output(0))
    found = ask_queue(in_lessons(reservation="tuesday", partition="batch"), site, END.timestamp() + 1)
    assert found is not None
    assert found.words.startswith(words)
    assert not asked


def test_without_a_reservation_nobody_asks_for_a_queue() -> None:
    site, asked = connection("slurm", Output(0, SQUEUE))
    assert ask_queue(in_lessons(), site, END.timestamp() + 1) is None
    assert not asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--html", "x.html", "--csv", "x.csv"], "must be named for --html"),
        (["handins", "--no-names"], "cannot be used with --no-names"),
        (["--json", "--no-names"], "--json has the names"),
        ([], "No course with a board is followed here"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(tmp_path))
    assert main(["class", *words]) == 2
    assert said in capsys.readouterr().err
