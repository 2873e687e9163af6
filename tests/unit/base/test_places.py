"""Where Clew keeps things."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_gui.sites.check import check_name
from clew_shared.base.file_names import safe_path, why_unsafe
from clew_shared.base.places import find_places


def test_clew_home_may_be_written_with_a_tilde_or_below_the_folder_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for written, meant in (
        ("~/clew", Path.home() / "clew"),
        ("lab/clew", Path.cwd() / "lab" / "clew"),
    ):
        monkeypatch.setenv("CLEW_HOME", written)
        assert find_places().home == meant


@pytest.mark.unix("Windows makes a folder's name of any user's")
def test_a_tilde_of_an_unknown_user_is_part_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_HOME", "~no-such-user")
    assert find_places().home == Path.cwd() / "~no-such-user"


# --- Names of files that are one on every system, and those that are something else on one of them --------------------

DEVICES = ["NUL", "nul", "con.txt", "CON .txt", "aux.tar.gz", "COM1", "lpt9.log", "lpt¹", "CONIN$"]
UNSAFE = [*DEVICES, "D:x", "a:b", "x.", "x ", "...", ".", "..", "", "a\\b", "a/b", "a\0", "a\n"]
SAFE = [
    "x",
    "console",
    "nul1",
    "com",
    "com10",
    "x.con",
    ".reserve",
    "a b",
    "Zoë.png",
    "loss>0.png",
    "state.data-0-of-1",
]


@pytest.mark.parametrize("name", UNSAFE)
def test_what_some_system_takes_for_something_else_is_unsafe(name: str) -> None:
    assert why_unsafe(name)
    assert not safe_path(f"artifacts/{name}/y") or name in ("", ".", "a/b")


@pytest.mark.parametrize("name", SAFE)
def test_other_names_are_safe(name: str) -> None:
    assert why_unsafe(name) == ""
    assert safe_path(f"artifacts/{name}")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "D:x", "C:\\x", "artifacts/NUL", "a/b:c"])
def test_a_path_that_leads_out_of_its_folder_is_unsafe(path: str) -> None:
    assert not safe_path(path)


@pytest.mark.parametrize("name", ["con", "nul", "aux", "com1"])
def test_a_site_is_not_called_like_a_device(name: str) -> None:
    (found,) = check_name(name)
    assert "Windows takes it for a device" in found.text
