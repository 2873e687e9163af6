"""A site as a form has it: which fields there are, in which groups, and the way from texts to a checked site and back.

Pure: no widget, no file. What is wrong comes back as problems whose ``where`` is the field's name here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from clew_gui.schedulers.allocation import FIELDS, AllocationRequest
from clew_gui.schedulers.registry import NAMES, NO_SCHEDULER, scheduler_of
from clew_gui.sites.check import check_name, check_site
from clew_gui.sites.site import Site
from clew_gui.sites.site_file import unknown_field
from clew_shared.base.problem import Problem, raise_all
from clew_shared.params import check, format_value

Kind = Literal["line", "list", "lines", "text", "choice", "switch"]
"""``list``: one line with commas; ``lines``: one entry each line; ``text``: several lines as written."""

ASKED = "allocation."
NAME = "name"


@dataclass(frozen=True)
class SiteField:
    """One field. ``shape`` is an example that is shown in it while it is empty, or the words beside a switch."""

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


_SCHEDULERS = (("", "Choose…"), *((name, scheduler_of(name).label) for name in NAMES))
_LAUNCH = (("", "None"), ("srun", "srun"), ("aprun", "aprun (Cray)"))
_SHAPES = {
    "partition": "the scheduler's own",
    "account": "none",
    "reservation": "none",
    "qos": "none",
    "time": "02:00:00",
    "gpus": "none",
    "cpus": "the scheduler's own",
    "features": "k80",
}

GROUPS: tuple[Group, ...] = (
    Group(
        "Connection",
        (
            SiteField("title", "Display name", "What lists and messages call the site; its short name if empty."),
            SiteField("host", "Host", "The login node, or an entry of ~/.ssh/config.", "login.example.org"),
            SiteField("user", "User name", "Your user name there.", "as in ~/.ssh/config, or the one on this computer"),
        ),
    ),
    Group(
        "More connection options",
        (
            SiteField("port", "Port", "The port of its SSH server.", "22"),
            SiteField("key", "Key file", "The path of your private key on this computer.", "~/.ssh/id_ed25519"),
            SiteField(
                "jump", "Jump hosts", "Hosts to go through, the first one first.", "user@gate, second:2222", "list"
            ),
            SiteField(
                "fingerprints",
                "Fingerprints",
                "Fingerprints of the host's keys as the site publishes them, one per line, to compare with.",
                "SHA256:…",
                "lines",
            ),
        ),
        folded=True,
    ),
    Group(
        "Jobs",
        (
            SiteField("scheduler", "Scheduler", "The program that assigns nodes to jobs.", "", "choice", _SCHEDULERS),
            SiteField(
                "modules",
                "Modules",
                "Environment modules that each job loads, in this order.",
                "python/3.11, tensorflow",
                "list",
            ),
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
        "Programs and folders on the site",
        (
            SiteField("python", "Python", "The Python interpreter on the nodes.", "found automatically"),
            SiteField("venv", "Virtual env", "A virtual environment on the site.", "~/venvs/lab"),
            SiteField("data", "Data folder", "The folder with the course's data.", "/gpfs/courses/data"),
            SiteField("scratch", "Folder for runs", "Where runs and Clew's agent are stored.", "your home folder"),
            SiteField("ports", "Ports", "The agent listens on one of these ports.", "40000-40999"),
            SiteField(
                "prologue",
                "Setup commands",
                "Shell commands that each job runs before the agent (the prologue).",
                "",
                "text",
            ),
        ),
        folded=True,
    ),
    Group(
        "More scheduler options",
        (
            SiteField(
                "requeue",
                "Requeue",
                "The scheduler may start a job again, for example after its node failed. Runs continue from their last"
                " checkpoint.",
                "The scheduler may start a job again",
                "switch",
            ),
            SiteField("gres", "GPU resource", "What the scheduler calls GPUs.", "gpu"),
            SiteField(
                "select", "OpenPBS syntax", "Ask with select=…, which OpenPBS needs.", "Ask with select=…", "switch"
            ),
            SiteField("launch", "Launcher", "Starts the agent on the compute node.", "", "choice", _LAUNCH),
            SiteField("extra", "Directives", "More lines for the scheduler, one per line.", "--mem=8G", "lines"),
        ),
        folded=True,
    ),
    Group("Note", (SiteField("note", "Note", "A text for everyone who uses the site.", "", "text"),), folded=True),
)
_CHOICES = {field.name: field.choices for group in GROUPS for field in group.fields if field.kind == "choice"}
_KINDS = {field.name: field.kind for group in GROUPS for field in group.fields}


def texts_of(site: Site) -> dict[str, str]:
    """The contents of the fields for this site; switches as "true" or empty."""
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
    """The site that the fields describe, and everything that is wrong; a field that cannot be read is as if empty."""
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
        elif kind in ("switch", "choice"):
            values[name], found = _switch(name, text) if kind == "switch" else _choice(name, text)
            problems += found
        else:
            values[name] = text
    asked, found = _asked(texts)
    site = Site(**values, allocation=asked)
    return site, (*problems, *found, *check_site(site))


def with_fields(site: Site, words: Sequence[str]) -> Site:
    """``site`` after ``field=value`` words; all other fields stay to the letter. What a job asks for may be named
    without ``allocation.`` before it. A list that is given several times has all those entries.

    Raises ``ProblemError`` with every word that is none, else with everything that is wrong with the site then.
    """
    given = _read_words(words)
    made, problems = site_of(texts_of(site) | given)
    raise_all(problems)
    names = {"allocation" if name.startswith(ASKED) else name for name in given}
    return msgspec.structs.replace(site, **{name: getattr(made, name) for name in names})


def _read_words(words: Sequence[str]) -> dict[str, str]:
    given: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for word in words:
        key, equals, value = word.partition("=")
        name = key.strip() if key.strip() in _KINDS else ASKED + key.strip()
        if not equals:
            hint = "Write it like modules=python,cuda/11.8; a field without a value, as in user=, is cleared."
            problems.append(Problem("site.fields", f"{word[:60]!r} sets no field.", hint, word[:60]))
        elif name not in _KINDS:
            problems.append(unknown_field(key.strip(), [one.removeprefix(ASKED) for one in _KINDS]))
        elif name == "scheduler" and not value.strip():
            hint = f"Give one of {', '.join(NAMES)}; {NO_SCHEDULER} means that runs train on the host itself."
            problems.append(Problem("site.fields", "The scheduler cannot be cleared.", hint, name))
        elif name in given and _KINDS[name] not in ("list", "lines"):
            problems.append(Problem("site.fields", f"{key.strip()} is given twice.", "Leave one out.", name))
        else:
            given.setdefault(name, []).append(value)
    raise_all(problems)
    return {name: (", " if _KINDS[name] == "list" else "\n").join(values) for name, values in given.items()}


def _switch(name: str, text: str) -> tuple[bool, list[Problem]]:
    if text.lower() in ("", "false", "no", "off", "0"):
        return False, []
    wrong = text.lower() not in ("true", "yes", "on", "1")
    return True, [Problem("site.fields", f"{name} is true or false, got {text[:40]!r}.", where=name)] * wrong


def _choice(name: str, text: str) -> tuple[str, list[Problem]]:
    """One of the field's choices; the first one where it is none, with the problem."""
    if name == "scheduler" and not text:
        found = Problem("site.scheduler", "The scheduler is not known yet.", "Choose it, or press Find.", name)
        return NO_SCHEDULER, [found]
    known = [value for value, _ in _CHOICES[name]]
    if text in known:
        return text, []
    shown = ", ".join(value for value in known if value)
    usual = NO_SCHEDULER if name == "scheduler" else ""
    return usual, [Problem("site.fields", f"{name} must be one of {shown}; got {text[:40]!r}.", where=name)]


def _numbers(name: str, text: str) -> tuple[int | tuple[int, ...], list[Problem]]:
    parts = [part.strip() for part in text.replace("–", "-").split("-")] if text else []
    empty: int | tuple[int, ...] = 0 if name == "port" else ()
    if not all(part.isascii() and part.isdecimal() and len(part) < 7 for part in parts):
        hint = "Write one number, such as 2222." if name == "port" else "Write the first and the last: 40000-40999."
        return empty, [
            Problem(f"site.{name}", f"{text[:40]!r} is not a {'port' if name == 'port' else 'range'}.", hint, name)
        ]
    numbers = tuple(int(part) for part in parts)
    if name == "ports":
        return numbers, []
    if len(numbers) > 1 or numbers == (0,):
        return empty, [Problem("site.port", f"{text[:40]!r} is not a port.", "Write one number, such as 2222.", name)]
    return (numbers[0] if numbers else 0), []


def _asked(texts: Mapping[str, str]) -> tuple[AllocationRequest, list[Problem]]:
    given = {field.name: texts.get(ASKED + field.name, "").strip() for field in FIELDS}
    given = {name: text for name, text in given.items() if text or name != "nodes"}
    typed, problems = check(FIELDS, given)
    labels = {field.name: f"{field.label} ({field.name}): " for field in FIELDS}
    found = [
        msgspec.structs.replace(one, text=_sentence(one.text.removeprefix(labels[one.where])), where=ASKED + one.where)
        for one in problems
    ]
    return AllocationRequest(**typed), found  # type: ignore[arg-type]  # check returns each field's own type


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def free_name(wish: str, taken: frozenset[str]) -> str:
    """A name for a new site, made from ``wish``, that is allowed and free."""
    word = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in wish.lower())
    word = word.strip("-_")[:36] or "site"
    names = [word, *(f"{word}-{number}" for number in range(2, 100))]
    return next((name for name in names if name not in taken and not check_name(name)), "site")
