"""Names of files that are one on every system, and those that are something else on one of them."""

from __future__ import annotations

import pytest

from clew_gui.sites.check import check_name
from clew_shared.base.file_names import safe_path, why_unsafe

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
