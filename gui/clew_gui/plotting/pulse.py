"""Prepares what the charts of a run's machines show: use, memory and power over the x axis of its curves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import Span, Tick, XUnit, linear_ticks
from clew_gui.plotting.curves.units import from_steps, knows
from clew_shared.base.number_words import in_bytes
from clew_shared.journal.history import History
from clew_shared.journal.pulse import ProcessPulse, together
from clew_shared.study.usage import of_limit, share

_CORE: Final = re.compile(r"core\d+")
_FEW: Final = 4
"""Cores that have a line each."""
_RATE: Final = 1e6
"""Bytes per second from which disk and network have a row: less is noise."""


@dataclass(frozen=True, eq=False)
class PulseLine:
    """A quantity over time (seconds since 1970); ``name`` where a row has several."""

    name: str
    times: FloatArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class PulseRow:
    """A row: what it shows, how its values read, the value at the top of its axis, and its lines."""

    title: str
    words: Callable[[float], str]
    top: float
    unit: float
    suffix: str
    lines: tuple[PulseLine, ...]

    def ticks(self, span: Span, most: int) -> tuple[Tick, ...]:
        """Ticks of the value axis."""
        scaled = linear_ticks(Span(span.low / self.unit, span.high / self.unit), most)
        return tuple(Tick(tick.at * self.unit, f"{tick.text} {self.suffix}".rstrip()) for tick in scaled)


def pulse_rows(history: History) -> tuple[PulseRow, ...]:
    """The rows of a run, of what is known of it. Processes are added up; a GPU or a node has a line of its own."""
    every, hosts = list(history.pulse.processes.values()), history.pulse.hosts()
    nodes = [found[0] for found in hosts.values()]
    gpus = [(process, number) for process in every for number in process.gpus]
    limit = _largest([process.column("memory_limit") for process in every])
    memory = [_line(host if len(hosts) > 1 else "", *together(found, "memory")) for host, found in hosts.items()]
    on_gpus = [_gpu(gpus, one, "memory") for one in gpus]
    disk = [_line(name, *together(every, name)) for name in ("read", "written")]
    network = [_line(name, *together(nodes, name)) for name in ("received", "sent")]
    rows = (
        _row("Processor", share, [_line("", *together(every, "cpu"))], 0.01, "%"),
        _row("Cores", share, [line for one in nodes for line in _cores(one, len(nodes) > 1)], 0.01, "%", least=1.0),
        _row("Memory", lambda value: of_limit(value, limit or None), memory, *_size(memory)),
        _row("GPU", share, [_gpu(gpus, one, "use") for one in gpus], 0.01, "%", least=1.0),
        _row("GPU memory", _bytes, on_gpus, *_size(on_gpus)),
        _row("Power", "{:.0f} W".format, [*_power(hosts), *(_gpu(gpus, one, "power") for one in gpus)], 1.0, "W"),
        _row("Disk", _rate, _worth(disk), *_size(disk, "/s")),
        _row("Network", _rate, _worth(network), *_size(network, "/s")),
    )
    return tuple(row for row in rows if row.lines)


def _cores(node: ProcessPulse, several: bool) -> list[PulseLine]:
    """Each core of a node, or of many the busiest, the middle one and the idlest at each moment."""
    names = sorted((name for name in node.names if _CORE.fullmatch(name)), key=lambda name: int(name[4:]))
    where = f" on {node.host}" if several else ""
    if len(names) <= _FEW:
        return [_line(f"core {name[4:]}{where}", node.times, node.column(name)) for name in names]
    every = np.array([node.column(name) for name in names])
    known = np.isfinite(every).all(0)
    kinds = (("busiest", np.max), ("middle", np.median), ("idlest", np.min))
    return [_line(f"{kind}{where}", node.times[known], pick(every[:, known], axis=0)) for kind, pick in kinds]


def _worth(lines: Sequence[PulseLine]) -> Sequence[PulseLine]:
    """Traffic that is worth a row."""
    return lines if _largest([line.values for line in lines]) >= _RATE else ()


def _row(
    title: str, words: Callable[[float], str], lines: Sequence[PulseLine], unit: float, suffix: str, least: float = 0.0
) -> PulseRow:
    kept = tuple(line for line in lines if len(line.times))
    top = max(_largest([line.values for line in kept]) * 1.08, least, unit)
    return PulseRow(title, words, top, unit, suffix, kept)


def _line(name: str, times: FloatArray, values: NDArray[Any]) -> PulseLine:
    known = np.isfinite(values)
    return PulseLine(name, times[known], values[known].astype(np.float64))


def _gpu(gpus: Sequence[tuple[ProcessPulse, int]], one: tuple[ProcessPulse, int], what: str) -> PulseLine:
    process, number = one
    several = len({found.host for found, _ in gpus}) > 1
    name = f"GPU {number}{f' on {process.host}' if several else ''}" if len(gpus) > 1 else "GPU"
    return _line(name, process.times, process.column(f"gpu{number}_{what}"))


def _power(hosts: dict[str, list[ProcessPulse]]) -> list[PulseLine]:
    return [
        _line(f"processors on {host}" if len(hosts) > 1 else "processors", found[0].times, found[0].column("power"))
        for host, found in hosts.items()
    ]


def _size(lines: Sequence[PulseLine], per: str = "") -> tuple[float, str]:
    most = _largest([line.values for line in lines])
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next(((size, f"{name}{per}") for size, name in units if most >= size), (1.0, f"B{per}"))


def _bytes(value: float) -> str:
    return in_bytes(round(value))


def _rate(value: float) -> str:
    return f"{in_bytes(round(value))}/s"


def _largest(values: Sequence[NDArray[Any]]) -> float:
    return max((float(np.nanmax(one)) for one in values if len(one) and np.isfinite(one).any()), default=0.0)


# --- The x axis -------------------------------------------------------------------------------------------------------


def is_placed(history: History, unit: XUnit) -> bool:
    """Whether samples have a place on the axis of the run's curves."""
    return knows(history, unit) and bool(history.timeline()[0].size)


def places_of(history: History, unit: XUnit, log: bool) -> Callable[[FloatArray], FloatArray]:
    """Returns what says where moments are on the x axis of the run's curves: at the step that was being done; NaN
    outside of training. Made once for all lines of a chart, because it goes through all steps."""
    metric = max(history.recorded(), key=lambda name: len(history.column(name).steps), default="")
    steps = history.column(metric).steps + 1.0
    walls = np.maximum.accumulate(history.wall(metric))

    def place(times: FloatArray) -> FloatArray:
        x = np.full(len(times), np.nan)
        if not len(steps):
            return x
        done = np.interp(times, walls, steps, left=np.nan, right=np.nan)
        known = np.isfinite(done)
        x[known] = from_steps(history, done[known], unit)
        return np.where(x > 0, np.log10(np.where(x > 0, x, 1.0)), np.nan) if log else x

    return place


def seconds_of(history: History, times: FloatArray) -> FloatArray:
    """Seconds since the run's first sample."""
    first = min((float(one.times[0]) for one in history.pulse.processes.values() if len(one)), default=0.0)
    return times - first
