"""Runs on the site, in its own Python: reports what that Python has, without importing any of it.

``ask_there`` sends it and calls ``answer``. Any Python may answer, so this is written for 3.6 and later and uses the
standard library alone.
"""
# ruff: noqa: I002

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

try:
    from importlib.metadata import PackageNotFoundError, version
except ImportError:  # before 3.8
    PackageNotFoundError = ModuleNotFoundError  # type: ignore[assignment,misc]

    def version(distribution_name: str) -> str:
        """Nobody knows."""
        raise PackageNotFoundError(distribution_name)


_IMPORT = """import importlib, sys
sys.path[:] = [path for path in sys.path if path]
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print("clew-imports:" + name)
    except BaseException:
        continue
"""


def numbers(text: str) -> "tuple[int, ...]":
    """The leading numbers of a version: (2, 16, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", text)[0]))


def version_of(module: str, names: "list[str]") -> str:
    """A package's version, "?" when it is there without a version, empty when it is not there."""
    try:
        if find_spec(module) is None:
            return ""
    except (ImportError, ValueError):
        return ""
    for name in names:
        try:
            return version(name) or "?"
        except PackageNotFoundError:
            continue
    return "?"


def unusable(modules: "list[str]") -> "set[str]":
    """Those of the modules that cannot be imported: what the account's own PYTHONPATH or LD_LIBRARY_PATH brings may be
    for another Python."""
    if not modules:
        return set()
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, *modules],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    usable = done.stdout.decode("utf-8", "replace").split()
    return {module for module in modules if "clew-imports:" + module not in usable}


def intact(folder: Path) -> bool:
    """Whether every file of an installed folder is as it was sent."""
    try:
        wanted = json.loads((folder / "clew-files.json").read_text())
        if any(hashlib.sha256((folder / path).read_bytes()).hexdigest() != digest for path, digest in wanted.items()):
            return False
        os.utime(str(folder), None)  # used today: nobody prunes it
    except OSError as error:
        return error.errno in (28, 30, 122)  # read well, but a full or read-only disk cannot be touched
    except (ValueError, AttributeError):
        return False
    return True


def state_of(folder: Path) -> str:
    """``intact``, ``damaged`` or ``absent``."""
    if not folder.is_dir():
        return "absent"
    return "intact" if intact(folder) else "damaged"


def program_text(path: Path) -> str:
    """Reads a small program's text; empty if it is not there or cannot be run."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(65536) if os.access(str(path), os.X_OK) else ""
    except OSError:
        return ""


def free_bytes(path: Path) -> int:
    """The room where ``path`` is or will be."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(str(path)).free
    except OSError:
        return -1


def first_file(folders: "list[Path]", names: "list[str]") -> str:
    """The first of ``names`` in the first of ``folders`` that has one; empty when none has, or none can be entered."""
    for path in (folder / name for folder in folders for name in names):
        try:
            if path.is_file():
                return str(path)
        except OSError:
            continue
    return ""


def data_sets(question: "dict[str, Any]") -> "dict[str, Any]":
    """The files of the data sets that a job's agent would find by name, and the folders in which it would look for
    them."""
    folders = [Path(folder).expanduser() for folder in question["folders"] if folder]
    own = os.environ.get("CLEW_DATA", "")
    if own:  # a file, or a folder that goes first
        folders = [Path(own), *folders] if os.path.isdir(own) else [Path(own)]  # noqa: PTH112  # it never raises
    package, _, inside = question["digits"].partition("/")
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    packages = [Path(spec.origin).parent] if spec is not None and spec.origin else []
    file = first_file([Path(own)] if own else [], [""])
    found = {name: file or first_file(folders, files) for name, files in question["sets"].items()}
    return {
        "sets": {name: path for name, path in found.items() if path},
        "digits": first_file(packages, [inside]),
        "searched": [str(folder) for folder in folders],
    }


def quota() -> str:
    """Returns the output of ``quota``, if there is such a program and it answers."""
    try:
        done = subprocess.run(
            ["quota", "-w"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")[:2000].strip()


def reaches(index: str) -> bool:
    """Whether a package index answers."""
    import urllib.error  # it takes longer than all the rest, and is seldom needed
    import urllib.request

    url = os.environ.get("PIP_INDEX_URL") or index
    try:
        urllib.request.urlopen(url, timeout=5).close()  # noqa: S310  # the site's own setting, or PyPI
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def answer(question: "dict[str, Any]") -> "dict[str, Any]":
    """Returns what this Python has."""
    python = "{}.{}".format(*sys.version_info[:2])
    have = {name: version_of(module, [name, *others]) for name, module, _, others in question["needed"]}
    small = {module: name for name, module, _, _ in question["needed"] if have[name] and name not in question["never"]}
    have.update({small[module]: "" for module in unusable(sorted(small))})
    missing = [
        name
        for name, _, least, _ in question["needed"]
        if not have[name] or (have[name] != "?" and numbers(have[name]) < numbers(least))
    ]
    lacks = ["{}>={}".format(name, least) for name, _, least, _ in question["needed"] if name in missing]  # noqa: UP032
    lacks = [line for line in lacks if line.split(">=")[0] not in question["never"]]
    libc = list(numbers(platform.libc_ver()[1])) if platform.libc_ver()[0] == "glibc" else []
    words = [*lacks, python, sys.implementation.name, platform.system(), platform.machine()]
    key = hashlib.sha256("\n".join(words).encode("utf-8")).hexdigest()[:16]
    software = Path(question["software"])
    found = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "too_old": os.environ.get("CLEW_TOO_OLD", ""),
        "implementation": sys.implementation.name,
        "system": platform.system(),
        "machine": platform.machine(),
        "libc": libc,
        "path": os.environ.get("PYTHONPATH", ""),
        "have": have,
        "missing": missing,
        "packages": "packages-" + key if lacks else "",
        "states": {name: state_of(software / name) for name in [question["agent"], "packages-" + key]},
        "pip": version_of("pip", ["pip"]),
        "free": free_bytes(software),
        "launcher": program_text(Path(question["launcher"])),
    }
    if question["thorough"]:
        found.update(data_sets(question["data"]))
        found.update(home_free=free_bytes(Path.home()), quota=quota(), index=reaches(question["index"]))
    return found
