"""The last lines that a process printed before it died."""

from __future__ import annotations

from pathlib import Path

_TAIL_BYTES = 4096
"""A frame of the journal carries these lines: they must stay small beside what it may have."""
_TAIL_LINES = 8
_NOISE = ("All log messages before absl::InitializeLog()", "oneDNN custom operations are on")
"""Lines that TensorFlow prints whenever it is imported, whatever its log level: no reason why a trainer died."""


def tail(path: Path) -> str:
    """The last lines of a text file, of whatever bytes it is made."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    kept = [line[:300] for line in lines if line.strip() and not any(noise in line for noise in _NOISE)]
    return "\n".join(kept[-_TAIL_LINES:])
