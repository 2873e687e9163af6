"""Files and folders brought to a site that is this computer, with real shells: once, whole, resumed, or refused."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from clew_gui.deploy import staging
from clew_gui.deploy.bundle import MAX_EXERCISES
from clew_gui.deploy.staging import stage, stage_exercises
from clew_gui.sites.site import Site
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import ProblemError, problem
from tests.integration.local_line import LocalConnection, damage, local_line

Line = tuple[SiteConnection, LocalConnection]


@pytest.fixture
def here(tmp_path: Path) -> Line:
    """A site whose course has a data folder."""
    (tmp_path / "course").mkdir()
    return local_line(tmp_path / "home", Site(title="Here", host="here", data=str(tmp_path / "course")))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "FIRST_PIECE", 1000)
    monkeypatch.setattr(staging, "LARGEST_PIECE", 4000)


def ignore(_: str) -> None:
    """Nobody wants to know."""


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def code_of(bring: Callable[[], object]) -> str:
    with pytest.raises(ProblemError) as refused:
        bring()
    assert refused.value.problems[0].hint
    return refused.value.problems[0].code


def gone(_: str) -> None:
    """The link stays dead."""
    raise problem("ssh.lost", "The connection was lost.", "Wait.")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0, 1, 100_000])
@pytest.mark.usefixtures("small_pieces")
def test_a_file_is_brought_once(here: Line, tmp_path: Path, size: int) -> None:
    line, connection = here
    file = write(tmp_path / "my [data]*.npz", noise(size))
    there = Path(stage(line, str(file), ignore))
    assert there.read_bytes() == noise(size)
    assert there.name == file.name
    assert there.parent.name == hashlib.sha256(noise(size)).hexdigest()
    assert there.stat().st_mode & 0o077 == 0
    connection.commands = connection.sent = 0
    assert stage(line, str(file), ignore) == str(there)
    assert (connection.commands, connection.sent) == (1, len(f"{there.parent.name}  {file.name}\n"))
    assert [path.name for path in there.parent.iterdir()] == [file.name]


def test_a_folder_keeps_its_shape_and_leaves_hidden_files_behind(here: Line, tmp_path: Path) -> None:
    line, connection = here
    images = {"a.png": noise(10), "train/cats/1 2.png": noise(513), "train/dogs/ü.png": noise(512), "empty": b""}
    deep = "/".join(["a very long name of a folder"] * 9) + "/x.png"
    for name, data in (images | {deep: noise(3), ".git/x": b"1", "__pycache__/y": b"2"}).items():
        write(tmp_path / "images" / name, data)
    there = Path(stage(line, str(tmp_path / "images"), ignore))
    assert there.name == "images"
    assert content(there) == images | {deep: noise(3)}
    connection.commands = 0
    assert stage(line, str(tmp_path / "images"), ignore) == str(there)
    assert connection.commands == 1
    write(tmp_path / "images/a.png", noise(11))
    assert stage(line, str(tmp_path / "images"), ignore) != str(there)


@pytest.mark.parametrize("folder", [False, True])
def test_what_is_damaged_there_is_sent_again(here: Line, tmp_path: Path, folder: bool) -> None:
    line, _ = here
    file = write(tmp_path / "data/x.bin", noise(5000))
    there = Path(stage(line, str(file.parent if folder else file), ignore))
    damage(there / "x.bin" if folder else there)
    assert stage(line, str(file.parent if folder else file), ignore) == str(there)
    assert (there / "x.bin" if folder else there).read_bytes() == noise(5000)


@pytest.mark.usefixtures("small_pieces")
def test_after_a_cut_it_goes_on_where_it_ended(here: Line, tmp_path: Path) -> None:
    line, connection = here
    file = write(tmp_path / "x.bin", noise(50_000))
    connection.cut_after = 3500  # in a later piece: the first has a thousand bytes
    there = stage(line, str(file), ignore)
    assert Path(there).read_bytes() == noise(50_000)
    assert connection.sent < 52_000


@pytest.mark.usefixtures("small_pieces")
def test_a_later_program_goes_on_as_well(here: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, connection = here
    file = write(tmp_path / "x.bin", noise(50_000))
    with monkeypatch.context() as patch:
        patch.setattr(connection, "stat", gone)
        connection.cut_after = 3500
        assert code_of(lambda: stage(line, str(file), ignore)) == "ssh.lost"
    connection.sent = 0
    told: list[str] = []
    assert Path(stage(line, str(file), told.append)).read_bytes() == noise(50_000)
    assert told[0] == "x.bin: 6 kB of 50 kB are on Here already."
    assert connection.sent < 45_000


@pytest.mark.usefixtures("small_pieces")
def test_an_unfinished_file_of_other_content_does_no_harm(here: Line, tmp_path: Path) -> None:
    line, connection = here
    file = write(tmp_path / "x.bin", noise(9000))
    connection.cut_after = 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "stat", gone)
        code_of(lambda: stage(line, str(file), ignore))
    (part,) = (connection.home / ".local/share/clew/staged").glob("*/.part-*")
    damage(part)
    told: list[str] = []
    there = Path(stage(line, str(file), told.append))
    assert there.read_bytes() == noise(9000)
    assert any("damaged" in text for text in told)
    assert [path.name for path in there.parent.iterdir()] == ["x.bin"]


@pytest.mark.parametrize("folder", [False, True])
def test_the_courses_copy_is_used_when_it_is_the_same(here: Line, tmp_path: Path, folder: bool) -> None:
    line, connection = here
    file = write(tmp_path / "set/x.bin", noise(5000))
    mine = file.parent if folder else file
    course = write(tmp_path / "course/lab 1" / ("set/x.bin" if folder else "x.bin"), noise(5000))
    shared = str(course.parent if folder else course)
    assert stage(line, str(mine), ignore) == shared
    assert not (connection.home / ".local/share/clew/staged").exists()
    damage(course)
    assert stage(line, str(mine), ignore) != shared


def test_a_path_of_the_site_is_only_looked_for(here: Line) -> None:
    line, connection = here
    write(connection.home / "my data/x.npz", b"1")
    assert stage(line, "site:~/my data/x.npz", ignore) == f"{connection.home}/my data/x.npz"
    assert code_of(lambda: stage(line, "site:/no/such/file", ignore)) == "staging.absent"
    assert code_of(lambda: stage(line, "site:x.npz", ignore)) == "staging.path"


def test_what_cannot_be_brought_says_why(here: Line, tmp_path: Path) -> None:
    line, connection = here
    assert code_of(lambda: stage(line, str(tmp_path / "nothing"), ignore)) == "staging.absent"
    (tmp_path / "empty").mkdir()
    assert code_of(lambda: stage(line, str(tmp_path / "empty"), ignore)) == "staging.empty"
    assert code_of(lambda: stage(line, str(write(tmp_path / "a\nb", b"")), ignore)) == "staging.name"
    assert not list(connection.home.iterdir())


def test_a_file_that_does_not_fit_is_refused_before_it_is_sent(
    here: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, connection = here
    program = write(tmp_path / "bin/df", b"#!/bin/sh\necho header\necho fs 100 96 4 96% /\n")
    program.chmod(0o755)
    connection.environment["PATH"] = f"{program.parent}:{connection.environment['PATH']}"
    with pytest.raises(ProblemError, match=r"x\.bin does not fit on Here: 9 kB are needed in .*, 4 kB are free"):
        stage(line, str(write(tmp_path / "x.bin", noise(9000))), ignore)


# --- Exercises --------------------------------------------------------------------------------------------------------


def test_of_exercises_only_what_belongs_is_brought(here: Line, tmp_path: Path) -> None:
    line, _ = here
    belongs = {"mine.py": b"1", "_helpers.py": b"2", "parts/net.py": b"3", "classes.json": b"{}"}
    left = {
        "data.npz": b"4",
        ".secret.py": b"5",
        "__pycache__/mine.pyc": b"6",
        "venv/pyvenv.cfg": b"7",
        "venv/x.py": b"8",
    }
    for name, data in (belongs | left).items():
        write(tmp_path / "exercises" / name, data)
    assert content(Path(stage_exercises(line, tmp_path / "exercises", ignore))) == belongs


def test_exercises_are_bounded(here: Line, tmp_path: Path) -> None:
    line, _ = here
    assert code_of(lambda: stage_exercises(line, tmp_path / "nothing", ignore)) == "exercises.folder"
    write(tmp_path / "none/data.csv", b"")
    assert code_of(lambda: stage_exercises(line, tmp_path / "none", ignore)) == "exercises.folder"
    write(tmp_path / "much/x.py", b"")
    write(tmp_path / "much/big.csv", bytes(MAX_EXERCISES + 1))
    with pytest.raises(ProblemError, match=r"2 files of 8\.0 MB.*The largest is big\.csv"):
        stage_exercises(line, tmp_path / "much", ignore)
