"""Folders to be sent to a site: their files, the name that stands for them, and the archive."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from clew_shared.data_files import DIGITS_BROUGHT, sklearn_digits
from clew_shared.problem import problem

OWN_PACKAGES = ("clew_agent", "clew_shared")

Files = Mapping[str, bytes]
"""Content by relative path, with slashes."""


def own_files() -> dict[str, bytes]:
    """The agent's packages as this very program runs them, so that both ends always match. They are not imported.

    The built-in digits come along where this computer has scikit-learn, so that no site needs it for them. Raises
    ``ProblemError`` when this installation of Clew lacks the packages.
    """
    found: dict[str, bytes] = {}
    for name in OWN_PACKAGES:
        spec = importlib.util.find_spec(name)
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        sources = files_below(Path(folders[0])) if folders else {}
        if "__init__.py" not in sources:
            text = f"This installation of Clew has no source files of {name}, so it cannot bring the agent to a site."
            raise problem("bootstrap.sources", text, "Install Clew again, from its wheel.", name)
        found |= {f"{name}/{path}": data for path, data in sources.items()}
    digits = sklearn_digits()
    return found if digits is None else found | {DIGITS_BROUGHT: digits.read_bytes()}


def files_below(folder: Path) -> dict[str, bytes]:
    """All files of a folder but what Python made of them."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def digests(files: Files) -> dict[str, str]:
    """SHA-256 of each file."""
    return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())}


def name_of(kind: str, files: Files) -> str:
    """A folder name that stands for the content: ``agent-0123456789abcdef``."""
    return f"{kind}-{hashlib.sha256(msgspec.json.encode(digests(files))).hexdigest()[:16]}"


def packed(files: Files) -> bytes:
    """A packed tar archive; the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(raw.getvalue(), compresslevel=6, mtime=0)
