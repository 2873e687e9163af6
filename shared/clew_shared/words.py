"""Words that the window and the commands have in common."""

from __future__ import annotations


def queue_place(place: int) -> str:
    """A place in the run queue in words: ``next in the queue``, ``2nd in the queue``; empty for 0, which is none."""
    if place < 1:
        return ""
    return "next in the queue" if place == 1 else f"{ordinal(place)} in the queue"


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``, ``21st``."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
