"""The folder in which TensorFlow keeps what XLA has compiled, so that the same run starts without compiling it again.

It is TensorFlow's own cache (``tf_xla_persistent_cache_directory``). That one fails a run when a file in it is damaged,
so each file gets a checksum beside it, and what does not match is removed before TensorFlow looks. The checksum is a
quick one, because every run waits for all of them. The folder belongs to the user alone, lies on the node's own disk,
and is another one for another processor or another TensorFlow.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import time
import zlib
from contextlib import suppress
from pathlib import Path

from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import ProblemError

VARIABLE = "TF_XLA_FLAGS"
_FLAGS = "--tf_xla_persistent_cache_device_types=CPU --tf_xla_persistent_cache_directory="
_MOST_FILES = 100
"""Largest number of files, about 0.2 MB each; all are read whenever a run begins."""
_ROOM_BYTES = 256 << 20
"""Bytes that must be free on that disk; with less room there is no cache, because TensorFlow fails a run when it cannot
write it."""
_FRESH_S = 60.0
"""Seconds: a younger file without a checksum belongs to a run that is beginning right now; it got its name when it was
complete."""
_CPU = Path("/proc/cpuinfo")


def environment(places: Places) -> dict[str, str]:
    """The variable that makes a TensorFlow that is yet to be imported use the cache; nothing where that is unwise."""
    folder = cache_folder(places)
    try:
        make_private(make_private(make_private(places.private) / folder.parent.name) / folder.name)
    except (OSError, ProblemError):
        return {}
    separable = not any(letter.isspace() for letter in str(folder))  # TensorFlow splits the flags at spaces
    return {VARIABLE: _FLAGS + str(folder)} if _is_roomy(folder) and separable else {}


def cache_folder(places: Places) -> Path:
    """The folder for this processor and this TensorFlow."""
    words = (version_of("tensorflow"), version_of("tensorflow-cpu"), platform.machine(), _processor())
    return places.private / "xla" / hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def in_use(places: Places) -> Path | None:
    """The cache folder if this process is set to use it."""
    folder = cache_folder(places)
    return folder if os.environ.get(VARIABLE) == _FLAGS + str(folder) else None


def prepare(places: Places) -> None:
    """Makes sure, before TensorFlow reads the cache, that it is sound, or turns it off where there is no room for it.

    A copy of the nursery has the nursery's environment, which may be hours old. TensorFlow reads the variable when it
    compiles for the first time.
    """
    folder = in_use(places)
    if folder is None:
        return
    if _is_roomy(folder):
        vet(folder)
    else:
        del os.environ[VARIABLE]


def _is_roomy(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free > _ROOM_BYTES
    except OSError:
        return False


def vet(folder: Path) -> None:
    """Remove damaged files, files without a checksum, and the oldest of too many, before TensorFlow reads them."""
    files = sorted((path for path in folder.glob("*.pb")), key=_age)
    for place, path in enumerate(files):
        if place >= _MOST_FILES or not _is_sound(path):
            for each in (path, _checksum_file(path)):
                with suppress(OSError):
                    each.unlink()


def vouch(folder: Path) -> None:
    """Give every new file its checksum. After TensorFlow has compiled; a disk that refuses only loses the cache."""
    for path in folder.glob("*.pb"):
        if not _checksum_file(path).exists():
            with suppress(OSError):
                write_private(_checksum_file(path), checksum(path).encode("ascii"))


def _is_sound(path: Path) -> bool:
    try:
        return _checksum_file(path).read_text(encoding="ascii") == checksum(path)
    except (OSError, UnicodeDecodeError):
        return _age(path) < _FRESH_S and not _checksum_file(path).exists()


def _age(path: Path) -> float:
    """Seconds since it was written; a file that has just been removed counts as old."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")


def checksum(path: Path) -> str:
    """Ten times as fast as SHA-256, and as good against what a disk or a cut-off writer does to a file."""
    return f"{zlib.crc32(path.read_bytes()):08x}"


def _checksum_file(path: Path) -> Path:
    return path.with_suffix(".crc32")


def version_of(package: str) -> str:
    """The version of an installed package, read without importing it; empty if there is none."""
    from importlib import metadata  # late: the supervisor imports this module and must be ready at once

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    """Returns what the processor can do, as the system reports it: code for one that can do more would crash here."""
    try:
        lines = _CPU.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    fields = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(fields)}))
