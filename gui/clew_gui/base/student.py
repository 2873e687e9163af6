"""Keeps the student's name, which goes into the spec of every run that is started here, and so under its journal's
hash. A hand-in with the run of another student is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clew_gui.base.settings import local_settings
from clew_shared.base.foreign import read_file
from clew_shared.base.places import Places
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import os_refused, problem
from clew_shared.spec import MAX_NAME, RunSpec


def _file(places: Places) -> Path:
    return places.config / "student.txt"


def student_name(places: Places) -> str:
    """The name that runs and hand-ins of this computer carry; empty for none."""
    try:
        return _tidy(read_file(_file(places), 4096).decode())[:MAX_NAME]
    except ValueError:
        return ""


def keep_student(places: Places, name: str) -> str:
    """Remember the name; returns it as it is kept. Raises ``ProblemError`` for one that is too long, and
    ``UnicodeEncodeError`` for bytes that are no text."""
    name.encode()  # bytes that are no UTF-8 must not vanish with other signs that cannot be shown
    tidy = _tidy(name)
    if len(tidy) > MAX_NAME:
        text = f"The name of a student may have {MAX_NAME} characters, this one has {len(tidy)}."
        raise problem("student.name", text, "Shorten it.", tidy)
    text, hint = f"The name cannot be saved in {places.config}", "Free some space, or check the folder."
    with os_refused("student.write", text, hint, str(places.config)):
        places.config.mkdir(parents=True, exist_ok=True)
        write_private(_file(places), f"{tidy}\n".encode())
    return tidy


def signed(places: Places, spec: RunSpec) -> RunSpec:
    """``spec`` as the student of this computer starts it, in the course that is followed. Where ``places`` name none,
    as those of a command's own agent do, it stays as it was signed before.
    """
    course = local_settings(places).load().course
    return msgspec.structs.replace(spec, student=student_name(places) or spec.student, course=course or spec.course)


def _tidy(name: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in name).split())
