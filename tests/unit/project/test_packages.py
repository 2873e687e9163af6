"""What ``make packages`` puts together, as far as it needs no package index."""

from __future__ import annotations

import io
import zipfile

import pytest
from linux.debian import control, script
from wheels import LINUX, ROOT, WINDOWS, Program, programs
from windows.folder import launcher, zipped

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


def test_the_package_for_debian_asks_for_the_libraries_of_the_window_too() -> None:
    fields = dict(line.split(": ", 1) for line in control({"libexpat1"}, 5).splitlines() if not line.startswith(" "))
    assert fields["Installed-Size"] == "5"
    depends = set(fields["Depends"].split(", "))
    assert {"libexpat1", "libegl1", "libgssapi-krb5-2", "libxcb-cursor0"} <= depends
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert depends - {"libexpat1", "libglib2.0-0"} <= set(workflow.split()), "GitHub's machines have GLib"
