"""Describes the partitions or queues of any scheduler in one form, and says whether a job may ask for so much time
there.

Each scheduler's own file reads what its commands print into this form.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clew_gui.base.times import as_clock, in_words
from clew_gui.schedulers.allocation import AllocationRequest, seconds_asked
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import choose, set_to


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition or queue. None: not reported. ``gpus`` is the most that one node has, ``kinds`` what they are
    called."""

    name: str
    default: bool = False
    seconds: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    kinds: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    up: bool = True


_OFFERED = 3


def asked_names(allocation: AllocationRequest) -> list[str]:
    """The partitions that a job names."""
    return [name.strip() for name in allocation.partition.split(",") if name.strip()]


def chosen(partitions: Sequence[Partition], allocation: AllocationRequest) -> list[Partition]:
    """The partitions that a job goes to: those asked for, else the default one, else nobody knows."""
    if asked := asked_names(allocation):
        return [one for one in partitions if one.name in asked]
    return [one for one in partitions if one.default] or list(partitions)


def longest_time(partitions: Sequence[Partition], allocation: AllocationRequest) -> int | None:
    """The seconds that a job may ask for at the most; None where that is not reported, or there is no limit."""
    limits = [one.seconds for one in chosen(partitions, allocation)]
    return None if None in limits else max((one for one in limits if one is not None), default=None)


def time_problem(partitions: Sequence[Partition], allocation: AllocationRequest) -> Problem | None:
    """Says why no partition would ever start the job: it asks for more time than any of them allows.

    Many schedulers take such a job all the same, and let it wait for good. A QOS may allow more than its partition.
    """
    longest, seconds = longest_time(partitions, allocation), seconds_asked(allocation)
    if longest is None or seconds <= longest or allocation.qos:
        return None
    where = ", ".join(one.name for one in chosen(partitions, allocation))
    fitting = [one.name for one in partitions if one.up and one.seconds is not None and one.seconds >= seconds]
    others = ", ".join(fitting)
    text = f"The job asks for {in_words(seconds)}; the limit of {where} is {in_words(longest)}."
    hint = f"Ask for at most {in_words(longest)}, or choose another partition{f': {others}' if others else ''}."
    elsewhere = [set_to("partition", name) for name in fitting[:_OFFERED]] or [choose("partition")]
    ways = (set_to("time", as_clock(longest)), *elsewhere)
    return Problem("scheduler.time", text, hint, "time", ways)
