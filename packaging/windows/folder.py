"""The folder for Windows: Python itself, Clew and what it needs, and programs that start it. Nothing is installed.

TensorFlow is not in it: it would make the folder five times as large, and who trains on a cluster needs none.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from wheels import ROOT, WINDOWS, Program, programs
from windows.wanted import embedded_python

_LAUNCHERS = {False: ("t64.exe", "python.exe"), True: ("w64.exe", "pythonw.exe")}
"""Without or with a window: the launcher of distlib, and the Python that it starts. The first have a console."""
_THEN = (1980, 1, 1, 0, 0, 0)
"""The date of each file in the archive: the earliest that the format knows."""
LONGEST = 140
"""Characters of a path in the folder. Windows takes 260 in all, and a desktop that OneDrive keeps has up to 100."""


def write_folder(wheel: Path, target: Path) -> None:
    """Writes ``target``, a zip archive of one folder to unpack anywhere."""
    content = {f"python/{name}": data for name, data in embedded_python()}
    content["python/python312._pth"] = b"python312.zip\n.\nLib/site-packages\n"
    content |= {f"python/Lib/site-packages/{name}": data for name, data in WINDOWS.packages(wheel)}
    content |= {f"{program.name}.exe": launcher(program) for program in programs()}
    content["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    folder = {f"clew/{name}": data for name, data in content.items()}
    check_lengths(folder)
    target.write_bytes(zipped(folder))


def check_lengths(names: Iterable[str]) -> None:
    """Raises ``ValueError`` for a path with which the folder may not be unpacked everywhere."""
    longest = max(names, key=len)
    if len(longest) > LONGEST:
        raise ValueError(f"{longest} has {len(longest)} characters, of which Windows may take {LONGEST}")


def launcher(program: Program) -> bytes:
    """An .exe that calls a function with the Python of its own folder: distlib's launcher, a line that names the
    Python, and an archive with the call."""
    launcher, python = _LAUNCHERS[program.has_window]
    shebang = f'#!"<launcher_dir>\\python\\{python}"\r\n'
    return files("distlib").joinpath(launcher).read_bytes() + shebang.encode() + zipped({"__main__.py": program.call})


def zipped(content: dict[str, bytes]) -> bytes:
    """A zip archive of files by name, the same bytes for the same files."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name in sorted(content):
            archive.writestr(zipfile.ZipInfo(name, _THEN), content[name], zipfile.ZIP_DEFLATED, 6)
    return whole.getvalue()
