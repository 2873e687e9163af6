"""What ``make packages`` puts together, as far as it needs no package index."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from linux.debian import control, script
from wheels import LINUX, ROOT, WINDOWS, Program, Target, programs
from windows.folder import LONGEST, check_lengths, launcher, zipped

_NAMES = {"clew", "clew-agent", "clew-window"}


def test_the_same_files_make_the_same_archive_in_any_order() -> None:
    made = zipped({"b": b"2", "a": b"1"})
    assert made == zipped({"a": b"1", "b": b"2"})
    assert zipfile.ZipFile(io.BytesIO(made)).namelist() == ["a", "b"]


def test_the_programs_are_those_of_the_wheel() -> None:
    assert {program.name for program in programs()} == _NAMES
    assert [program.name for program in programs() if program.has_window] == ["clew-window"]


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_for_windows_starts_the_python_beside_it(program: Program) -> None:
    made = launcher(program)
    python = b"pythonw.exe" if program.has_window else b"python.exe"
    assert made.startswith(b"MZ")
    assert b'#!"<launcher_dir>\\python\\' + python in made
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.read("__main__.py") == program.call
    compile(program.call, program.name, "exec")


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_for_debian_starts_the_python_of_its_package(program: Program) -> None:
    first, _, rest = script(program).partition(b"\n")
    assert (first, rest) == (b"#!/opt/clew/bin/python3.11", program.call)


def test_each_system_gets_what_is_meant_for_it() -> None:
    assert {"colorama"} == set(WINDOWS.requirements()) - set(LINUX.requirements())
    assert "pip==26.3" in LINUX.requirements(), "what clew_shared.base.installation advises needs it"
    windows, linux = (" ".join(target.requirements("cpu")) for target in (WINDOWS, LINUX))
    assert ("msvc-runtime" in windows, "tensorflow-cpu" in windows) == (True, False)
    assert ("msvc-runtime" in linux, "tensorflow-cpu" in linux) == (False, True)


@pytest.mark.parametrize("target", [WINDOWS, LINUX], ids=["windows", "linux"])
def test_parts_of_qt_that_no_window_of_clews_uses_are_left_out(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"PySide6/QtCore.pyd", "PySide6/Qt/plugins/platforms/libqxcb.so", "clew_gui/views/qml.py"}

    def download(_: Target, folder: Path, wanted: Sequence[str]) -> None:
        assert any(text.startswith("optuna") for text in wanted), "sweeps work without anything that is installed later"
        with zipfile.ZipFile(folder / "one.whl", "w") as archive:
            for name in (*names, "PySide6/qml/Qt/labs/a.qml", "PySide6/Qt/qml/QtQml/qmldir"):
                archive.writestr(name, b"")

    monkeypatch.setattr(Target, "download", download)
    assert {name for name, _ in target.packages(Path("clew.whl"))} == names


def test_a_path_that_windows_may_not_take_ends_the_build() -> None:
    check_lengths(["a", "b" * LONGEST])
    with pytest.raises(ValueError, match="characters"):
        check_lengths(["a", "b" * (LONGEST + 1)])


def test_the_package_for_debian_asks_for_the_libraries_of_the_window_too() -> None:
    fields = dict(line.split(": ", 1) for line in control({"libexpat1"}, 5).splitlines() if not line.startswith(" "))
    assert fields["Installed-Size"] == "5"
    depends = set(fields["Depends"].split(", "))
    assert {"libexpat1", "libegl1", "libgssapi-krb5-2", "libxcb-cursor0"} <= depends
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert depends - {"libexpat1", "libglib2.0-0"} <= set(workflow.split()), "GitHub's machines have GLib"
