"""Folders to be sent to a site: their files, a name made from their content, and the archive."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew_shared.base.number_words import in_bytes
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.base.remedies import choose, path_on_site
from clew_shared.catalogue import known_sets
from clew_shared.data_sets import brought_as, packaged_file

OWN_PACKAGES = ("clew_agent", "clew_shared")

Files = Mapping[str, bytes]
"""Content by relative path, with slashes."""


def own_files() -> dict[str, bytes]:
    """The agent's packages as this very program runs them, so that both ends always match. They are not imported.

    Built-in data sets come along where this computer has the Python package that holds them, so that no site needs it
    for them. Raises ``ProblemError`` when this installation of Clew lacks the agent's packages.
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
    built_in = {brought_as(card): packaged_file(card) for card in known_sets().values()}
    return found | {name: file.read_bytes() for name, file in built_in.items() if file is not None}


def files_below(folder: Path) -> dict[str, bytes]:
    """Returns all files of a folder except those that Python generated."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def digests(files: Files) -> dict[str, str]:
    """SHA-256 of each file."""
    return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())}


def name_of(kind: str, files: Files) -> str:
    """A folder name made from the content: ``agent-0123456789abcdef``."""
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


# --- Sources ----------------------------------------------------------------------------------------------------------
# A file or folder of this computer as one row of bytes with a SHA-256, which can be read again from any offset.


_PIECE = 1 << 20
_BLOCK = 512
_EXERCISE_KINDS = frozenset({".py", ".md", ".json", ".toml", ".csv", ".txt"})
MAX_EXERCISES = 8_000_000
"""Bytes of a folder of exercises; a file of Python may have a mebibyte."""
MAX_EXERCISE_FILES = 500


class Upload:
    """A file to upload as it is, or a folder as a plain tar archive whose bytes depend on its content alone.

    ``digest`` is the SHA-256 of these bytes, ``files`` that of each file by its path from where it will lie.
    """

    def __init__(
        self, name: str, parts: Sequence[tuple[bytes | Path, int]], files: dict[str, str], digest: str
    ) -> None:
        self.name = name
        self.size = sum(size for _, size in parts)
        self.files = files
        self.digest = digest
        self.folder = any(isinstance(part, bytes) for part, _ in parts)
        self._parts = parts

    def read(self, offset: int, limit: int) -> bytes:
        """Reads up to ``limit`` bytes from ``offset`` on. Raises ``ProblemError`` if a file has changed."""
        found, begin = [], 0
        for part, size in self._parts:
            first, last = max(offset, begin), min(offset + limit, begin + size)
            if first < last:
                found.append(_read_part(part, size, first - begin, last - first))
            begin += size
        return b"".join(found)


def _read_part(part: bytes | Path, size: int, offset: int, limit: int) -> bytes:
    if isinstance(part, bytes):
        return part[offset : offset + limit]
    with _readable(part):
        with part.open("rb") as file:
            file.seek(offset)
            data = file.read(limit)
        if len(data) == limit and part.stat().st_size == size:
            return data
    text = f"{part} changed while it was brought to the site."
    raise problem("staging.changed", text, "Wait until it is written, then start again.", str(part))


def source_of(path: Path, report: Callable[[str], None]) -> Upload:
    """A file or folder; hidden files of a folder are left out. Raises ``ProblemError`` when it cannot be read."""
    path = path.resolve()
    if not path.exists():
        text = f"There is no file or folder {path} on this computer."
        hint = "Choose it again, or say that it is a path on the site."
        raise problem("staging.absent", text, hint, str(path), choose("data"), path_on_site())
    with _readable(path):
        if path.is_dir():
            return _folder(path, list(_visible(path)), report)
        size = path.stat().st_size
        digest = _digest(path, size, report)
    _check_names(path, [path.name])
    return Upload(path.name, [(path, size)], {path.name: digest}, digest)


_CHECK = "Check the folder of your own exercises."


def exercises_of(folder: Path, report: Callable[[str], None]) -> Upload:
    """A folder's exercises: Python and small texts beside it, nothing hidden, no environment of Python.

    Raises ``ProblemError`` when it is no folder, holds no exercise, or too much.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise problem("exercises.folder", f"There is no folder {folder}.", _CHECK, str(folder), choose("exercises"))
    with _readable(folder):
        paths = [path for path in _visible(folder) if path.suffix in _EXERCISE_KINDS]
        sizes = {path: path.stat().st_size for path in paths}
        if not any(path.suffix == ".py" and path.parent == folder for path in paths):
            text = f"The folder {folder} holds no .py file."
            raise problem("exercises.folder", text, _CHECK, str(folder), choose("exercises"))
        raise_all(_too_much(folder, sizes))
        return _folder(folder, paths, report)


def _too_much(folder: Path, sizes: dict[Path, int]) -> Iterator[Problem]:
    total = sum(sizes.values())
    if total > MAX_EXERCISES or len(sizes) > MAX_EXERCISE_FILES:
        largest = max(sizes, key=lambda path: sizes[path])
        text = (
            f"The exercises in {folder} are {len(sizes)} files of {in_bytes(total)}; {MAX_EXERCISE_FILES} files of "
            f"{in_bytes(MAX_EXERCISES)} are brought to a site. The largest is {largest.relative_to(folder)} "
            f"({in_bytes(sizes[largest])})."
        )
        yield Problem("exercises.size", text, "Put data elsewhere and name it as data.", str(folder), (choose("data"),))


def _visible(folder: Path) -> Iterator[Path]:
    """Yields all plain files below, but no hidden ones, none that Python generated, and no environments of Python."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if path.is_dir():
            if not path.is_symlink() and not (path / "pyvenv.cfg").exists():
                yield from _visible(path)
        elif path.is_file():
            yield path


def _folder(folder: Path, paths: list[Path], report: Callable[[str], None]) -> Upload:
    if not paths:
        raise problem("staging.empty", f"There is nothing in the folder {folder}.", "Check its name.", str(folder))
    names = [path.relative_to(folder).as_posix() for path in paths]
    _check_names(folder, [folder.name, *names])
    parts: list[tuple[bytes | Path, int]] = []
    files: dict[str, str] = {}
    whole = hashlib.sha256()
    for path, name in zip(paths, names, strict=True):
        size = path.stat().st_size
        header, filling = _header(name, size), bytes(-size % _BLOCK)
        whole.update(header)
        files[name] = _digest(path, size, report, whole)
        whole.update(filling)
        parts += [(header, len(header)), (path, size), (filling, len(filling))]
    end = bytes(2 * _BLOCK)
    whole.update(end)
    return Upload(folder.name, [*parts, (end, len(end))], files, whole.hexdigest())


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT)


def _digest(path: Path, size: int, report: Callable[[str], None], whole: hashlib._Hash | None = None) -> str:
    """SHA-256 of a file; its bytes go into ``whole`` as well."""
    if size > 200 * _PIECE:
        report(f"Reading {path.name} ({in_bytes(size)})…")
    found, count = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(_PIECE):
            count += len(data)
            found.update(data)
            if whole is not None:
                whole.update(data)
    if count != size:
        raise problem("staging.changed", f"{path} changes while it is read.", "Wait until it is written.", str(path))
    return found.hexdigest()


def _check_names(path: Path, names: list[str]) -> None:
    """Checks that each name fits into a list with one line for each."""
    bad = next((name for name in names if not name or not name.isprintable() or "\\" in name), None)
    if bad is not None:
        text = f"{path} has a name that cannot be brought to a site: {bad!r}."
        raise problem("staging.name", text, "Rename it.", str(path))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or path
        text = f"{where} cannot be read: {error.strerror or error}."
        raise problem("staging.unreadable", text, "Check its permissions on this computer.", str(where)) from None
