"""Sizes in words."""

from __future__ import annotations


def shown(size: int) -> str:
    """``0 bytes``, ``812 kB``, ``3.4 MB``, ``12 GB``."""
    if size < 1000:
        return f"{size} bytes"
    number, unit = float(size), "bytes"
    for unit in ("kB", "MB", "GB", "TB"):
        number /= 1000
        if number < 999.5:
            break
    return f"{number:.1f} {unit}" if number < 10 and unit != "kB" else f"{number:.0f} {unit}"
