"""Files of this computer brought to a site, each once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clew_gui.remote.site_line import SiteLine
from clew_shared.problem import problem


def stage(line: SiteLine, path: str, tell: Callable[[str], None]) -> str:
    """The path on the site of a file or folder of this computer, brought there if need be. Raises ``ProblemError``."""
    raise problem("staging.missing", "Staging is not built yet.")


def stage_exercises(line: SiteLine, folder: Path, tell: Callable[[str], None]) -> str:
    """The same for a folder of exercises. Raises ``ProblemError``."""
    raise problem("staging.missing", "Staging is not built yet.")
