"""Numbers as people read them: in read-outs and on axes. Fractions with the format "percent" are shown times 100."""

from __future__ import annotations

import math
from typing import Final, Literal

from clew_shared.base.number_words import quantity

Format = Literal["number", "percent"]

_NARROW_NO_BREAK: Final = "\u202f"


def value_text(value: float, form: Format = "number") -> str:
    """A measured value: percent with two decimals, numbers with three significant digits, no exponent in between."""
    if form == "percent" or not math.isfinite(value):
        return quantity(value, form)
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    if size >= 1000:
        return f"{value:,.0f}"
    digits = max(2 - math.floor(math.log10(size)), 0)
    return f"{value:.{min(digits, 6)}f}"


def goal_text(value: float, form: Format = "number") -> str:
    """A number that a person chose: 0.001, 1e-12; percent with two decimals."""
    if form == "percent" or not math.isfinite(value):
        return quantity(value, form)
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def count_text(value: float) -> str:
    """A whole number with separators, such as 25,000."""
    return f"{value:,.0f}"


def seconds_text(seconds: float) -> str:
    """A duration: 0.42 s, 41.3 s, 12:05, 3:07:20."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def tick_text(value: float, step: float, form: Format = "number") -> str:
    """A number on a linear axis whose ticks are ``step`` apart: as many decimals as that needs, the same for all."""
    factor = 100.0 if form == "percent" else 1.0
    unit = " %" if form == "percent" and value != 0 else ""
    shown, gap = value * factor, abs(step) * factor
    if max(abs(shown), gap) >= 1e7 or gap < 1e-6:
        return f"{shown:.3g}".replace("e+", "e")
    decimals = max(0, -math.floor(math.log10(gap) + 1e-9)) if gap else 0
    if round(gap * 10**decimals, 6) != round(gap * 10**decimals):
        decimals += 1
    text = f"{shown:,.{decimals}f}"
    return ("0" if float(text.replace(",", "")) == 0 else text) + unit


def log_tick_text(value: float, form: Format = "number") -> str:
    """A number on a logarithmic axis: plain from a ten-thousandth to a million, beyond as values are written."""
    factor = 100.0 if form == "percent" else 1.0
    unit = " %" if form == "percent" else ""
    shown = value * factor
    exponent = math.floor(math.log10(shown) + 1e-9)
    mantissa = shown / 10.0**exponent
    if -4 <= exponent < 6:
        digits = next((n for n in range(4) if abs(mantissa - round(mantissa, n)) < 1e-6), 4)
        return f"{shown:,.{max(0, digits - exponent)}f}{unit}"
    return f"{mantissa:.2g}e{exponent}{unit}"


def seconds_tick_text(seconds: float, step: float) -> str:
    """A number on an axis of training seconds."""
    if seconds == 0:
        return "0"
    if step >= 30:
        return seconds_text(max(seconds, 60.0)) if seconds >= 60 else f"0:{round(seconds):02d}"
    return f"{tick_text(seconds, step)} s"


def images_tick_text(images: float, step: float) -> str:
    """A number on an axis of images: thousands and millions by letter, so that labels stay short."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if step >= size / 10 and images:
            return f"{tick_text(images / size, step / size)}{_NARROW_NO_BREAK}{letter}"
    return tick_text(images, step)
