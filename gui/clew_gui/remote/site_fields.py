"""A site as a form has it: which fields there are, in which groups, and the way from texts to a checked site and back.

Pure: no widget, no file. What is wrong comes back as problems whose ``where`` is the field's name here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from clew_gui.remote.allocation import FIELDS, Allocation
from clew_gui.remote.schedulers.registry import NAMES, scheduler_of
from clew_gui.remote.site_check import check_name, check_site
from clew_gui.remote.sites import Site
from clew_shared.params import check, format_value
from clew_shared.problem import Problem

Kind = Literal["line", "list", "lines", "text", "choice", "switch"]
"""``list``: one line with commas; ``lines``: one entry each line; ``text``: several lines as they stand."""

ASKED = "allocation."
NAME = "name"


@dataclass(frozen=True)
class SiteField:
    """One field. ``shape`` is an example that stands in it while it is empty."""

    name: str
    label: str
    help: str
    shape: str = ""
    kind: Kind = "line"
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Group:
    """Fields that belong together; a ``folded`` group is opened when something of it is set or wrong."""

    title: str
    fields: tuple[SiteField, ...]
    folded: bool = False


_SCHEDULERS = tuple((name, scheduler_of(name).label) for name in NAMES)
_LAUNCH = (("", "Nothing special"), ("srun", "srun"), ("aprun", "aprun (Cray)"))
_SHAPES = {
    "partition": "the site's own",
    "account": "none",
    "reservation": "none",
    "time": "02:00:00",
    "features": "k80",
}

GROUPS: tuple[Group, ...] = (
    Group(
        "The way there",
        (
            SiteField("title", "Title", "What the site is called in this window.", "My cluster"),
            SiteField("host", "Host", "The login node, or an entry of ~/.ssh/config.", "login.example.org"),
            SiteField("user", "User", "Your name there.", "as in ~/.ssh/config, or your name here"),
            SiteField("port", "Port", "The port of SSH.", "22"),
            SiteField("key", "Key file", "Your private key on this computer; its path only.", "~/.ssh/id_ed25519"),
            SiteField("jump", "Through", "Hosts on the way, the first one first.", "user@gate, second:2222", "list"),
            SiteField(
                "fingerprints",
                "Fingerprints",
                "Those of the host's keys as the site publishes them, one each line: shown when you are asked.",
                "SHA256:…",
                "lines",
            ),
        ),
    ),
    Group(
        "Scheduler",
        (
            SiteField("scheduler", "Scheduler", "The program that gives out the nodes.", "", "choice", _SCHEDULERS),
            *(
                SiteField(
                    ASKED + field.name,
                    field.label,
                    f"{field.help[:1].upper()}{field.help[1:]}.",
                    _SHAPES.get(field.name, ""),
                )
                for field in FIELDS
            ),
        ),
    ),
    Group(
        "On the nodes",
        (
            SiteField("modules", "Modules", "Loaded in each job, in this order.", "python, cuda/11.8", "list"),
            SiteField("python", "Python", "The interpreter on the nodes.", "found by itself"),
            SiteField("venv", "Environment", "A virtual environment there.", "~/venvs/lab"),
            SiteField("data", "Data folder", "The course's data.", "/gpfs/courses/data"),
            SiteField("scratch", "Runs in", "Where runs and the agent are kept.", "your home folder"),
            SiteField("ports", "Ports", "The agent chooses from these.", "40000-40999"),
            SiteField("prologue", "Prologue", "Lines of shell that are run in each job before the agent.", "", "text"),
        ),
        folded=True,
    ),
    Group(
        "More of the scheduler",
        (
            SiteField("gres", "GPU resource", "What the scheduler calls GPUs.", "gpu"),
            SiteField("select", "PBS select", "The request form of OpenPBS.", "", "switch"),
            SiteField("launch", "Start with", "What reaches the node from the script.", "", "choice", _LAUNCH),
            SiteField(
                "requeue",
                "Requeue",
                "Let the scheduler start a job again, for example after its node failed; runs go on from their last"
                " checkpoint.",
                "",
                "switch",
            ),
            SiteField("extra", "Directives", "Further ones, one each line, as the scheduler reads them.", "", "lines"),
        ),
        folded=True,
    ),
    Group("Note", (SiteField("note", "Note", "For whoever uses the site.", "", "text"),), folded=True),
)
_KINDS = {field.name: field.kind for group in GROUPS for field in group.fields}


def texts_of(site: Site) -> dict[str, str]:
    """What stands in the fields for this site; switches as "true" or empty."""
    found: dict[str, str] = {}
    for name, kind in _KINDS.items():
        value: Any = (
            getattr(site.allocation, name.removeprefix(ASKED)) if name.startswith(ASKED) else getattr(site, name)
        )
        if name == "port":
            found[name] = str(value) if value else ""
        elif name == "ports":
            found[name] = "-".join(str(port) for port in value)
        elif isinstance(value, tuple):
            found[name] = (", " if kind == "list" else "\n").join(value)
        elif isinstance(value, bool):
            found[name] = "true" if value else ""
        else:
            found[name] = format_value(value)
    return found


def site_of(texts: Mapping[str, str]) -> tuple[Site, tuple[Problem, ...]]:
    """The site that stands in the fields, and everything that is wrong; a field that cannot be read is as if empty."""
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        if name.startswith(ASKED):
            continue
        text = texts.get(name, "").strip() if kind != "text" else texts.get(name, "").strip("\n")
        if name in ("port", "ports"):
            values[name], found = _numbers(name, text)
            problems += found
        elif kind in ("list", "lines"):
            parts = text.replace("\n", ",").split(",") if kind == "list" else text.splitlines()
            values[name] = tuple(part.strip() for part in parts if part.strip())
        elif kind == "switch":
            values[name] = text == "true"
        else:
            values[name] = text
    asked, found = _asked(texts)
    site = Site(**values, allocation=asked)
    return site, (*problems, *found, *check_site(site))


def _numbers(name: str, text: str) -> tuple[int | tuple[int, ...], list[Problem]]:
    parts = [part.strip() for part in text.replace("–", "-").split("-")] if text else []
    empty: int | tuple[int, ...] = 0 if name == "port" else ()
    if not all(part.isascii() and part.isdecimal() and len(part) < 7 for part in parts):
        hint = "Write one number, such as 2222." if name == "port" else "Write the first and the last: 40000-40999."
        return empty, [
            Problem(f"site.{name}", f"{text[:40]!r} is no {'port' if name == 'port' else 'range'}.", hint, name)
        ]
    numbers = tuple(int(part) for part in parts)
    if name == "ports":
        return numbers, []
    if len(numbers) > 1 or numbers == (0,):
        return empty, [Problem("site.port", f"{text[:40]!r} is no port.", "Write one number, such as 2222.", name)]
    return (numbers[0] if numbers else 0), []


def _asked(texts: Mapping[str, str]) -> tuple[Allocation, list[Problem]]:
    given = {field.name: texts.get(ASKED + field.name, "").strip() for field in FIELDS}
    given = {name: text for name, text in given.items() if text or name != "nodes"}
    typed, problems = check(FIELDS, given)
    labels = {field.name: f"{field.label} ({field.name}): " for field in FIELDS}
    found = [
        msgspec.structs.replace(one, text=_sentence(one.text.removeprefix(labels[one.where])), where=ASKED + one.where)
        for one in problems
    ]
    return Allocation(**typed), found  # type: ignore[arg-type]  # check returns each field's own type


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def free_name(wish: str, taken: frozenset[str]) -> str:
    """A name for a new site, made from ``wish``, that is allowed and free."""
    word = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in wish.lower())
    word = word.strip("-_")[:36] or "site"
    names = [word, *(f"{word}-{number}" for number in range(2, 100))]
    return next((name for name in names if name not in taken and not check_name(name)), "site")
