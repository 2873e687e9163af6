"""Settings are kept, and never keep a window from opening or closing."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.base import settings
from clew_gui.base.settings import LocalSettings, SettingsFile, local_settings
from clew_gui.ssh.connection import ssh_files
from clew_shared.base.places import Places


class Toy(msgspec.Struct, frozen=True, kw_only=True):
    """A bit of everything."""

    name: str = ""
    width: int = 800
    ratio: float = 0.5
    on: bool = False
    theme: Literal["light", "dark"] = "light"
    folds: dict[str, bool] = {}
    last: str | None = None


def toy(tmp_path: Path) -> SettingsFile[Toy]:
    return SettingsFile(tmp_path / "config" / "toy.toml", Toy)


def test_on_the_first_day_there_are_the_defaults_and_no_problem(tmp_path: Path) -> None:
    file = toy(tmp_path)
    assert (file.load(), file.problem) == (Toy(), None)


def test_a_disk_that_stays_full_leaves_the_last_settings_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = toy(tmp_path)
    file.save(Toy(width=3))
    monkeypatch.setattr(settings, "write_private", full)
    for width in (4, 5):
        file.save(Toy(width=width))
        assert file.problem is not None
    assert toy(tmp_path).load() == Toy(width=3)


@given(
    st.builds(
        Toy,
        name=st.text(st.characters(exclude_categories=["Cs"])),
        width=st.integers(-(2**53), 2**53),
        ratio=st.floats(allow_nan=False),
        on=st.booleans(),
        folds=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.booleans()),
        last=st.none() | st.just("x"),
    )
)
def test_what_is_kept_is_read_back(value: Toy) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = toy(Path(folder))
        file.save(value)
        assert file.problem is None
        assert toy(Path(folder)).load() == value


@pytest.mark.parametrize(
    "content",
    [
        b"width = ",
        b'width = "wide"',
        b'theme = "pink"',
        b"\xff\xfe",
        b"[[[",
        b"folds = 3",
        b"a" * 100_000,
        b"x=" + b"[" * 5000,
    ],
    ids=["torn", "type", "choice", "bytes", "brackets", "table", "long", "deep"],
)
def test_a_broken_file_gives_the_defaults_says_so_and_is_kept_beside(content: bytes, tmp_path: Path) -> None:
    file = toy(tmp_path)
    file.path.parent.mkdir()
    file.path.write_bytes(content)
    assert file.load() == Toy()
    assert file.problem is not None
    assert str(file.path) in file.problem.text
    file.save(Toy(width=1))
    assert file.path.with_name("toy.toml.broken").read_bytes() == content
    again = toy(tmp_path)
    assert (again.load(), again.problem) == (Toy(width=1), None)


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    file = toy(tmp_path)
    file.path.parent.mkdir()
    file.path.write_text("width = 7\nfuture = 1\n")
    assert (file.load(), file.problem) == (Toy(width=7), None)


def test_a_disk_that_refuses_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where a folder should be")
    file = toy(tmp_path)
    file.save(Toy())
    assert file.problem is not None
    assert file.problem.code == "settings.write"


def test_no_part_of_a_file_is_left_behind(tmp_path: Path) -> None:
    file = toy(tmp_path)
    for width in range(3):
        file.save(Toy(width=width))
    assert [path.name for path in file.path.parent.iterdir()] == ["toy.toml"]


def test_this_computer_has_a_file_of_its_own(tmp_path: Path) -> None:
    places = Places(home=tmp_path, private=tmp_path)
    local_settings(places).save(LocalSettings(interpreter="/usr/bin/python3"))
    assert (tmp_path / "config" / "local.toml").read_text() == (
        'interpreter = "/usr/bin/python3"\nexercises = ""\n'
        'course = ""\nkeep_login = 30\nadvice = true\nnotices = true\n'
    )


@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        ("", 1800),
        ("keep_login = 5", 300),
        ("keep_login = 0", 0),
        ("keep_login = -1", 0),
        ("keep_login = 'long'", 0),
    ],
)
def test_logins_stay_as_long_as_the_settings_say_and_not_where_these_cannot_be_read(
    content: str, seconds: int, tmp_path: Path
) -> None:
    places = Places(tmp_path, tmp_path / "private")
    file = local_settings(places).path
    file.parent.mkdir()
    file.write_text(content)
    assert ssh_files(places).keep_login_s == seconds
