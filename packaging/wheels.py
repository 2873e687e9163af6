"""Wheels for a system that need not be this one, from the package index and in the tested versions."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
_PIP = "pip==26.3"
"""In both packages, for what somebody adds: MLflow, pyarrow."""
_LEFT_OUT = ("PySide6/qml/", "PySide6/Qt/qml/")
"""Qt's other way to make windows, which Clew does not use: 7 MB, with paths of 150 characters."""
_DESCRIBED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pip_download(folder: Path, *words: str) -> None:
    """Have pip put packages into ``folder``. Raises ``CalledProcessError`` when it cannot."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "-d", str(folder)]
    subprocess.run([*command, *words], check=True)


@dataclass(frozen=True)
class Program:
    """A program that Clew installs, and the function that it calls."""

    name: str
    module: str
    function: str
    has_window: bool

    @property
    def call(self) -> bytes:
        """The program in Python."""
        return f"import sys\nfrom {self.module} import {self.function}\nsys.exit({self.function}())\n".encode()


def programs() -> list[Program]:
    """Those that the project names."""
    found = []
    for kind in ("scripts", "gui-scripts"):
        for name, at in _DESCRIBED["project"][kind].items():
            module, _, function = at.partition(":")
            found.append(Program(name, module, function, kind == "gui-scripts"))
    return found


@dataclass(frozen=True)
class Target:
    """A system and its Python, in the words of requirements' markers and of pip."""

    python: str
    """Two parts: 3.12."""
    markers: dict[str, str]
    platforms: tuple[str, ...]
    """Tags of wheels that it takes."""
    beside: tuple[str, ...] = ()
    """What packages need there only: pip decides about those by the machine that it runs on."""

    def is_meant(self, one: Requirement) -> bool:
        """Whether a requirement or a constraint is for this system."""
        python = {"python_version": self.python, "python_full_version": f"{self.python}.9"}
        return one.marker is None or one.marker.evaluate(self.markers | python)

    def requirements(self, *extras: str) -> list[str]:
        """What the project and these extras require there."""
        project = _DESCRIBED["project"]
        texts = [
            *project["dependencies"],
            *(text for name in extras for text in project["optional-dependencies"][name]),
        ]
        meant = filter(self.is_meant, map(Requirement, texts))
        return [*(f"{one.name}{one.specifier}" for one in meant), *self.beside]

    def versions(self) -> list[str]:
        """The versions that were tested, as pip's constraints without markers: pip reads those as for this machine."""
        lines = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
        pins = [Requirement(line) for line in lines if line and not line.startswith(("#", " "))]
        return [f"{pin.name}{pin.specifier}" for pin in pins if self.is_meant(pin)]

    def download(self, folder: Path, wanted: Sequence[str], *words: str) -> None:
        """Put the wheels of these requirements into ``folder``, in the tested versions."""
        named = [f"--platform={platform}" for platform in self.platforms]
        with tempfile.TemporaryDirectory() as scratch:
            constraints = Path(scratch, "constraints.txt")
            constraints.write_text("\n".join(self.versions()), encoding="utf-8", newline="\n")
            which = ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}", *named]
            pip_download(folder, *which, "--constraint", str(constraints), *words, *wanted)

    def packages(self, wheel: Path) -> Iterator[tuple[str, bytes]]:
        """The names and contents of the files of Clew's wheel and of all that the window and its sweeps need
        there."""
        with tempfile.TemporaryDirectory() as scratch:
            self.download(Path(scratch), [str(wheel), *self.requirements("gui", "sweep")])
            for path in sorted(Path(scratch).glob("*.whl")):
                with zipfile.ZipFile(path) as archive:
                    names = (name for name in archive.namelist() if not name.endswith("/"))
                    yield from ((name, archive.read(name)) for name in names if not name.startswith(_LEFT_OUT))


def of_tests(target: Target, names: set[str]) -> list[str]:
    """What the tests require there: Clew, TensorFlow, and those of the development packages with these names."""
    dev = _DESCRIBED["dependency-groups"]["dev"]
    return target.requirements("gui", "cpu") + [text for text in dev if Requirement(text).name in names]


WINDOWS = Target(
    "3.12",
    {"sys_platform": "win32", "platform_system": "Windows", "platform_machine": "AMD64", "os_name": "nt"},
    ("win_amd64",),
    ("colorama", _PIP),  # pip: also to set up TensorFlow on that computer
)
LINUX = Target(
    "3.11",
    {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"},
    ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    (_PIP,),
)
"""As Debian's Python 3.11, which needs glibc 2.34."""
