"""The package for Debian, Ubuntu and their kin: /opt/clew with a Python of its own, Clew and what the window needs, and
the programs in /usr/bin, with an entry among the desktop's programs. It fits every system with glibc 2.34 or newer
(Debian 12, Ubuntu 22.04).

The Python is Debian's, so that the package does not depend on which one a system has. TensorFlow is not in it.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from wheels import LINUX, ROOT, Program, programs

from clew_gui.base.desktop_entry import linux
from clew_shared import __version__

_PYTHON = ("libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal", "python3.11-venv")
_OURS = re.compile(r"(lib)?python3\.11|media-types|libdb5|libnsl|libtirpc")
"""Dependencies of those that the package answers itself, or that Clew works without."""
_LEFT_OUT = ("sitecustomize.py", "EXTERNALLY-MANAGED", "lib-dynload/_dbm*.so", "lib-dynload/nis*.so")
"""A link to Debian's own file, the file with which its pip refuses to install anything beside apt, and the modules of
libraries that newer systems lack or call otherwise."""
_HOME = "opt/clew"
_THEN = "1577836800"
"""The date of each file, in seconds since 1970: the first of January 2020. The bytes would tell the hour."""
_ENVIRONMENT = "include-system-site-packages = false\n"
"""In a file pyvenv.cfg: Python then reads no packages of the person's own (~/.local), as in a virtual environment."""
_CONTROL = """\
Package: clew
Version: {version}
Architecture: amd64
Maintainer: Clew's developers <clew@localhost>
Installed-Size: {kilobytes}
Depends: {depends}
Recommends: openssh-client
Section: education
Priority: optional
Description: desktop assistant for deep-learning laboratories on clusters
 Clew takes students from a laptop to the compute node of a cluster and shows
 live how training converges. This package has the window, the commands and
 the agent. TensorFlow, which is needed to train on this computer and not to
 train on a cluster, is not in it.
"""
# Modules are compiled once, by root: people cannot write there, and each start would compile them again.
_AFTER_INSTALLATION = f"""\
#!/bin/sh
set -e
/{_HOME}/bin/python3.11 -m compileall -q -j 0 --invalidation-mode unchecked-hash /{_HOME}/lib || true
"""
_BEFORE_REMOVAL = f"""\
#!/bin/sh
set -e
find /{_HOME}/lib -name __pycache__ -prune -exec rm -rf {{}} +
[ "$1" != remove ] || rm -rf /{_HOME}/local  # what pip has added
"""


def can_write() -> bool:
    """Whether this machine has what the package is made from."""
    return bool(shutil.which("dpkg-deb")) and platform.machine() == "x86_64" and _has_python()


def _has_python() -> bool:
    known = subprocess.run(["apt-cache", "show", _PYTHON[0]], capture_output=True, check=False)
    return known.returncode == 0


def write_package(wheel: Path, target: Path) -> None:
    """Writes ``target``, a .deb. Raises ``CalledProcessError`` when a part cannot be fetched."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        depends = _write_python(Path(scratch), root / _HOME)
        for name, data in LINUX.packages(wheel):
            _write(root / _HOME / "lib/python3.11/dist-packages" / name, data)
        (root / _HOME / "pyvenv.cfg").write_text(_ENVIRONMENT, encoding="utf-8")
        _write_programs(root)
        entry = linux(["/usr/bin/clew-window"], Path("/usr/share"))
        for path, data in entry.files.items():
            _write(root / path.relative_to("/"), data)
        notice = root / "usr/share/doc/clew/copyright"
        notice.parent.mkdir(parents=True)
        shutil.copyfile(ROOT / "LICENSE", notice)
        _write_control(root, depends)
        _build(root, target)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _write_python(scratch: Path, home: Path) -> set[str]:
    """Puts Debian's Python into ``home``, and returns what it depends on."""
    subprocess.run(["apt-get", "download", "-q", *_PYTHON], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    depends: set[str] = set()
    for part in sorted(scratch.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", part, scratch / "python"], check=True)
        told = subprocess.run(["dpkg-deb", "-f", part, "Depends"], check=True, capture_output=True, text=True).stdout
        depends |= {one for one in told.strip().split(", ") if not _OURS.match(one)}
    unpacked = scratch / "python" / "usr"
    for folder, name in (("bin", "python3.11"), ("lib", "python3.11")):
        (home / folder).mkdir(parents=True)
        (unpacked / folder / name).rename(home / folder / name)
    for pattern in _LEFT_OUT:
        for path in (home / "lib/python3.11").glob(pattern):
            path.unlink()
    licence = home / "share/doc/python3.11/copyright"
    licence.parent.mkdir(parents=True)
    (unpacked / "share/doc/python3.11-minimal/copyright").rename(licence)
    return depends


def _write_programs(root: Path) -> None:
    for program in programs():
        path = root / _HOME / "bin" / program.name
        path.write_bytes(script(program))
        path.chmod(0o755)
        link = root / "usr/bin" / program.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/{_HOME}/bin/{program.name}")


def script(program: Program) -> bytes:
    """A program that calls a function with the Python of the package."""
    return f"#!/{_HOME}/bin/python3.11\n".encode() + program.call


def _write_control(root: Path, depends: set[str]) -> None:
    kilobytes = sum(path.lstat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    folder = root / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(control(depends, kilobytes), encoding="utf-8")
    for name, text in (("postinst", _AFTER_INSTALLATION), ("prerm", _BEFORE_REMOVAL)):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def control(depends: set[str], kilobytes: int) -> str:
    """What the package says of itself: it needs ``depends`` and Qt's libraries."""
    wanted = ", ".join(sorted(depends | _qt_libraries()))
    return _CONTROL.format(version=__version__, kilobytes=kilobytes, depends=wanted)


def _qt_libraries() -> set[str]:
    """The packages with Qt's system libraries, as ``packaging/setup.sh`` names them."""
    text = (ROOT / "packaging" / "setup.sh").read_text(encoding="utf-8")
    _, _, block = text.partition('readonly QT_LIBRARIES="\n')
    return {line.split()[1] for line in block.partition('"')[0].splitlines()}


def _build(root: Path, target: Path) -> None:
    for path in (root, *root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    words = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(target)]
    subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": _THEN}
    )
