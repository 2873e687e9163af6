"""What a run used of its machines, in words and as results by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from clew_gui.study.comparison import Outcome
from clew_shared.base.number_words import in_bytes, quantity
from clew_shared.cards import MetricSpec
from clew_shared.journal.history import History
from clew_shared.journal.pulse import PulseSummary, PulseTable, Values

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_WH = 3600.0
_PER_JOULE = "Images per joule"


def share(value: float) -> str:
    """``180 %`` of one core, ``91 %`` of the time; below ten with a decimal."""
    percent = 100 * value
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def of_limit(used: float, limit: float | None) -> str:
    """``1.2 of 16 GB``; without a limit ``1.2 GB``."""
    if limit is None:
        return in_bytes(round(used))
    size, unit = next(((size, unit) for size, unit in _UNITS if limit >= 0.9995 * size), (1.0, "bytes"))
    if used < 0.05 * size:
        return f"{in_bytes(round(used))} of {in_bytes(round(limit))}"
    number = f"{used / size:.1f}" if used < 9.95 * size else f"{used / size:.0f}"
    return f"{number} of {limit / size:.0f} {unit}" if limit >= 9.95 * size else f"{number} of {in_bytes(round(limit))}"


def energy(joules: float) -> str:
    """``812 J``, ``3.1 Wh``, ``1.4 kWh``."""
    if joules < _WH:
        return f"{joules:.0f} J"
    hours = joules / _WH
    number, unit = (hours, "Wh") if hours < 999.5 else (hours / 1000, "kWh")
    return f"{number:.1f} {unit}" if number < 99.95 else f"{number:,.0f} {unit}"


def usage_words(found: PulseSummary) -> str:
    """``CPU 180 %, GPU 91 % on average; memory 1.2 of 16 GB, GPU memory 12 of 80 GB at most; 3.1 Wh``; empty if nothing
    is known."""
    use = [f"CPU {share(found.cpu)}"] if found.cpu is not None else []
    use += [f"GPU {share(found.gpu)}"] if found.gpu is not None else []
    most = [f"memory {of_limit(found.memory, found.memory_limit)}"] if found.memory is not None else []
    most += [f"GPU memory {of_limit(found.gpu_memory, found.gpu_memory_limit)}"] if found.gpu_memory is not None else []
    parts = [f"{', '.join(use)} on average"] if use else []
    parts += [f"{', '.join(most)} at most"] if most else []
    parts += [energy(found.energy)] if found.energy is not None else []
    return "; ".join(parts)


def usage_now(table: PulseTable) -> str:
    """``CPU 180 %, 1.2 of 16 GB, GPU 91 %, 212 W``: the last samples of all processes; empty if nothing is known."""
    every = list(table.processes.values())
    if not every:
        return ""
    first = table.processes.get("trainer", every[0])
    gpus = [(process, f"gpu{number}") for process in every for number in process.gpus]
    cpu = _known([_last(process.column("cpu")) for process in every])
    here = _known([_last(process.column("memory")) for process in table.hosts()[first.host]])
    uses = _known([_last(process.column(f"{gpu}_use")) for process, gpu in gpus])
    powers = [_last(processes[0].column("power")) for processes in table.hosts().values()]
    watts = _known([*powers, *(_last(process.column(f"{gpu}_power")) for process, gpu in gpus)])
    parts = [f"CPU {share(sum(cpu))}"] if cpu else []
    parts += [of_limit(sum(here), _last(first.column("memory_limit")))] if here else []
    parts += [f"GPU {share(sum(uses) / len(uses))}"] if uses else []
    parts += [f"{sum(watts):.0f} W"] if watts else []
    return ", ".join(parts)


def process_now(table: PulseTable, process: str) -> str:
    """``CPU 95 %, 1.1 GB``: the last samples of one process; empty if nothing is known."""
    found = table.processes.get(process)
    if found is None:
        return ""
    cpu, memory = _last(found.column("cpu")), _last(found.column("memory"))
    parts = [f"CPU {share(cpu)}"] if cpu is not None else []
    return ", ".join([*parts, in_bytes(round(memory))] if memory is not None else parts)


def _last(values: Values) -> float | None:
    """The latest value that is known, of the last few."""
    recent = values[-3:]
    known = recent[np.isfinite(recent)]
    return float(known[-1]) if len(known) else None


def _known(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


class UsageResult(NamedTuple):
    """A result of a run that is about its machines: its heading in tables, and how its value reads."""

    heading: str
    words: Callable[[float], str]


USAGE = {
    "samples_per_second": UsageResult("Samples/s", lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}"),
    "mean_cpu": UsageResult("CPU", share),
    "mean_gpu": UsageResult("GPU", share),
    "peak_memory": UsageResult("Peak memory", lambda value: in_bytes(round(value))),
    "peak_gpu_memory": UsageResult("Peak GPU memory", lambda value: in_bytes(round(value))),
    "energy": UsageResult("Energy", energy),
}
"""By name: samples trained in a second, mean use, peak memory, energy (joules)."""


def usage_results(history: History) -> dict[str, float]:
    """What is known of a run's use of its machines, by the names of ``USAGE``."""
    found, size = history.pulse_summary(), history.schema.batch_size if history.schema is not None else 0
    speed = (history.steps_per_second() or 0.0) * size or None
    values = (speed, found.cpu, found.gpu, found.memory, found.gpu_memory, found.energy)
    return {name: value for name, value in zip(USAGE, values, strict=True) if value is not None}


def mean_usage(runs: Sequence[History]) -> dict[str, float]:
    """The means of ``usage_results`` over those of some runs of which they are known."""
    every = [usage_results(history) for history in runs]
    found = {name: [used[name] for used in every if name in used] for name in USAGE}
    return {name: sum(known) / len(known) for name, known in found.items() if known}


def group_usage(outcome: Outcome, metric: MetricSpec, runs: Sequence[History]) -> dict[str, str]:
    """What runs that repeat each other used, by heading: means over them; with the energy also what it bought."""
    means = mean_usage(runs)
    found = {USAGE[name].heading: USAGE[name].words(value) for name, value in means.items()}
    joules, images = means.get("energy", 0.0), [_images(history) for history in runs]
    if joules > 0 and all(images):
        found[_PER_JOULE] = quantity(sum(images) / len(images) / joules)
    if joules > 0 and metric.better == "higher" and metric.format == "percent" and outcome.best is not None:
        found[_per_hour(metric)] = quantity(outcome.best / (joules / _WH), metric.format)
    return found


def usage_table(groups: Sequence[Mapping[str, str]], metric: MetricSpec, none: str) -> list[tuple[str, ...]]:
    """The headings under which anything is known, then a row for each group; ``none`` stands for what is not."""
    known = (*(one.heading for one in USAGE.values()), _PER_JOULE, _per_hour(metric))
    heads = tuple(head for head in known if any(head in group for group in groups))
    return [heads, *(tuple(group.get(head, none) for head in heads) for group in groups)]


def _per_hour(metric: MetricSpec) -> str:
    return f"{metric.label} per Wh"


def _images(history: History) -> int:
    return history.fold.step * (history.schema.batch_size if history.schema is not None else 0)
