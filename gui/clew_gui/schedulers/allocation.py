"""The request to the scheduler for a job: a site sets the usual values, and each run may change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from clew_gui.base.checked_text import check_form
from clew_gui.base.times import as_clock, read_time
from clew_shared.base.number_words import duration
from clew_shared.base.problem import Problem, raise_all
from clew_shared.base.remedies import choose, set_to
from clew_shared.params import Knob, Params, ParamSpec, Value, check, describe
from clew_shared.spec import RunSpec

_GROUP = "Allocation"
_OWN = "the default"


class AllocationRequest(Params, frozen=True):
    """The request of a job to the scheduler. Empty texts and None mean that the scheduler's own default holds. GPUs and
    CPU cores are those of one node."""

    partition: Annotated[str, Knob("Partition", "partition or queue; several with commas", _GROUP, example=_OWN)] = ""
    account: Annotated[str, Knob("Account", "account or project that pays", _GROUP, example="none")] = ""
    reservation: Annotated[
        str, Knob("Reservation", "nodes kept for a course; may change daily", _GROUP, example="none")
    ] = ""
    qos: Annotated[str, Knob("QOS", "quality of service", _GROUP, example="none")] = ""
    time: Annotated[
        str,
        Knob(
            "Time limit",
            "as 02:00:00, 30 (minutes), 1-00:00:00 or 2h; empty: the scheduler's own",
            _GROUP,
            example="02:00:00",
        ),
    ] = ""
    nodes: Annotated[int, Knob("Nodes", "how many nodes", _GROUP, ge=1, le=10_000)] = 1
    gpus: Annotated[
        int | None, Knob("GPUs per node", "how many GPUs of each node", _GROUP, ge=0, le=64, example="none")
    ] = None
    cpus: Annotated[
        int | None, Knob("CPU cores per node", "how many cores of each node", _GROUP, ge=1, le=4096, example=_OWN)
    ] = None
    features: Annotated[str, Knob("Node features", "which kind of node, such as k80 or xk", _GROUP, example="k80")] = ""


FIELDS: tuple[ParamSpec, ...] = describe(AllocationRequest)
"""The fields as data: a form draws them like hyperparameters, commands make flags of them."""
LABELS = {field.name: field.label for field in FIELDS}
"""The names of the fields for people."""

_FORMS = {"partition": "names", "account": "name", "reservation": "names", "qos": "name", "features": "features"}


def flag(field: ParamSpec) -> str:
    """The field's flag on a command line, such as ``--partition``."""
    return f"--{field.name.replace('_', '-')}"


def build_allocation(base: AllocationRequest, given: Mapping[str, object]) -> AllocationRequest:
    """``base`` with what ``given`` says otherwise, typed or as text from a form or flags.

    An empty text takes a field's value away. Raises ``ProblemError`` with everything that is wrong.
    """
    usual = msgspec.structs.asdict(base)
    typed, problems = check(FIELDS, usual | dict(given))
    allocation = AllocationRequest(**typed)  # type: ignore[arg-type]  # check returns each field's own type
    raise_all([*problems, *check_allocation(allocation)])
    return allocation


def for_run(allocation: AllocationRequest, spec: RunSpec) -> AllocationRequest:
    """``allocation`` with as many nodes as the run of ``spec`` spreads over, each with as many GPUs as it has devices.

    A site that has no GPUs is asked for none: there devices are parts of the processor.
    """
    gpus = max(allocation.gpus, spec.devices) if allocation.gpus else allocation.gpus
    return msgspec.structs.replace(allocation, nodes=max(allocation.nodes, spec.nodes), gpus=gpus)


def refit(allocation: AllocationRequest, spec: RunSpec) -> AllocationRequest:
    """``allocation`` with just the nodes and GPUs that the run of ``spec`` spreads over now, be they fewer."""
    return msgspec.structs.replace(allocation, nodes=spec.nodes, gpus=allocation.gpus and spec.devices)


def check_allocation(allocation: AllocationRequest, where: str = "") -> list[Problem]:
    """Returns everything that is wrong with it, whatever the scheduler. ``where`` is put before the fields' names."""
    _, found = check(FIELDS, msgspec.structs.asdict(allocation))
    problems = [msgspec.structs.replace(one, where=where + one.where) for one in found]
    for name, form in _FORMS.items():
        problems += check_form(form, getattr(allocation, name), where + name, f"The {LABELS[name].lower()}")
    return problems + _check_time(allocation.time, where)


def _check_time(text: str, where: str) -> list[Problem]:
    if not text or read_time(text) is not None:
        return []
    words = f"The time limit {text[:40]!r} cannot be read."
    hint = "Write 02:00:00 (hours), 30 (minutes), 1-00:00:00 (days) or 2h; a year at most."
    return [Problem("allocation.time", words, hint, where + "time")]


def seconds_asked(allocation: AllocationRequest) -> int:
    """The time limit in seconds; 0 if none is asked for."""
    return read_time(allocation.time) or 0


def node_hours(nodes: int, seconds: float) -> str:
    """Returns the node-hours, which most sites count, in words: ``1.5 node-hours``."""
    hours = nodes * seconds / 3600
    if hours < 0.005:
        return "under 0.01 node-hours"
    number = f"{hours:.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.95 else f"{hours:.2f}"
    return f"{number.removesuffix('.0')} node-hour{'' if number in ('1', '1.0') else 's'}"


def clock_asked(allocation: AllocationRequest) -> str:
    """The time limit as ``HH:MM:SS``; empty if none is asked for."""
    seconds = seconds_asked(allocation)
    return as_clock(seconds) if seconds else ""


def changed(base: AllocationRequest, other: AllocationRequest) -> dict[str, Value]:
    """Returns the fields of ``other`` that differ from ``base``."""
    mine, theirs = msgspec.structs.asdict(base), msgspec.structs.asdict(other)
    return {name: theirs[name] for name in theirs if theirs[name] != mine[name]}


def summary(allocation: AllocationRequest) -> str:
    """Describes the request on one line: ``2 nodes with 4 GPUs each, 2 hours, partition gpu``."""
    gpus = allocation.gpus
    parts = [f"{allocation.nodes} nodes" if allocation.nodes > 1 else "1 node"]
    if gpus:
        parts[0] += f" with {gpus} GPU{'s' if gpus > 1 else ''}{' each' if allocation.nodes > 1 else ''}"
    seconds = seconds_asked(allocation)
    parts += [duration(seconds)] if seconds else []
    named: dict[str, Any] = {name: getattr(allocation, name) for name in (*_FORMS,)}
    return ", ".join([*parts, *(f"{name} {value}" for name, value in named.items() if value)])


# --- What partitions allow --------------------------------------------------------------------------------------------


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
"""The number of other partitions that are offered at most."""


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
    text = f"The job asks for {duration(seconds)}; the limit of {where} is {duration(longest)}."
    hint = f"Ask for at most {duration(longest)}, or choose another partition{f': {others}' if others else ''}."
    elsewhere = [set_to("partition", name) for name in fitting[:_OFFERED]] or [choose("partition")]
    ways = (set_to("time", as_clock(longest)), *elsewhere)
    return Problem("scheduler.time", text, hint, "time", ways)
