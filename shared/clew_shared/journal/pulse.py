"""What the machine did during a run: folds ``Pulse`` events into columns, and sums them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from clew_shared.journal.buffer import Buffer
from clew_shared.journal.events import Pulse

Times = NDArray[np.float64]
Values = NDArray[np.float32]
_MOST_NAMES = 500
"""Columns of one process: eight GPUs have 48. An event that would make more is damaged."""


class PulseSummary(msgspec.Struct, frozen=True):
    """A run's use of its machines; None is what is not known.

    ``cpu`` are the cores that its processes used on average while it trained, ``gpu`` the share of the time in which
    its GPUs computed. ``memory`` is the most memory (bytes) in use at once on the node that came nearest to its
    ``memory_limit``, ``gpu_memory`` that of the GPU that came nearest to its own. ``energy`` (joules) is what the
    processors of its nodes and its GPUs took over ``seconds``.
    """

    cpu: float | None = None
    gpu: float | None = None
    memory: float | None = None
    memory_limit: float | None = None
    gpu_memory: float | None = None
    gpu_memory_limit: float | None = None
    energy: float | None = None
    seconds: float = 0.0


class ProcessPulse:
    """The samples of one process of a run, in the order of time."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._times = Buffer(np.float64)
        self._columns: dict[str, Buffer[np.float32]] = {}

    def __len__(self) -> int:
        return self._times.size

    @property
    def times(self) -> Times:
        """Wall-clock seconds since 1970 of each sample; a view, as all columns are."""
        return self._times.view

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def gpus(self) -> tuple[int, ...]:
        """Numbers of the GPUs of which anything is known."""
        heads = {name.partition("_")[0].removeprefix("gpu") for name in self._columns if name.startswith("gpu")}
        return tuple(sorted(int(one) for one in heads if one.isdecimal()))

    def column(self, name: str) -> Values:
        """The values of a column; all NaN for one that is not known."""
        found = self._columns.get(name)
        return found.view if found is not None else np.full(len(self), np.nan, np.float32)

    def append(self, times: Times, columns: dict[str, Values]) -> None:
        """Take some samples. Those that are not later than the last one are there already and change nothing."""
        start = int(np.searchsorted(times, self.times[-1], side="right")) if len(self) else 0
        before, count = len(self), len(times) - start
        self._times.extend(times[start:])
        for name in columns.keys() - self._columns.keys():
            self._columns[name] = Buffer(np.float32)
            self._columns[name].grow(before)[:] = np.nan
        for name, buffer in self._columns.items():
            place = buffer.grow(count)
            place[:] = columns[name][start:] if name in columns else np.nan


class PulseTable:
    """The samples of all ``processes`` of a run: ``trainer``, or role and number of a peer (``worker 1``)."""

    def __init__(self) -> None:
        self.processes: dict[str, ProcessPulse] = {}
        self._summaries: dict[float, PulseSummary] = {}

    def __len__(self) -> int:
        return sum(len(one) for one in self.processes.values())

    def append(self, event: Pulse) -> bool:
        """Take an event; whether its arrays fit together."""
        read = read_pulse(event)
        if read is None:
            return False
        process = self.processes.get(event.process)
        if process is None:
            process = self.processes[event.process] = ProcessPulse(event.host)
        if len(set(process.names) | set(event.names)) > _MOST_NAMES:
            return False
        process.host = event.host
        process.append(*read)
        self._summaries.clear()
        return True

    def hosts(self) -> dict[str, list[ProcessPulse]]:
        """The processes of each node."""
        found: dict[str, list[ProcessPulse]] = {}
        for _, process in sorted(self.processes.items()):
            found.setdefault(process.host, []).append(process)
        return found

    def summary(self, since: float = 0.0) -> PulseSummary:
        """Sums up the run; means are over what came after ``since`` (seconds since 1970), if anything did. Computed
        once until more samples come: lists and filters ask for thousands of runs again and again."""
        if since not in self._summaries:
            self._summaries[since] = self._summed(since) if len(self) else PulseSummary()
        return self._summaries[since]

    def _summed(self, since: float) -> PulseSummary:
        every, hosts = list(self.processes.values()), self.hosts()
        gpus = [(process, f"gpu{number}") for process in every for number in process.gpus]
        memory = _nearest([_memory(processes) for processes in hosts.values()])
        on_gpu = _nearest([(_most(p.column(f"{g}_memory")), _most(p.column(f"{g}_memory_limit"))) for p, g in gpus])
        powers = [(processes[0], "power") for processes in hosts.values()] + [(p, f"{g}_power") for p, g in gpus]
        return PulseSummary(
            cpu=_sum([mean_rate(process, "cpu", since) for process in every]),
            gpu=_middle([mean_rate(process, f"{gpu}_use", since) for process, gpu in gpus]),
            memory=memory[0],
            memory_limit=memory[1],
            gpu_memory=on_gpu[0],
            gpu_memory_limit=on_gpu[1],
            energy=_sum([_integral(process.times, process.column(name)) for process, name in powers]),
            seconds=max(float(process.times[-1] - process.times[0]) for process in every if len(process)),
        )


def read_pulse(event: Pulse) -> tuple[Times, dict[str, Values]] | None:
    """The arrays of an event; None when they do not fit together or its times do not rise."""
    count, rest = divmod(len(event.times), 8)
    sizes = {len(raw) for raw in event.values}
    if rest or len(event.names) != len(event.values) or sizes - {4 * count}:
        return None
    times = np.frombuffer(event.times, "<f8").astype(np.float64)
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        return None
    pairs = zip(event.names, event.values, strict=True)
    return times, {name: np.frombuffer(raw, "<f4").astype(np.float32) for name, raw in pairs}


class _Peak(NamedTuple):
    used: float | None
    limit: float | None


def _memory(processes: Sequence[ProcessPulse]) -> _Peak:
    """The most memory that the processes of one node had together, and the tightest limit there."""
    times, total = together(processes, "memory")
    limits = [limit for process in processes if (limit := _most(process.column("memory_limit"))) is not None]
    return _Peak(_most(total) if len(times) else None, min(limits, default=None))


def together(processes: Sequence[ProcessPulse], name: str) -> tuple[Times, NDArray[Any]]:
    """A column of several processes of one node, added up: a process counts between its first and last sample."""
    parts = [
        (one.times[known], one.column(name)[known]) for one in processes for known in [~np.isnan(one.column(name))]
    ]
    parts = [part for part in parts if len(part[0])]
    if len(parts) == 1:
        return parts[0]
    times = np.unique(np.concatenate([part[0] for part in parts])) if parts else np.empty(0)
    total = np.zeros(len(times))
    for known, values in parts:
        total += np.interp(times, known, values, left=0.0, right=0.0)
    return times, total


def _nearest(peaks: Sequence[tuple[float | None, float | None]]) -> _Peak:
    """The peak that came nearest to its limit."""
    known = [(used, limit) for used, limit in peaks if used is not None]
    if not known:
        return _Peak(None, None)
    return _Peak(*max(known, key=lambda peak: (peak[0] / peak[1] if peak[1] else 0.0, peak[0])))


def mean_rate(process: ProcessPulse, name: str, since: float) -> float | None:
    """The mean of a rate over the time after ``since``, if any sample is from then. A sample counts for the time since
    the one before it. None where nothing is known."""
    times, values = process.times, process.column(name)
    spans = np.diff(times, prepend=times[:1])
    known = np.isfinite(values) & (spans > 0)
    counted = known & (times - spans / 2 >= since)
    counted = counted if counted.any() else known
    return float(np.average(values[counted], weights=spans[counted])) if counted.any() else None


def _integral(times: Times, values: Values) -> float | None:
    known = np.isfinite(values)
    spans = np.diff(times, prepend=times[:1])
    return float(values[known] @ spans[known]) if known.any() else None


def _most(values: NDArray[Any]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
