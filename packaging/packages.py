"""``make packages``: writes what can be installed without a checkout: a wheel, a source archive, a folder for Windows.

The same checkout gives the same bytes. The folder for Windows holds Python itself, so that nothing has to be installed;
TensorFlow is not in it: anyone who has no other Python with TensorFlow trains on a cluster.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path

from windows.wanted import download, embedded_python, requirements

from clew_shared import __version__

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
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
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(DIST)], cwd=ROOT, check=True)
    (wheel,) = DIST.glob(f"clew-{__version__}-*.whl")
    windows_folder(wheel)
    for path in sorted(DIST.glob(f"clew-{__version__}*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {digest}  {path.relative_to(ROOT)}")


# --- Windows ----------------------------------------------------------------------------------------------------------


def windows_folder(wheel: Path) -> None:
    """Writes ``clew-VERSION-windows.zip``: one folder, to unpack anywhere."""
    with tempfile.TemporaryDirectory() as scratch:
        wheels = Path(scratch)
        download(wheels, [str(wheel), *requirements("gui")])
        content = {f"python/{name}": data for name, data in embedded_python()}
        content["python/python312._pth"] = b"python312.zip\n.\nLib/site-packages\n"
        for path in wheels.glob("*.whl"):
            with zipfile.ZipFile(path) as archive:
                inside = (name for name in archive.namelist() if not name.endswith("/"))
                content |= {f"python/Lib/site-packages/{name}": archive.read(name) for name in inside}
    content |= {name: launcher(*program) for name, program in PROGRAMS.items()}
    content["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    whole = zipped({f"clew/{name}": data for name, data in content.items()})
    (DIST / f"clew-{__version__}-windows.zip").write_bytes(whole)


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
