"""What a run's samples say of its machines, one sentence for each thing, and only when it is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clew_gui.study.usage import share
from clew_shared.base.number_words import counted, in_bytes
from clew_shared.journal.history import History
from clew_shared.journal.pulse import ProcessPulse, mean_rate

_LEAST_S = 20.0
"""Seconds of training below which a mean says little: a warm-up or an evaluation may take some."""
_IDLE = 0.3
"""Cores: a process that computes has one busy, also while it writes checkpoints now and then."""
_READS = 1e5
"""Bytes per second: less is what any process reads now and then."""
_FULL, _OVERFULL = 0.9, 1.1
"""A node is full from this share of the run's cores on; beyond the other one it has more cores than the run may use,
and who else needs them is not known."""
_OTHERS = 0.3
"""Share of the cores that others use, from which times of a run are not its own."""
_GPU_UNUSED, _GPU_BUSY, _GPU_LITTLE = 0.005, 0.3, 0.1
_THROTTLED = 0.05
"""Share of the time that a GPU was slowed down, from which times say little."""
_PREPARING, _COMPUTING = 0.5, 0.3
"""Shares of traced steps: with more of the one and less of the other, the device waits for the program."""
_ROOM = 4
"""A batch can be enlarged where so many of them are in the samples."""


class Finding(NamedTuple):
    """A sentence about the machine; ``kind`` names the rule."""

    kind: str
    text: str


class _Means(NamedTuple):
    """Means of one process while it trained."""

    process: ProcessPulse
    since: float

    def of(self, name: str) -> float | None:
        return mean_rate(self.process, name, self.since)


def machine_findings(history: History) -> Iterator[Finding]:
    """Yields what is sure of a run: of its traced steps, and of its samples if it trained for twenty seconds."""
    yield from _small_batch(history)
    since = history.trained_since
    every = [_Means(process, since) for process in history.pulse.processes.values()]
    if not every or not since or max(float(one.process.times[-1]) for one in every) - since < _LEAST_S:
        return
    for rule in _RULES:
        yield from rule(every)


def _input_wait(every: Sequence[_Means]) -> Iterator[Finding]:
    """Checks whether a single process hardly computes, nobody else does, and it reads all the time."""
    if len(every) > 1:
        return
    one = every[0]
    cpu, node, cores, read = one.of("cpu"), one.of("node_cpu"), one.of("cores"), one.of("read")
    busy = [use for number in one.process.gpus if (use := one.of(f"gpu{number}_use")) is not None]
    if cpu is None or node is None or cores is None or read is None or max(busy, default=0.0) >= _GPU_LITTLE:
        return
    if cpu < _IDLE and node - cpu < 0.5 * cores and read >= _READS:
        text = (
            f"It computed for {share(cpu)} of the time and read {in_bytes(round(read))}/s meanwhile: it waits for its "
            "input. Read ahead, keep the data in memory, or copy them to the node's own disk."
        )
        yield Finding("input-wait", text)


def _devices(every: Sequence[_Means]) -> Iterator[Finding]:
    uses = {
        f"GPU {number}{f' on {one.process.host}' if len(every) > 1 else ''}": use
        for one in every
        for number in one.process.gpus
        if (use := one.of(f"gpu{number}_use")) is not None
    }
    unused = [name for name, use in uses.items() if use < _GPU_UNUSED]
    most = max(uses.values(), default=0.0)
    if unused and len(unused) == len(uses):
        yield Finding("device-unused", f"{_listed(unused)} computed nothing: this run trained on the processor.")
    elif unused and most >= _GPU_BUSY:
        text = f"{_listed(unused)} computed nothing while another was busy {share(most)} of the time: "
        yield Finding("device-idle", text + "take fewer devices, or a strategy that uses all of them.")
    elif uses and most < _GPU_LITTLE:
        text = f"The GPU computed {share(most)} of the time: a larger batch gives it more to do at once."
        yield Finding("device-idle", text)


def _throttled(every: Sequence[_Means]) -> Iterator[Finding]:
    """Names the GPU that its driver slowed down for the longest time."""
    gpus = [(one, number) for one in every for number in one.process.gpus]
    slowed = [(share_of, one, number) for one, number in gpus if (share_of := one.of(f"gpu{number}_throttled"))]
    if not slowed:
        return
    most, one, number = max(slowed, key=lambda found: found[0])
    if most < _THROTTLED:
        return
    heat = one.process.column(f"gpu{number}_temperature")
    heat = heat[np.isfinite(heat)]
    degrees = f", at up to {heat.max():.0f} °C" if len(heat) else ""
    where = f" on {one.process.host}" if len(every) > 1 else ""
    text = (
        f"GPU {number}{where} was slowed down {share(most)} of the time, because it was too hot or got too little power"
        f"{degrees}: its times say little. Tell those who look after the machine."
    )
    yield Finding("device-throttled", text)


def _small_batch(history: History) -> Iterator[Finding]:
    """Checks whether traced steps are spent on starting operations, and a larger batch would give these more to do."""
    traced, schema = history.trace, history.schema
    if traced is None or schema is None or not 0 < _ROOM * schema.batch_size <= schema.samples_per_epoch:
        return
    preparing, computing = (traced.parts.get(name, 0.0) / traced.seconds for name in ("host", "compute"))
    if preparing >= _PREPARING and computing < _COMPUTING:
        samples = counted(schema.batch_size, "sample")
        text = (
            f"{share(preparing)} of a step went into starting operations and {share(computing)} into computing: a batch"
            f" of {samples} is too small for the device, and a larger one trains more of them in the same time."
        )
        yield Finding("batch-small", text)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _shared_cores(every: Sequence[_Means]) -> Iterator[Finding]:
    for words, full in _others(every):
        if full:
            text = f"{words} while it trained: its times say little. Train again when nothing else runs."
            yield Finding("cores-shared", text[:1].upper() + text[1:])


def others_words(history: History) -> str:
    """Says how much of the processor other programs used beside a run, where ratios of its times are not its own;
    empty where they used little, and where that is not known."""
    every = [_Means(one, history.trained_since or history.fold.started) for one in history.pulse.processes.values()]
    return next((words for words, _ in _others(every)), "")


def _others(every: Sequence[_Means]) -> Iterator[tuple[str, bool]]:
    """Yields for each node whose cores others used as well what they used, and whether none of these cores was idle."""
    for host in dict.fromkeys(one.process.host for one in every):
        here = [one for one in every if one.process.host == host]
        own, node, cores = [one.of("cpu") for one in here], here[0].of("node_cpu"), here[0].of("cores")
        if node is None or not cores or any(cpu is None for cpu in own):
            continue
        others = node - sum(cpu for cpu in own if cpu is not None)
        if node <= _OVERFULL * cores and others >= _OTHERS * cores:
            where = f" of {host}" if len(every) > len(here) else ""
            words = f"other programs used {share(others / cores)} of the {cores:.0f} cores{where}"
            yield words, node >= _FULL * cores


_RULES: tuple[Callable[[Sequence[_Means]], Iterator[Finding]], ...] = (_input_wait, _devices, _throttled, _shared_cores)
