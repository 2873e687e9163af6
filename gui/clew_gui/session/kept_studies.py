"""The studies that were started on this computer, one TOML file each, and the lock of the program that does one."""

from __future__ import annotations

import uuid
from pathlib import Path

from clew_shared.base.file_lock import LockFile
from clew_shared.base.file_names import why_unsafe
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError, os_refused, problem
from clew_shared.study.study import StudySpec, read_study, to_toml

_STUDIES = uuid.UUID("5d1b6a9c-2f0e-4f0a-9a63-2a1d0f6f7b11")
"""The namespace of the locks' names: a study's own name may be anything."""


def study_file(places: Places, name: str) -> Path:
    """Returns the file of the study of this name."""
    return places.studies / f"{name}.toml"


def keep_study(places: Places, study: StudySpec) -> Path:
    """Write the study before its first run is asked for; its file. Raises ``ProblemError``."""
    path = study_file(places, study.study)
    if why := why_unsafe(f"{study.study}.toml"):
        text = f"A study cannot be called {study.study!r}: {why}."
        raise problem("study.name", text, "Choose another name.", "study")
    with os_refused("study.keep", f"The study cannot be kept in {path}", "Make room, or move CLEW_HOME.", str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_toml(study), encoding="utf-8", newline="\n")
    return path


def kept_study(places: Places, name: str) -> StudySpec | None:
    """The study of this name; None when it was not kept here, or cannot be read."""
    path = study_file(places, name)
    try:
        return read_study(path) if name and path.is_file() else None
    except ProblemError:
        return None


def study_lock(places: Places, name: str) -> LockFile:
    """The lock of the one program that does a study's runs one after the other, between which none is under way."""
    make_private(places.private)
    return LockFile(places.private / f"study-{uuid.uuid5(_STUDIES, name)}.lock")


def is_done_elsewhere(places: Places, name: str) -> bool:
    """Whether a program, such as a command in a terminal, is doing this study's runs."""
    try:
        lock = study_lock(places, name)
        free = lock.acquire()
    except ProblemError:  # no folder for locks: then nobody has one
        return False
    lock.release()
    return not free
