"""Lengths of time as schedulers write them, in whole seconds; and times of day."""

from __future__ import annotations

import re
import time

MOST_S = 366 * 86400
"""The longest time in seconds: no scheduler lets a job run for more than a year."""
_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_WORD = re.compile(r"(?P<number>[0-9]{1,7}) ?(?P<unit>s|min|m|h|d)")
_CLOCK = re.compile(r"(?:(?P<days>[0-9]{1,4})-)?(?P<parts>[0-9]{1,7}(?::[0-9]{1,2}){0,2})")


def read_time(text: str) -> int | None:
    """Seconds of a length of time in Slurm's forms, or with a unit; None for anything else.

    ``30`` are minutes, ``30:00`` minutes and seconds, ``02:00:00`` hours, ``1-12`` days and hours, ``1-00:00:00``;
    also ``90 min``, ``2h``, ``1d``. See ``--time`` in sbatch(1).
    """
    word = _WORD.fullmatch(text.strip())
    if word is not None:
        return _bounded(int(word["number"]) * _UNITS[word["unit"]])
    clock = _CLOCK.fullmatch(text.strip())
    if clock is None:
        return None
    parts = [int(part) for part in clock["parts"].split(":")]
    if any(part > 59 for part in parts[1:]) or (clock["days"] is not None and parts[0] > 23):
        return None
    from_minutes = clock["days"] is None and len(parts) < 3
    hours, minutes, seconds = ([0, *parts, 0] if from_minutes else [*parts, 0, 0])[:3]
    return _bounded(int(clock["days"] or 0) * 86400 + hours * 3600 + minutes * 60 + seconds)


def _bounded(seconds: int) -> int | None:
    return seconds if 0 < seconds <= MOST_S else None


def read_clock(text: str) -> int | None:
    """Seconds of ``H:MM:SS`` or ``MM:SS`` with any number of hours, or a plain number of seconds: PBS writes so."""
    if re.fullmatch(r"[0-9]{1,9}(:[0-9]{1,2}){0,2}", text.strip()) is None:
        return None
    seconds = 0
    for part in text.strip().split(":"):
        seconds = seconds * 60 + int(part)
    return seconds


def as_clock(seconds: int) -> str:
    """``HH:MM:SS``, hours beyond a day as they are: the one form that Slurm, PBS and mnsubmit read alike."""
    return f"{seconds // 3600:02d}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"


def time_of_day(when: float) -> str:
    """``14:30``, for a moment in seconds since 1970."""
    return time.strftime("%H:%M", time.localtime(when))
