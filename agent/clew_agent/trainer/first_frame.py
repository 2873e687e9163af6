"""The first frame of an attempt, made before TensorFlow is imported: who trains what, where, from which file."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from clew_agent.catalogue.lookup import likely_hash, quick_card
from clew_agent.node.allocation import read_allocation
from clew_agent.node.devices import given
from clew_agent.trainer.compile_cache import version_of
from clew_agent.trainer.resuming import AttemptStart, find_start
from clew_agent.trainer.spec_check import planned_steps
from clew_shared import __version__
from clew_shared.base import operating_system
from clew_shared.cards import ExerciseCard
from clew_shared.journal.events import Attempt
from clew_shared.journal.files import JOURNAL_FORMAT
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import check
from clew_shared.spec import RunSpec

_LONGEST_SPEC = 32 << 10
_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos")


def describe_attempt(
    folder: RunFolder, attempt: int, spec: RunSpec, exercises: Path | None
) -> tuple[Attempt, AttemptStart]:
    """The ``Attempt`` event, and where the attempt begins. Works for a spec that will be refused as well."""
    start = find_start(folder, attempt)
    card = quick_card(spec.exercise, exercises)
    event = Attempt(
        format=JOURNAL_FORMAT,
        run=spec.run or folder.path.name,
        attempt=attempt,
        exercise=spec.exercise,
        spec_sha256=_file_sha256(folder.spec),
        source_sha256=likely_hash(spec.exercise, exercises),
        host=operating_system.host_name(),
        boot=operating_system.boot_id(),
        pid=os.getpid(),
        software=software(),
        seed=spec.seed,
        steps=_steps(spec, card),
        start_step=start.step,
        resumes=start.resumes,
        checkpoint=start.checkpoint,
        earlier_size=start.earlier_size,
        earlier_sha256=start.earlier_sha256,
        devices=given(),
        job=read_allocation().job,
        spec=_short_text(folder.spec_of(attempt)),
        revision=card.revision if card is not None else 0,
    )
    return event, start


def _steps(spec: RunSpec, card: ExerciseCard | None) -> int:
    """Steps of the whole run; 0 while they are not known, which is before a file of someone's own is imported."""
    return planned_steps(check(card.params, spec.params)[0]) if card is not None else 0


def software() -> dict[str, str]:
    """Returns what the numbers depend on: versions, read without importing any of it, and the processor."""
    found = {"clew": __version__, "python": platform.python_version(), "processor": operating_system.processor()}
    for name, packages in {"tensorflow": _TENSORFLOW, "keras": ("keras",), "numpy": ("numpy",)}.items():
        version = next((one for one in map(version_of, packages) if one), "")
        found |= {name: version} if version else {}
    return found


def _short_text(path: Path) -> str:
    """Returns the text of a spec; nothing of one that would make the first frame long: readers look for it in 64
    KiB."""
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _LONGEST_SPEC else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _file_sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
