"""The hand-in bundle: a zip file with the report, the journals and specs of its runs, and a manifest of hashes.

It is a plain zip without compression whose last 64 characters are the SHA-256 of all bytes before them, so that one
altered byte anywhere is found. Checkpoints, logs and data stay where the runs were made.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from clew_gui.reports.facts import ReportFacts, RunSource, starts
from clew_gui.reports.page import LabReport, render
from clew_shared.base.file_names import safe_path
from clew_shared.base.foreign import from_json, open_regular, read_file, replacing_whole
from clew_shared.base.problem import Problem, os_refused, problem
from clew_shared.journal.run_folder import RunFolder

HANDIN_FORMAT = 1
SUFFIX = ".clew.zip"
MANIFEST = "handin.json"
PAGE = "report.html"
_RUNS = "runs"
_NAME = re.compile(
    r"report\.html|runs/[A-Za-z0-9][A-Za-z0-9._-]{0,63}/(journal\.\d{4,18}|spec(\.\d{4,})?\.toml)", re.ASCII
)
_COMMENT = b"Clew hand-in, SHA-256 of all bytes before these 64: "
_DIGITS = 64
_MAX_MANIFEST = 64 << 20
_ENCRYPTED = 0x1
"""The bit of a zip entry that says so."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive: the manifest has the true one."""


class HandinFile(msgspec.Struct, frozen=True):
    """Length and SHA-256 of a file in the bundle."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The bundle's claims: the report's facts, and every other file in it by path."""

    format: int
    facts: ReportFacts
    files: dict[str, HandinFile]


# --- Writing ----------------------------------------------------------------------------------------------------------


def write_handin(path: Path, report: LabReport, sources: Sequence[RunSource]) -> Path:
    """Write the bundle to ``path``, in one go. Raises ``ProblemError`` for a run that is not over, for a replay, and
    where the file cannot be written."""
    for running in (source for source in sources if not source.history.fold.done):
        text = f"Run {running.history.fold.run[:8]} is not over, so its journal still changes."
        raise problem("handin.running", text, "Wait for its end, or stop it first.", str(running.folder))
    for shown in (source for source in sources if source.history.fold.replay_of):
        text = f"Run {shown.history.fold.run[:8]} is a replay of run {shown.history.fold.replay_of[:8]}, not a run."
        raise problem("handin.replay", text, "Hand in the run itself.", str(shown.folder))
    with os_refused("handin.write", f"Cannot write {path}", "Choose another place.", str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_whole(path) as part:
            _write(part, report, sources)
    return path


def _write(part: Path, report: LabReport, sources: Sequence[RunSource]) -> None:
    contents: dict[str, bytes | Path] = {PAGE: render(report).encode()}
    for source in sources:
        names = {found.name: found for found in _files_of(RunFolder(source.folder))}
        contents |= {f"{_RUNS}/{source.history.fold.run}/{name}": found for name, found in names.items()}
    pack(part, report.facts, contents)


def pack(path: Path, facts: ReportFacts, contents: Mapping[str, bytes | Path]) -> None:
    """Write a bundle that claims ``facts`` and holds these files. Raises ``OSError`` as it comes."""
    files = {name: _record(content) for name, content in contents.items()}
    manifest = msgspec.json.encode(Manifest(format=HANDIN_FORMAT, facts=facts, files=files))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = _COMMENT + b"0" * _DIGITS
        for name, content in {MANIFEST: manifest, **contents}.items():
            with archive.open(zipfile.ZipInfo(name, _EPOCH), "w") as file:
                for chunk in _chunks(content):
                    file.write(chunk)
    with path.open("r+b") as whole:
        digest = digest_of(whole)
        whole.seek(-_DIGITS, os.SEEK_END)
        whole.write(digest.encode())


def _files_of(folder: RunFolder) -> Iterator[Path]:
    """The journals; with the specs of a run of an earlier version, whose journals do not hold them."""
    yield from (folder.journal(attempt) for attempt in folder.attempts())
    if not any(start.spec for _, start in starts(folder.path)):
        changed = (folder.changed_spec(attempt) for attempt in folder.attempts())
        yield from (path for path in (folder.spec, *changed) if path.exists())


def _chunks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _record(content: bytes | Path) -> HandinFile:
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(content):
        digest.update(chunk)
        size += len(chunk)
    return HandinFile(size, digest.hexdigest())


def digest_of(file: BinaryIO) -> str:
    """SHA-256 of a bundle without the 64 digits at its end."""
    left, digest = file.seek(0, os.SEEK_END) - _DIGITS, hashlib.sha256()
    file.seek(0)
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()


# --- Reading ----------------------------------------------------------------------------------------------------------


class OpenedHandin(msgspec.Struct, frozen=True):
    """A bundle that was unpacked: its manifest, where its files are, and what is wrong with the archive itself."""

    manifest: Manifest
    folder: Path
    faults: tuple[Problem, ...]

    @property
    def page(self) -> str:
        """The report as it was handed in; empty when it is missing."""
        path = self.folder / PAGE
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def run_folders(self) -> dict[str, Path]:
        """The folder of each run that the bundle holds."""
        names = dict.fromkeys(name.split("/")[1] for name in self.manifest.files if name.startswith(f"{_RUNS}/"))
        return {name: self.folder / _RUNS / name for name in names}


def open_handin(path: Path, into: Path) -> OpenedHandin:
    """Unpack a bundle into the empty folder ``into`` and compare every file with the manifest.

    Raises ``ProblemError`` for a file that is no bundle, or whose manifest cannot be read; all else becomes a fault.
    """
    try:
        with open_regular(path) as file:
            digest, size = digest_of(file), file.seek(0, os.SEEK_END)
            file.seek(-min(_DIGITS + len(_COMMENT), size), os.SEEK_END)
            end = file.read()
            with zipfile.ZipFile(file) as archive:
                faults = _unpack(archive, into, size)
        manifest = _manifest(into, faults)
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        text = f"{path.name} is not a hand-in that can be read: {getattr(error, 'strerror', None) or error}."
        raise problem("handin.read", text, "Ask for the file again.", path.name) from None
    faults += _compare(manifest, into, {fault.where for fault in faults})
    if end != _COMMENT + digest.encode() and not faults:
        text = f"Bytes of {path.name} outside of its files were changed since Clew wrote it."
        faults.append(Problem("handin.bytes", text, where=path.name))
    return OpenedHandin(manifest, into, tuple(faults))


def _unpack(archive: zipfile.ZipFile, into: Path, size: int) -> list[Problem]:
    """Write each file of the archive; what is wrong with it. Nothing in a hand-in is compressed, so that its files
    are smaller than the archive: else they share bytes. Raises ``ValueError`` for that."""
    faults: list[Problem] = []
    entries = archive.infolist()
    if sum(info.file_size for info in entries) > size:
        raise ValueError("its files overlap, or are larger than the archive")
    for info in entries:
        name = info.filename
        if info.flag_bits & _ENCRYPTED:
            faults.append(Problem("handin.file", f"{name[:80]!r} in the bundle is encrypted.", where=name[:80]))
            continue
        known = name == MANIFEST or (_NAME.fullmatch(name) and safe_path(name))
        if not known or info.compress_type != zipfile.ZIP_STORED:
            text = f"The bundle holds {name[:80]!r}, which no hand-in has."
            faults.append(Problem("handin.file", text, where=name[:80]))
            continue
        place = into / name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with archive.open(info) as source, place.open("xb") as target:
                while chunk := source.read(1 << 20):
                    target.write(chunk)
        except (zipfile.BadZipFile, EOFError, FileExistsError):
            faults.append(_changed(name))
    return faults


def _changed(name: str) -> Problem:
    return Problem("handin.file", f"{name} was changed since it was handed in.", where=name)


def _manifest(folder: Path, faults: list[Problem]) -> Manifest:
    """Raises ``ValueError`` that says why there is none."""
    if any(fault.where == MANIFEST for fault in faults) or not (folder / MANIFEST).exists():
        raise ValueError(f"its {MANIFEST} is missing or was changed")
    try:
        found: Manifest = from_json(read_file(folder / MANIFEST, _MAX_MANIFEST), Manifest)
    except msgspec.DecodeError as error:
        raise ValueError(f"its {MANIFEST} says {error}") from None
    if found.format != HANDIN_FORMAT:
        raise ValueError(f"it has format {found.format}, and this version of Clew reads format {HANDIN_FORMAT}")
    return found


def _compare(manifest: Manifest, folder: Path, known: set[str]) -> list[Problem]:
    """Returns what is missing, added or changed, except for what is ``known`` already."""
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
    faults = [
        Problem("handin.file", f"{name} is missing from the bundle.", where=name)
        for name in manifest.files
        if name not in there and name not in known
    ]
    for name in sorted(there - known):
        if name not in manifest.files:
            faults.append(Problem("handin.file", f"{name} was added to the bundle.", where=name))
        elif _record(folder / name) != manifest.files[name]:
            faults.append(_changed(name))
    return faults


def file_name(facts: ReportFacts) -> str:
    """``softmax-anna-beispiel.clew.zip``: what a bundle is called unless another name is given."""
    words = "-".join([one.id for one in facts.exercises[:3]] + facts.student.lower().split())
    return (re.sub(r"[^\w.-]", "_", words).strip("._") or "hand-in") + SUFFIX
