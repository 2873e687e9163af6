"""What the project file promises: the wheel's content, the pin of PySide6, which room loads which packages."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import clew_shared

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {"clew_shared": "shared", "clew_agent": "agent", "clew_gui": "gui"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built offline with the installed hatchling."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_source_and_data_file(wheel: zipfile.ZipFile) -> None:
    expected = {
        path.relative_to(ROOT / place).as_posix()
        for package, place in PACKAGES.items()
        for path in (ROOT / place / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    content = {name for name in wheel.namelist() if not name.startswith("clew-")}
    assert content == expected | {"clew_gui/targets/constraints.txt", "clew_gui/tutorial.md"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= content
    assert "clew_shared/PROTOCOL.md" in content


def test_the_wheel_is_pure_and_carries_version_and_licence(wheel: zipfile.ZipFile) -> None:
    info = f"clew-{clew_shared.__version__}.dist-info"
    assert "Tag: py3-none-any" in wheel.read(f"{info}/WHEEL").decode()
    assert "Apache License" in wheel.read(f"{info}/licenses/LICENSE").decode()
    assert b"clew = clew_gui.commands.main:main" in wheel.read(f"{info}/entry_points.txt")
    assert b"clew-agent = clew_agent.cli.main:main" in wheel.read(f"{info}/entry_points.txt")
    assert b"[gui_scripts]\nclew-window = clew_gui.commands.main:window" in wheel.read(f"{info}/entry_points.txt")


@pytest.mark.parametrize(
    ("pyside", "allowed"), [("6.11.0", False), ("6.11.1", False), ("6.11.3", True), ("6.12.0", False), ("6.12.1", True)]
)
def test_pyside_is_pinned_away_from_broken_releases(project: dict[str, Any], pyside: str, allowed: bool) -> None:
    wanted = [Requirement(text) for text in project["project"]["optional-dependencies"]["gui"]]
    (pin,) = (one for one in wanted if one.name == "PySide6-Essentials")
    assert pin.specifier.contains(pyside) is allowed


LAPTOPS = {
    "Linux": {"sys_platform": "linux", "platform_machine": "x86_64"},
    "Windows": {"sys_platform": "win32", "platform_machine": "AMD64"},
    "macOS": {"sys_platform": "darwin", "platform_machine": "arm64"},
    "macOS on Intel": {"sys_platform": "darwin", "platform_machine": "x86_64"},
}


@pytest.mark.parametrize(
    ("laptop", "python"),
    [
        (laptop, python)
        for laptop in LAPTOPS
        for python in ("3.11", "3.12", "3.13")
        if (laptop, python) != ("macOS on Intel", "3.13")  # TensorFlow was never made for both
    ],
)
def test_each_requirement_has_one_tested_version_on_each_laptop(
    project: dict[str, Any], laptop: str, python: str
) -> None:
    here = {**LAPTOPS[laptop], "python_version": python, "python_full_version": f"{python}.4"}
    lines = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = [Requirement(line) for line in lines if not line.startswith("#")]
    versions: dict[str, set[str]] = defaultdict(set)
    for one in tested:
        if one.marker is None or one.marker.evaluate(here):
            versions[canonicalize_name(one.name)].add(str(one.specifier).removeprefix("=="))
    extras = project["project"]["optional-dependencies"]
    for text in [*project["project"]["dependencies"], *extras["gui"], *extras["cpu"], *extras["sweep"]]:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate(here):
            (version,) = versions[canonicalize_name(wanted.name)]
            assert wanted.specifier.contains(version), text


def test_no_module_of_ours_is_left_out_of_type_checking(project: dict[str, Any]) -> None:
    for override in project["tool"]["mypy"]["overrides"]:
        assert override.keys() == {"module", "ignore_missing_imports"}
        assert not [name for name in override["module"] if name.startswith(("clew", "tests"))]


def test_no_import_rule_has_an_exception(project: dict[str, Any]) -> None:
    contracts = project["tool"]["importlinter"]["contracts"]
    assert not [contract["name"] for contract in contracts if "ignore_imports" in contract]


def loaded_by(module: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after importing ``module``."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


# Import rules see imports inside functions as well; these see what is really loaded when a program starts.
@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("clew_agent.supervisor.serve", {"tensorflow", "keras", "numpy", "PySide6", "paramiko"}),
        ("clew_agent.cli.main", {"tensorflow", "keras", "PySide6"}),
        ("clew_gui.commands.main", {"tensorflow", "keras", "PySide6", "shiboken6", "pyqtgraph", "clew_agent"}),
        ("clew_gui.session", {"tensorflow", "keras", "PySide6", "pyqtgraph"}),
        ("clew_gui.app", {"tensorflow", "keras", "clew_agent"}),
    ],
)
def test_a_program_starts_without_what_it_must_not_need(module: str, unwanted: set[str]) -> None:
    assert loaded_by(module) & unwanted == set()


# --- A scheduler is one file ------------------------------------------------------------------------------------------
