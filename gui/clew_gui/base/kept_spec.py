"""The spec of a run that is kept, for everyone who can do without it."""

from __future__ import annotations

from pathlib import Path

from clew_shared.base.problem import ProblemError
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, read_spec


def kept_spec(folder: Path) -> RunSpec | None:
    """The spec in a run's folder or mirror, of its latest attempt; None if it cannot be read."""
    try:
        return read_spec(RunFolder(folder).latest_spec)
    except ProblemError:
        return None
