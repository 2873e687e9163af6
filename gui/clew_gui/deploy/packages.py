"""The small packages that a site lacks: out of this computer's own, else out of wheels for the site's Python."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag
from packaging.version import Version

from clew_gui.deploy.probe import Probe
from clew_gui.deploy.remote_python import Need
from clew_shared.base.places import find_places

_DOWNLOAD_S = 240.0
"""The seconds for a download of some megabytes over a slow line."""
_OLDEST_GLIBC = 5
_NICKNAMES = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}


def suits(tag: str, found: Probe) -> bool:
    """Whether a wheel with this tag (``cp311-cp311-manylinux_2_17_x86_64``) runs in the site's Python."""
    return tag.count("-") == 2 and not parse_tag(tag).isdisjoint(_tags(found))


def _tags(found: Probe) -> set[Tag]:
    """Returns the tags that the site's Python could install, and those of this machine's own builds if they would run
    there."""
    names, here = platforms(found), platform.libc_ver()
    if here[0] == "glibc" and found.libc and Version(here[1]).release <= found.libc:
        names.append(f"linux_{found.machine}")
    if found.implementation != "cpython":
        return set(compatible_tags(found.minor, platforms=names))
    name = "cp{}{}".format(*found.minor)
    return {*cpython_tags(found.minor, [name], names), *compatible_tags(found.minor, name, names)}


def from_here(need: Need, found: Probe) -> dict[str, bytes]:
    """The files of a package of this computer, when they run there; empty when they do not, or it is not here."""
    try:
        here = distribution(need.name)
    except PackageNotFoundError:
        return {}
    tags = re.findall(r"(?m)^Tag: *(\S+)", here.read_text("WHEEL") or "")
    if Version(here.version) < Version(need.least) or not any(suits(tag, found) for tag in tags):
        return {}
    return dict(_files_of(here, need.module))


def _files_of(here: Distribution, module: str) -> Iterator[tuple[str, bytes]]:
    """Yields the package's files; none if one is missing, or the package itself is elsewhere (an editable
    installation)."""
    paths = [path for path in here.files or [] if ".." not in path.parts and "__pycache__" not in path.parts]
    paths = [path for path in paths if not path.is_absolute()]
    if not any(path.parts[0].split(".")[0] == module for path in paths):
        return
    try:
        found = [(path.as_posix(), Path(str(path.locate())).read_bytes()) for path in paths]
    except OSError:
        return
    yield from found


def from_wheels(needs: Sequence[Need], found: Probe, report: Callable[[str], None]) -> dict[str, bytes]:
    """The files of packages out of wheels for the site's Python, fetched by this computer's pip into its cache.

    Empty when pip is not here, the index is out of reach or has no wheel that fits.
    """
    cache = find_places().home / "wheels"
    known = ["--isolated", "--no-index", "--find-links", str(cache)]
    with TemporaryDirectory() as folder:
        if not _download(needs, found, Path(folder), known):
            names = ", ".join(need.name for need in needs)
            report(f"Fetching {names} for Python {found.python} on {found.machine}…")
            fetched = _download(needs, found, cache, ["--retries", "1", "--timeout", "15"])
            if not (fetched and _download(needs, found, Path(folder), known)):
                return {}
        return dict(file for wheel in Path(folder).iterdir() for file in _unpacked(wheel))


def _download(needs: Sequence[Need], found: Probe, folder: Path, options: list[str]) -> bool:
    major, minor = found.minor
    words = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--no-deps", "--dest", str(folder)]
    words += ["--disable-pip-version-check", "--no-input", "--quiet", "--python-version", f"{major}.{minor}"]
    words += ["--implementation", "cp", "--abi", f"cp{major}{minor}", "--abi", "abi3", "--abi", "none"]
    for platform_tag in platforms(found):
        words += ["--platform", platform_tag]
    words += [*options, *(need.requirement for need in needs)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DOWNLOAD_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def platforms(found: Probe) -> list[str]:
    """The platform tags of wheels that run there, the newest first."""
    if found.system != "Linux" or len(found.libc) < 2 or found.libc[0] != 2:
        return ["any"]
    tags = [f"manylinux_2_{minor}_{found.machine}" for minor in range(found.libc[1], _OLDEST_GLIBC - 1, -1)]
    return [*tags, *(f"manylinux{year}_{found.machine}" for year, libc in _NICKNAMES.items() if libc <= found.libc)]


def _unpacked(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = name.split("/")
            if name.endswith("/") or ".." in parts or name.startswith("/"):
                continue
            if parts[0].endswith(".data"):
                if parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            yield "/".join(parts), archive.read(name)
