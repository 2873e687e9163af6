"""What the runs of a scaling study did with each of their devices, and how much of a step nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from clew_gui.study.scaling import ScalingRow, step_shares
from clew_gui.study.usage import share
from clew_shared.journal.history import History
from clew_shared.journal.pulse import mean_rate

_ALIKE = 0.1
"""Devices whose use differs by more than this are told apart."""


class DeviceUse(NamedTuple):
    """The runs on one number of devices. ``use`` is that of each of their devices while it trained: of a GPU the share
    of the time, of others cores. ``not_computing`` is the share of a step in which nothing is computed. Empty and None:
    not known."""

    use: tuple[float, ...] = ()
    not_computing: float | None = None


def device_uses(runs: Iterable[tuple[int, History]], rows: Iterable[ScalingRow]) -> dict[int, DeviceUse]:
    """Returns what is known of the ``runs``, each with its number of devices, by that number. ``rows`` are the study's.

    What does not compute is taken from traces; without one from what was measured of input and reduction alone;
    without that from the use of GPUs, of which sums over devices count as computing.
    """
    groups: dict[int, list[History]] = {}
    for count, history in runs:
        groups.setdefault(count, []).append(history)
    parts = {row.replicas: step_shares(row) for row in rows}
    found = {}
    for count, histories in groups.items():
        on_gpus = [use for one in histories for use in _gpus(one)]
        each = on_gpus or [use for one in histories for use in _shares_of_cores(one, count)]
        traced = [one.trace.parts.get("compute", 0.0) / one.trace.seconds for one in histories if one.trace is not None]
        measured = parts.get(count)
        computing = fmean(traced) if traced else measured.compute if measured else fmean(on_gpus) if on_gpus else None
        found[count] = DeviceUse(tuple(each), None if computing is None else max(1.0 - computing, 0.0))
    return found


def _gpus(history: History) -> list[float]:
    since, every = history.trained_since, history.pulse.processes.values()
    uses = [mean_rate(one, f"gpu{number}_use", since) for one in every for number in one.gpus]
    return [use for use in uses if use is not None]


def _shares_of_cores(history: History, devices: int) -> list[float]:
    """The cores that each device of a process used on average: all of one process have the same share."""
    every = list(history.pulse.processes.values())
    uses = [mean_rate(one, "cpu", history.trained_since) for one in every]
    return [use / max(devices / len(every), 1) for use in uses if use is not None]


def use_columns(
    rows: Sequence[ScalingRow], uses: Mapping[int, DeviceUse], gpus: bool, none: str
) -> list[tuple[str, ...]]:
    """Returns columns of a study's table, each with its heading and a cell for each row: of what is known of any row;
    ``none`` stands for what is not."""
    known = [uses.get(row.replicas, DeviceUse()) for row in rows]
    columns = (
        ("GPU use" if gpus else "CPU per device", *(_each_words(one.use, none) for one in known)),
        ("Not computing", *(none if one.not_computing is None else share(one.not_computing) for one in known)),
    )
    return [column for column in columns if any(cell != none for cell in column[1:])]


def _each_words(each: Sequence[float], none: str) -> str:
    """``91 %``, or ``40 to 91 %`` where devices differ."""
    if not each:
        return none
    low, high = min(each), max(each)
    return share(fmean(each)) if high - low <= _ALIKE else f"{share(low).removesuffix(' %')} to {share(high)}"
