"""What a scheduler says of its partitions or queues, in one form, and whether a job may ask for so much time there.

Pure parsers of what ``sinfo``, ``qstat -q`` and ``pbsnodes -a`` print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from clew_gui.base.times import as_clock, in_words, read_clock, read_time
from clew_gui.schedulers.allocation import Allocation, seconds_asked
from clew_gui.schedulers.registry import SchedulerName
from clew_gui.schedulers.scheduler import Command
from clew_gui.schedulers.state import Output
from clew_shared.base.problem import Problem

_SINFO = ("sinfo", "--noheader", "--format=%P|%l|%D|%G|%f|%a")
_QSTAT = ("qstat", "-q")
_GRES = re.compile(r"(gpus?)(?::([A-Za-z][A-Za-z0-9_.-]*))?(?::([0-9]{1,4}))?(?:\(.*\))?")


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition or queue. None: not told. ``gpus`` is the most that one node has, ``kinds`` what they are called."""

    name: str
    default: bool = False
    seconds: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    kinds: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    up: bool = True


def ask_partitions(scheduler: SchedulerName) -> Command | None:
    """Ask for all partitions; None where there is no scheduler."""
    if scheduler == "none":
        return None
    return _QSTAT if scheduler == "pbs" else _SINFO


def read_partitions(scheduler: SchedulerName, output: Output) -> tuple[Partition, ...]:
    """What was answered; nothing where nobody can tell."""
    if scheduler == "pbs":
        return parse_qstat(output.out)  # some end with a status that means nothing
    return parse_sinfo(output.out) if output.code == 0 and not output.late else ()


def asked_names(allocation: Allocation) -> list[str]:
    """The partitions that a job names."""
    return [name.strip() for name in allocation.partition.split(",") if name.strip()]


def chosen(partitions: Sequence[Partition], allocation: Allocation) -> list[Partition]:
    """The partitions that a job goes to: those asked for, else the default one, else nobody knows."""
    if asked := asked_names(allocation):
        return [one for one in partitions if one.name in asked]
    return [one for one in partitions if one.default] or list(partitions)


def longest_time(partitions: Sequence[Partition], allocation: Allocation) -> int | None:
    """The seconds that a job may ask for at the most; None where that is not told, or there is no limit."""
    limits = [one.seconds for one in chosen(partitions, allocation)]
    return None if None in limits else max((one for one in limits if one is not None), default=None)


def time_problem(partitions: Sequence[Partition], allocation: Allocation) -> Problem | None:
    """Why no partition would ever start the job: it asks for more time than any of them allows.

    Many schedulers take such a job all the same, and let it wait for good. A QOS may allow more than its partition.
    """
    longest, seconds = longest_time(partitions, allocation), seconds_asked(allocation)
    if longest is None or seconds <= longest or allocation.qos:
        return None
    where = ", ".join(one.name for one in chosen(partitions, allocation))
    others = ", ".join(one.name for one in partitions if one.seconds is not None and one.seconds >= seconds)
    text = f"The job asks for {in_words(seconds)}; the limit of {where} is {in_words(longest)}."
    hint = f"Ask for at most {in_words(longest)} (--time {as_clock(longest)}), or choose another partition"
    return Problem("scheduler.time", text, f"{hint}{f': {others}' if others else ''}.", "time")


def parse_sinfo(text: str) -> tuple[Partition, ...]:
    """Partitions in the lines of ``sinfo``; Slurm prints several for one whose nodes differ."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 6 or not cells[0]:
            continue
        name = cells[0].rstrip("*")
        gpus, kinds = _gpus(cells[3])
        before = found.get(name, Partition(name=name, nodes=0, gpus=0))
        features = [] if cells[4] == "(null)" else [one for one in cells[4].split(",") if one]
        found[name] = Partition(
            name=name,
            default=before.default or cells[0].endswith("*"),
            seconds=read_time(cells[1]),
            nodes=(before.nodes or 0) + (int(cells[2]) if re.fullmatch(r"[0-9]{1,7}", cells[2]) else 0),
            gpus=max(before.gpus or 0, gpus),
            kinds=tuple(dict.fromkeys([*before.kinds, *kinds])),
            features=tuple(dict.fromkeys([*before.features, *features])),
            up=cells[5].startswith("up"),
        )
    return tuple(found.values())


def _gpus(gres: str) -> tuple[int, list[str]]:
    """Number and names of GPUs in a node's generic resources: ``gpu:tesla:4(S:0-1),nvme:1``."""
    matches = [match for one in re.split(r",(?![^(]*\))", gres) if (match := _GRES.fullmatch(one.strip()))]
    return sum(int(match[3] or 1) for match in matches), [match[2] for match in matches if match[2]]


def parse_qstat(text: str) -> tuple[Partition, ...]:
    """Queues in the table of ``qstat -q``, whose sixth column from the end is the number of nodes."""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) != 10 or not re.fullmatch(r"[ED]", cells[8]) or not re.fullmatch(r"[RS]", cells[9]):
            continue
        up = cells[8] == "E" and cells[9] == "R"
        found.append(Partition(name=cells[0], seconds=_wall(cells[3]), nodes=_number(cells[4]), up=up))
    return tuple(found)


def _wall(text: str) -> int | None:
    """``02:00:00`` or, as Torque also prints it, ``02:00`` for hours and minutes."""
    return read_clock(f"{text}:00" if re.fullmatch(r"[0-9]+:[0-9]{2}", text) else text)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,7}", text) else None


def first_node(pbsnodes: str) -> str:
    """A node that is up, in the answer of ``pbsnodes -a``: its name stands before its indented lines."""
    match = re.search(
        r"^([A-Za-z0-9][\w.-]{0,200})\s*\n(?:[ \t]+(?!state =).*\n)*[ \t]+state = (?:free|job)", pbsnodes, re.MULTILINE
    )
    return match[1] if match is not None else ""


def most_gpus(pbsnodes: str) -> int:
    """The most GPUs that one node has in the answer of ``pbsnodes -a``: Torque's words and OpenPBS'."""
    return max(_each(r"^\s*(?:gpus|resources_available\.ngpus) = ([0-9]{1,4})\s*$", pbsnodes), default=0)


def _each(pattern: str, text: str) -> Iterator[int]:
    return (int(match[1]) for match in re.finditer(pattern, text, re.MULTILINE))
