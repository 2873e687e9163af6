"""What ``make packages`` puts together, as far as it needs no package index."""

from __future__ import annotations

import io
import tomllib
import zipfile
from pathlib import Path

import packages
import pytest

ROOT = Path(__file__).resolve().parents[3]


def test_the_same_files_make_the_same_archive_in_any_order() -> None:
    made = packages.zipped({"b": b"2", "a": b"1"})
    assert made == packages.zipped({"a": b"1", "b": b"2"})
    assert zipfile.ZipFile(io.BytesIO(made)).namelist() == ["a", "b"]


@pytest.mark.parametrize("name", ["clew.exe", "clew-window.exe", "clew-agent.exe"])
def test_a_program_for_windows_starts_the_python_beside_it(name: str) -> None:
    program = packages.launcher(*packages.PROGRAMS[name])
    python = b"pythonw.exe" if name == "clew-window.exe" else b"python.exe"
    assert program.startswith(b"MZ")
    assert b'#!"<launcher_dir>\\python\\' + python in program
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        compile(archive.read("__main__.py"), name, "exec")


def test_each_program_of_the_wheel_is_there_for_windows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    called = {f"{name}.exe": entry for name, entry in {**project["scripts"], **project["gui-scripts"]}.items()}
    made = {name: f"{module}:{function}" for name, (_, _, module, function) in packages.PROGRAMS.items()}
    assert made == called
