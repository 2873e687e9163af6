"""Numbers and choices in the words that the window and the commands have in common."""

from __future__ import annotations

from collections.abc import Sequence

_SIZES = ("kB", "MB", "GB", "TB")


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``, ``21st``."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def in_bytes(size: int) -> str:
    """A size in powers of 1000: ``0 bytes``, ``812 kB``, ``3.4 MB``, ``12 GB``."""
    if size < 1000:
        return f"{size} bytes"
    step = next((step for step in range(1, len(_SIZES)) if size < 999.5 * 1000**step), len(_SIZES))
    number = size / 1000**step
    return f"{number:.1f} {_SIZES[step - 1]}" if number < 9.95 and step > 1 else f"{number:.0f} {_SIZES[step - 1]}"


def counted(number: int, thing: str) -> str:
    """``1 worker``, ``1,200 workers``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def either(words: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``; empty for none."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
