"""Courses: what a file may hold, what opening one adds, how the catalogue follows it, and that it leaves no trace."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.base.settings import course_exercises, exercises_folder, local_settings
from clew_gui.base.student import signed
from clew_gui.commands.main import main
from clew_gui.courses.board import Sharing
from clew_gui.courses.course import (
    Course,
    SharedPlace,
    allocation_in,
    applied,
    check_exercises,
    from_text,
    late_words,
    read_place,
    site_name,
)
from clew_gui.courses.course_file import (
    SUFFIX,
    CourseFiles,
    from_files,
    read_course,
    unpacked,
    what_it_adds,
    write_course,
)
from clew_gui.courses.store import Courses
from clew_gui.doctor.home import class_folders
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_shared.base import operating_system
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import load_builtin
from clew_shared.goal_settings import questions
from clew_shared.spec import RunSpec
from tests.class_folder import class_folder

COURSE = """format = 1
id = "dl-2026"
title = "Deep learning"
teachers = ["Ada"]
board = "cluster:/course/board"

[[data]]
name = "mnist"
path = "cluster:/course/mnist.npz"

[[lessons]]
title = "Lines"
until = 2026-12-01T18:00:00+01:00
allocation = { reservation = "monday", nodes = 2 }
exercises = [{ id = "softmax", preset = "adam", data = "digits", goals = [], questions = ["Why?"] }]

[[lessons]]
title = "More"
exercises = [{ id = "linear-regression" }, { id = "own-one" }]
"""
SITE = 'format = 1\nhost = "login.example.org"\nscheduler = "slurm"\nprologue = "module load x"\n'
SITE_FILE = {"sites/cluster.toml": SITE.encode()}
FILES = {
    "course.toml": COURSE.encode(),
    **SITE_FILE,
    "exercises/own.py": b"print('never run unseen')\n",
}
MOVED = {"course.toml": COURSE.replace('"cluster:', '"other:').encode(), "sites/other.toml": SITE.encode()}
"""The same course on another site."""


@pytest.fixture
def home(tmp_path: Path) -> Places:
    """The folders of one user."""
    return Places(home=tmp_path / "home", private=tmp_path / "private")


def course(text: str = COURSE) -> Course:
    return from_text(text, ["cluster"], "course.toml")


def refusal(text: str) -> str:
    with pytest.raises(ProblemError) as caught:
        course(text)
    return str(caught.value)


def test_lessons_are_the_chapters_and_say_what_counts() -> None:
    seen = applied(course(), load_builtin())
    softmax, line, own = seen.exercises
    assert seen.chapters == ("Lines", "More")
    assert [card.chapter for card in seen.exercises] == ["Lines", "More", "More"]
    assert softmax.goals == ()
    assert line.goals != ()
    assert softmax.presets[0].name == "adam"
    assert softmax.datasets[0] == "digits"
    assert questions(softmax.guide)[-1] == "Why?"
    assert len(questions(softmax.guide)) > 1
    assert own.problem is not None
    assert own.problem.code == "course.exercise"


def test_the_text_of_a_lesson_begins_the_guide_of_its_first_exercise() -> None:
    text = COURSE.replace('title = "More"', 'title = "More"\ntext = "\\nDo **this**.\\n"')
    line, other = applied(course(text.replace('"own-one"', '"cnn"')), load_builtin()).exercises[1:]
    assert line.guide.startswith("## More\n\nDo **this**.\n\n## Find the line")
    assert "Do **this**" not in other.guide


def test_the_guide_says_where_the_data_of_the_course_are() -> None:
    cards = {card.id: card for card in applied(course(), load_builtin()).exercises}
    assert "Your course has mnist here: `dl-2026-cluster:/course/mnist.npz`" in cards["softmax"].guide
    assert "Your course has" not in cards["linear-regression"].guide


def test_what_the_course_lacks_comes_last_where_all_is_needed() -> None:
    seen = applied(course(), load_builtin(), rest=True)
    assert {card.id for card in load_builtin().exercises} < {card.id for card in seen.exercises}
    assert applied(None, load_builtin()) == load_builtin()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("format = 1", "format = 2", "format 2"),
        ('id = "dl-2026"', 'id = "../x"', "cannot have the id"),
        ('id = "dl-2026"', 'id = "con"', "cannot have the id"),
        ('title = "Deep learning"', 'title = " "', "titles of their own"),
        ("2026-12-01T18:00:00+01:00", "2026-12-01T18:00:00", "with its zone"),
        ('"cluster:/course/board"', '"clutser:/course/board"', "Did you mean cluster?"),
        ('"cluster:/course/board"', '"cluster:/course/../etc"', "no path"),
        ('{ id = "linear-regression" }', '{ id = "softmax" }', "softmax is there twice"),
        ("nodes = 2", "nodes = 0", "at least 1"),
        ("nodes = 2", 'reservation2 = "x"', "reservation2"),
        ('title = "More"', 'title = "More"\nsecret = 1', "secret"),
        ('title = "More"', "title = 5", "lessons[1].title"),
    ],
)
def test_a_wrong_field_is_named(old: str, new: str, words: str) -> None:
    assert old in COURSE
    assert words in refusal(COURSE.replace(old, new))


def test_an_exercise_preset_goal_or_data_set_that_is_not_there_is_named() -> None:
    text = COURSE.replace('preset = "adam"', 'preset = "adma"').replace("goals = []", 'goals = ["accuracy-95"]')
    found = " ".join(map(str, check_exercises(course(text), load_builtin())))
    assert "no exercise 'own-one'" in found
    assert "Did you mean adam?" in found
    assert "no goal 'accuracy-95'" in found


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("cluster:/a b/c", SharedPlace("cluster", "/a b/c")),
        ("cluster:~/board", SharedPlace("cluster", "~/board")),
        ("/mnt/board", SharedPlace("", "/mnt/board")),
        ("G:/board", SharedPlace("", "G:/board")),
        (r"G:\board", SharedPlace("", r"G:\board")),
        (r"\\server\class", SharedPlace("", r"\\server\class")),
    ],
)
def test_a_drive_of_windows_is_no_site(text: str, place: SharedPlace) -> None:
    assert read_place(text) == place


def test_a_job_asks_for_what_its_lesson_says() -> None:
    usual = AllocationRequest(partition="gpu", time="30")
    asked = allocation_in(course(), "softmax", usual)
    assert (asked.partition, asked.time, asked.reservation, asked.nodes) == ("gpu", "30", "monday", 2)
    assert allocation_in(course(), "linear-regression", usual) == allocation_in(None, "softmax", usual) == usual


def test_late_is_said_in_hours_and_days() -> None:
    until = course().lessons[0].until
    assert until is not None
    words = [late_words(until, until.timestamp() + late) for late in (-1, 0, 1, 3600 * 5, 86400 * 4)]
    assert words == ["", "", "1 second late", "5 hours late", "4 days late"]
    assert late_words(None, 1e10) == ""


# --- Files ------------------------------------------------------------------------------------------------------------


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def packed(path: Path, files: dict[str, bytes], kind: int = 0) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = kind << 16
            archive.writestr(info, data)
    return path


def test_a_folder_and_its_file_are_the_same_course(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", {**FILES, "notes.txt": b"mine", "exercises/__pycache__/own.pyc": b"x"})
    found = read_course(folder)
    again = read_course(write_course(tmp_path / f"c{SUFFIX}", found))
    assert found.digest == again.digest
    assert set(again.files) == set(FILES)
    assert read_course(packed(tmp_path / "above.zip", {f"c/{n}": d for n, d in FILES.items()})).digest == found.digest


def test_a_link_in_the_folder_is_not_packed(tmp_path: Path) -> None:
    folder = write(tmp_path / "c", FILES)
    (tmp_path / "secret").write_text("mine")
    (folder / "exercises/leak.py").symlink_to(tmp_path / "secret")
    assert "exercises/leak.py" not in read_course(folder).files


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py",
        "/etc/cron.d/x",
        "exercises/../../x.py",
        "exercises/con.py",
        pytest.param("a\\b.py", marks=pytest.mark.unix),  # on Windows it is a file in a folder
    ],
)
def test_a_file_outside_of_the_course_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProblemError, match="course"):
        read_course(packed(tmp_path / "c.zip", {**FILES, name: b"x"}))


def test_links_twins_and_bombs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no file of its own folder"):
        read_course(packed(tmp_path / "l.zip", FILES, stat.S_IFLNK | 0o777))
    with pytest.raises(ProblemError, match="twice"):
        read_course(packed(tmp_path / "t.zip", {**FILES, "Course.toml": b"x"}))
    many = {f"exercises/e{n}.py": b"" for n in range(600)}
    with pytest.raises(ProblemError, match="more than 500 files"):
        read_course(packed(tmp_path / "m.zip", {**FILES, **many}))
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("course.toml", COURSE)
        archive.writestr("exercises/big.py", bytes(80 << 20))
    with pytest.raises(ProblemError, match="64 MB"):
        read_course(tmp_path / "b.zip")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises((ValueError, zipfile.BadZipFile, ProblemError)):
        from_files(unpacked(data), "the file")


# --- Open and leave ---------------------------------------------------------------------------------------------------


def files_of(changes: dict[str, bytes] | None = None) -> CourseFiles:
    return from_files({**FILES, **(changes or {})}, "here")


def test_all_that_a_course_adds_is_said() -> None:
    text = COURSE.replace('title = "Deep learning"', 'title = "Deep learning"\ntext = "\\nAbout **this**.\\n"')
    words = "\n".join(what_it_adds(files_of({"course.toml": text.encode()})))
    for part in (
        "Ada",
        "About **this**.",
        "Lines: softmax. Hand in until 2026-12-01 18:00 +0100",
        "login.example.org",
        "module load x",
        "own.py",
        "board",
    ):
        assert part in words


def test_nothing_is_added_without_consent(home: Places) -> None:
    with pytest.raises(ProblemError, match="not agreed"):
        Courses(home).open(files_of(), consent=False)
    assert not home.courses.exists()
    assert Courses(home).current() is None


def test_an_open_course_brings_sites_exercises_and_its_name(home: Places) -> None:
    assert Courses(home).open(files_of(), consent=True)
    current = Courses(home).current()
    assert current is not None
    assert current.id == "dl-2026"
    site = site_store(home).load("dl-2026-cluster")
    assert not consents(home).missing(words_of(site))
    assert exercises_folder(home) == course_exercises(home) == str(home.courses / "dl-2026/exercises")
    assert signed(home, RunSpec(exercise="softmax")).course == "dl-2026"


def test_what_a_command_signed_stays_where_its_own_agent_names_nobody(home: Places) -> None:
    spec = RunSpec(exercise="softmax", student="Ada", course="dl-2026")
    assert signed(home, spec) == spec


def test_another_state_of_it_is_asked_for_again_and_replaces_it_whole(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    assert not courses.open(files_of(), consent=False)  # the very same
    changed = from_files({name: data for name, data in FILES.items() if name != "exercises/own.py"}, "here")
    with pytest.raises(ProblemError, match="not agreed"):
        courses.open(changed, consent=False)
    assert not courses.open(changed, consent=True)
    assert course_exercises(home) == ""
    assert [path.name for path in home.courses.iterdir()] == ["dl-2026"]


def test_two_courses_keep_apart(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    other = COURSE.replace("dl-2026", "hpc")
    courses.open(files_of({"course.toml": other.encode()}), consent=True)
    assert [one.id for one in courses.all()] == ["dl-2026", "hpc"]
    assert {"dl-2026-cluster", "hpc-cluster"} < set(site_store(home).names())
    courses.use("dl-2026")
    assert signed(home, RunSpec(exercise="softmax")).course == "dl-2026"
    assert site_name("hpc", "hpc") == "hpc"
    assert site_name("hpc", "hpc-gpu") == "hpc-gpu"


def test_a_course_is_left_without_a_trace(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    words = words_of(site_store(home).load("dl-2026-cluster"))
    courses.leave("dl-2026")
    assert list(home.courses.iterdir()) == []
    assert site_store(home).names() == ("local",)
    assert consents(home).missing(words) == words
    assert local_settings(home).load().course == ""
    assert Courses(home).current() is None
    with pytest.raises(ProblemError, match="is open here"):
        courses.leave("dl-2026")


def test_a_course_that_cannot_be_read_hides_no_other(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    write(home.courses / "broken", {"course.toml": b"format = "})
    assert [(one.id, one.found is None) for one in courses.all()] == [("broken", True), ("dl-2026", False)]


# --- The examples -----------------------------------------------------------------------------------------------------


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """The folders that the commands use."""
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "clew"))
    return find_places()


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    status = main(["course", *words])
    shown = capsys.readouterr()
    assert status == 0, shown.err
    return shown.out


def test_nothing_is_wrong_with_the_example_and_a_teacher_begins_with_it(
    user: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothing is wrong" in said(capsys, "check", "bsc")
    folder = tmp_path / "dl-2027"
    said(capsys, "new", str(folder), "--example", "bsc")
    assert "3 exercises, nothing is wrong" in said(capsys, "check", str(folder))
    made = read_course(folder).course
    assert made.id == "dl-2027"
    assert [one.id for _, one in made.assigned()] == ["linear-regression", "softmax", "cnn"]
    assert all(lesson.until is None for lesson in made.lessons)
    assert (folder / "sites").is_dir()
    assert (folder / "exercises").is_dir()


def test_the_example_opens_by_its_id_unless_a_course_of_that_id_is_open(
    user: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is open, and followed" in said(capsys, "open", "bsc")
    said(capsys, "leave", "bsc")
    own = write(tmp_path / "bsc", {"course.toml": COURSE.replace("dl-2026", "bsc").encode(), **SITE_FILE})
    monkeypatch.chdir(tmp_path)
    assert main(["course", "open", "bsc"]) == 2, "a stranger's folder of that name needs consent"
    said(capsys, "open", str(own), "--consent")
    Courses(user).use("")
    assert "The course bsc is followed now" in said(capsys, "open", "bsc")
    current = Courses(user).current()
    assert current is not None
    assert current.title == "Deep learning"


def test_the_name_of_another_site_is_not_taken(home: Places) -> None:
    site_store(home).save("dl-2026-cluster", Site(host="mine.example.org", scheduler="slurm"))
    with pytest.raises(ProblemError, match="already a site"):
        Courses(home).open(files_of(), consent=True)
    assert site_store(home).load("dl-2026-cluster").host == "mine.example.org"
    assert Courses(home).all() == []


def test_two_courses_never_share_the_name_of_a_site(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of({"course.toml": COURSE.replace("dl-2026", "uni-dl").encode()}), consent=True)
    other = COURSE.replace("dl-2026", "uni").replace("cluster:", "dl-cluster:").encode()
    with pytest.raises(ProblemError, match="already a site"):
        courses.open(files_of({"course.toml": other, "sites/dl-cluster.toml": SITE.encode()}), consent=True)


def test_an_update_that_fails_leaves_the_course_as_it_was(home: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    courses, real = Courses(home), operating_system.replace_file
    courses.open(files_of(), consent=True)

    def refused(source: Path, target: Path) -> None:
        text = source / "course.toml"
        if target.name == "dl-2026" and text.exists() and b"Again" in text.read_bytes():
            raise PermissionError(13, "in use")
        real(source, target)

    monkeypatch.setattr(operating_system, "replace_file", refused)
    changed = files_of({"course.toml": COURSE.replace("Deep learning", "Again").encode()})
    with pytest.raises(ProblemError, match="in use"):
        courses.open(changed, consent=True)
    (one,) = courses.all()
    assert one.found is not None
    assert one.found.course.title == "Deep learning"


def test_every_file_that_may_run_and_all_that_jobs_ask_for_is_said() -> None:
    found = from_files({**FILES, "exercises/helper.so": b"x", "exercises/B.PY": b"x"}, "here")
    words = "\n".join(what_it_adds(found))
    for part in ("helper.so", "B.PY", "reservation monday", "nodes 2"):
        assert part in words


def test_an_update_says_what_is_new_and_what_goes(home: Places) -> None:
    courses = Courses(home)
    first = files_of()
    assert not any(line.startswith("+") for line in courses.what_it_adds(first))
    courses.open(first, consent=True)
    site = SITE.replace("module load x", "module load y").encode()
    changes = {"sites/cluster.toml": site, "exercises/own.py": b"print('another one  ')\n"}
    words = courses.what_it_adds(files_of(changes))
    assert [line.split()[1] for line in words if line.startswith("+")] == ["prologue", "exercises/own.py,"]
    assert sum(line.startswith("-") for line in words) == 2
    assert any(line.startswith("  Site dl-2026-cluster") for line in words)
    asks = files_of({"course.toml": COURSE.replace('["Why?"]', '["Why?", "And how?"]').encode()})
    assert [line for line in courses.what_it_adds(asks) if line.startswith("+")] == ["+     softmax asks: And how?"]
    assert courses.what_it_adds(first) == ["The course is open here as it is."]


def test_leaving_a_course_that_cannot_be_read_deletes_what_was_shared(user: Places, tmp_path: Path) -> None:
    Courses(user).open(files_of(), consent=True)
    folder = class_folder(tmp_path / "board")
    sharing = Sharing(user.shared("dl-2026"), folder.place.path)
    sharing.join("Ada", curves=False, now=1.0)
    sharing.send(folder)
    (user.courses / "dl-2026/course.toml").write_text("= broken")
    assert main(["course", "leave", "dl-2026"]) == 0
    assert not list((tmp_path / "board").iterdir())


def test_a_followed_course_that_cannot_be_read_is_said_and_can_be_left(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    (home.courses / "dl-2026/course.toml").write_text("= broken")
    with pytest.raises(ProblemError, match=r"The course dl-2026, which you follow, cannot be read: .*not valid TOML"):
        courses.current()
    with pytest.raises(ProblemError, match="cannot be read"):
        courses.followed("board")
    assert class_folders("dl-2026-cluster", home) == []  # the doctor examines the site all the same
    courses.leave("dl-2026")
    assert courses.current() is None


def test_a_course_opens_again_after_it_was_left_with_an_account(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    store = site_store(home)
    store.save("dl-2026-cluster", msgspec.structs.replace(store.load("dl-2026-cluster"), user="ada"), replace=True)
    courses.leave("dl-2026")
    assert "dl-2026-cluster" not in site_store(home).known()
    courses.open(files_of(), consent=True)
    assert courses.current_id == "dl-2026"


def test_a_site_that_an_update_drops_leaves_nothing(home: Places) -> None:
    courses, store = Courses(home), site_store(home)
    courses.open(files_of(), consent=True)
    store.save("dl-2026-cluster", Site(host="login.example.org", user="ada", scheduler="slurm"), replace=True)
    courses.open(from_files(MOVED, "here"), consent=True)
    assert "dl-2026-other" in site_store(home).known()
    assert "dl-2026-cluster" not in site_store(home).known()
    courses.open(files_of(), consent=True)
    assert "dl-2026-cluster" in site_store(home).known()


def test_a_site_that_is_dropped_stays_while_something_is_shared_there(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    Sharing(home.shared("dl-2026"), "cluster:/course/board").join("Ada", curves=False, now=1.0)
    courses.open(from_files(MOVED, "here"), consent=True)
    assert {"dl-2026-cluster", "dl-2026-other"} <= set(site_store(home).known())


def test_a_course_is_left_though_what_is_shared_cannot_be_deleted(
    user: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    Courses(user).open(files_of(), consent=True)
    Sharing(user.shared("dl-2026"), "gone:/course/board").join("Ada", curves=False, now=1.0)
    assert main(["course", "leave", "dl-2026"]) == 2
    assert "--anyway" in capsys.readouterr().err
    assert "what you shared stays there, as There is no site" in said(capsys, "leave", "dl-2026", "--anyway")
    assert Courses(user).current_id == ""


def test_a_followed_course_whose_folder_is_gone_can_be_left(user: Places, capsys: pytest.CaptureFixture[str]) -> None:
    Courses(user).open(files_of(), consent=True)
    shutil.rmtree(user.courses / "dl-2026")
    said(capsys, "leave", "dl-2026")
    assert Courses(user).current() is None


def test_a_site_without_an_account_is_named_until_it_has_one(home: Places) -> None:
    courses = Courses(home)
    courses.open(files_of(), consent=True)
    store = site_store(home)
    assert courses.nameless(files_of()) == ["dl-2026-cluster"]
    store.save("dl-2026-cluster", msgspec.structs.replace(store.load("dl-2026-cluster"), user="ada"), replace=True)
    assert courses.nameless(files_of()) == []


def test_a_title_is_one_line() -> None:
    assert "invisible" in refusal(COURSE.replace('title = "Deep learning"', 'title = "a\\nSite evil"'))


def test_a_long_text_in_a_zip_is_refused_as_in_its_folder(tmp_path: Path) -> None:
    text = COURSE.encode() + b"#" * (300 << 10)
    with pytest.raises(ProblemError, match="262,144 bytes"):
        read_course(packed(tmp_path / "c.zip", {**FILES, "course.toml": text}))


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_file_is_refused_in_words(at: int, byte: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = packed(Path(place, "c.zip"), FILES)
        data = bytearray(path.read_bytes())
        data[at % len(data)] = byte
        path.write_bytes(data)
        with suppress(ProblemError):
            read_course(path)


def test_a_changed_copy_of_a_site_does_not_refuse_the_course_of_next_week(home: Places) -> None:
    """Who has another account name there has set it in a copy of his own."""
    found = from_files(FILES, "course")
    Courses(home).open(found, consent=True)
    site_store(home).save("dl-2026-cluster", msgspec.structs.replace(found.sites["cluster"], user="ada"), replace=True)
    later = FILES | {"course.toml": COURSE.replace("Deep learning", "Deeper learning").encode()}
    assert not Courses(home).open(from_files(later, "course"), consent=True)
    assert site_store(home).load("dl-2026-cluster").user == "ada"
