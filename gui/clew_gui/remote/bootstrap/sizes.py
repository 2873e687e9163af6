"""Sizes in words."""

from __future__ import annotations

_UNITS = ("kB", "MB", "GB", "TB")


def shown(size: int) -> str:
    """``0 bytes``, ``812 kB``, ``3.4 MB``, ``12 GB``."""
    if size < 1000:
        return f"{size} bytes"
    step = next((step for step in range(1, len(_UNITS)) if size < 999.5 * 1000**step), len(_UNITS))
    number = size / 1000**step
    return f"{number:.1f} {_UNITS[step - 1]}" if number < 9.95 and step > 1 else f"{number:.0f} {_UNITS[step - 1]}"
