"""Numbers and choices in the words that the window and the commands have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_SIZES = ("kB", "MB", "GB", "TB")


def ordinal(number: int) -> str:
    """Returns an ordinal number: ``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``, ``21st``."""
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
    """Returns a number with its noun: ``1 worker``, ``1,200 workers``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def either(words: Sequence[str]) -> str:
    """Joins choices with "or": ``a``, ``a or b``, ``a, b or c``; empty for none."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def rate(steps_per_second: float | None, batch_size: int = 1) -> str:
    """Steps per second with three figures, and samples of batches: "182 steps/s", "0.420 steps/s, 13.4 samples/s".

    Empty when unknown.
    """
    if steps_per_second is None or not math.isfinite(steps_per_second) or steps_per_second <= 0:
        return ""
    units = {"steps": steps_per_second} | ({"samples": steps_per_second * batch_size} if batch_size > 1 else {})
    return ", ".join(f"{_three_figures(value)} {unit}/s" for unit, value in units.items())


def _three_figures(value: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(value))) if value < 100 else 0
    return f"{value:,.{digits}f}"


def quantity(value: float, form: str = "number") -> str:
    """A metric's value: "91.98 %", four significant figures, three before a power of ten; "NaN", "∞" and "-∞"."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if form == "percent":
        return f"{100 * value:.2f} %"
    text = f"{value:.4g}"
    return f"{value:.3g}" if "e" in text else text


def difference(value: float | None, base: float | None, form: str = "number") -> str:
    """How far a value is from another: "+1.20 points" (of percent), "-0.031", or from a factor of
    ten on, where the difference is the larger value, how many times it is that, "×3.1e-08"; empty if one is missing."""
    if value is None or base is None or not math.isfinite(value - base):
        return ""
    if form == "number" and value > 0 < base and abs(math.log10(value) - math.log10(base)) >= 1:
        ratio = value / base
        return f"×{ratio:.2g}" if 0 < ratio < math.inf else ""
    apart = quantity(abs(value - base), form).replace(" %", " points")
    return f"{'+' if value > base else '-'}{apart}" if value != base else "0"


def number_ranges(numbers: Iterable[int]) -> str:
    """Lists whole numbers, those that follow each other as ranges: ``3, 14–213 (200)``."""
    known = sorted(set(numbers))
    ranges: list[list[int]] = []
    for number in known:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    parts: list[str] = []
    for first, last in ranges:
        parts += [f"{first}–{last} ({last - first + 1})"] if last - first > 1 else map(str, range(first, last + 1))
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """``2 minutes``, ``1 hour 30 minutes``, ``2 days``; seconds only below two minutes."""
    left, parts = round(seconds), list[str]()
    if left < 120 and left % 60:
        return counted(left, "second")
    left = 60 * round(left / 60)
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if left >= size:
            parts.append(counted(left // size, name))
            left %= size
    return " ".join(parts[:2]) or "0 seconds"
