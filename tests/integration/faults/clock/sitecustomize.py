"""Read by every Python that has this folder on PYTHONPATH: its wall clock is off by the seconds in CLEW_TEST_CLOCK.

The file may change at any moment, as a clock that somebody sets. The monotonic clock runs on, as a real one does.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_real = time.time
_file = os.environ.get("CLEW_TEST_CLOCK", "")


def _shifted() -> float:
    try:
        return _real() + float(Path(_file).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _real()


if _file:
    time.time = _shifted
