"""A site as a form has it: which fields there are, in which groups, and the way from texts to a checked site and back.

Pure: no widget, no file. What is wrong comes back as problems whose ``where`` is the field's name here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew_gui.schedulers.allocation import FIELDS, AllocationRequest
from clew_gui.schedulers.registry import NAMES, NO_SCHEDULER, scheduler_of
from clew_gui.sites.check import check_name, check_site
from clew_gui.sites.site import Site, with_address
from clew_gui.sites.site_file import unknown_field
from clew_shared.base.problem import Problem, raise_all
from clew_shared.params import Choice, ParamSpec, Value, convert, format_value

ASKED = "allocation."
NAME = "name"
_JOBS = "Jobs"


def _text(name: str, label: str, about: str, example: str = "", lines: int = 1) -> ParamSpec:
    return ParamSpec(name=name, kind="text", label=label, default="", help=about, example=example, lines=lines)


def _switch(name: str, label: str, about: str, beside: str) -> ParamSpec:
    return ParamSpec(name=name, kind="bool", label=label, default=False, help=about, example=beside)


def _choice(name: str, label: str, about: str, default: str, choices: Mapping[str, str]) -> ParamSpec:
    options = tuple(Choice(value, words) for value, words in choices.items())
    return ParamSpec(name=name, kind="choice", label=label, default=default, help=about, choices=options)


def _asked(spec: ParamSpec) -> ParamSpec:
    about = f"{spec.help[:1].upper()}{spec.help[1:]}."
    return msgspec.structs.replace(spec, name=ASKED + spec.name, help=about)


_SCHEDULERS: Mapping[str, str] = {"": "Choose…"} | {name: scheduler_of(name).label for name in NAMES}
_LAUNCH = {"": "None", "srun": "srun", "aprun": "aprun (Cray)"}
_GROUPS: Mapping[str, tuple[ParamSpec, ...]] = {
    "Connection": (
        _text("title", "Display name", "What lists and messages call the site; its short name if empty."),
        _text("host", "Host", "The login node, or an entry of ~/.ssh/config.", "login.example.org"),
        _text("user", "User name", "Your user name there.", "as in ~/.ssh/config, or the one on this computer"),
    ),
    "More connection options": (
        _text("port", "Port", "The port of its SSH server.", "22"),
        _text("key", "Key file", "The path of your private key on this computer.", "~/.ssh/id_ed25519"),
        _text("jump", "Jump hosts", "Hosts to go through, the first one first.", "user@gate, second:2222"),
        _text(
            "fingerprints",
            "Fingerprints",
            "Fingerprints of the host's keys as the site publishes them, one per line, to compare with.",
            "SHA256:…",
            lines=2,
        ),
    ),
    _JOBS: (
        _choice("scheduler", "Scheduler", "The program that assigns nodes to jobs.", NO_SCHEDULER, _SCHEDULERS),
        _text(
            "modules",
            "Modules",
            "Environment modules that each job loads, in this order.",
            "python/3.11, tensorflow",
        ),
        *map(_asked, FIELDS),
    ),
    "Programs and folders on the site": (
        _text("python", "Python", "The Python interpreter on the nodes.", "found automatically"),
        _text("venv", "Virtual env", "A virtual environment on the site.", "~/venvs/lab"),
        _text("data", "Data folder", "The folder with the course's data.", "/gpfs/courses/data"),
        _text("scratch", "Folder for runs", "Where runs and Clew's agent are stored.", "your home folder"),
        _text("ports", "Ports", "The agent listens on one of these ports.", "40000-40999"),
        _text(
            "prologue",
            "Setup commands",
            "Shell commands that each job runs before the agent (the prologue).",
            lines=4,
        ),
    ),
    "More scheduler options": (
        _switch(
            "requeue",
            "Requeue",
            "The scheduler may start a job again, for example after its node failed. Runs continue from their last"
            " checkpoint.",
            "The scheduler may start a job again",
        ),
        _text("gres", "GPU resource", "What the scheduler calls GPUs.", "gpu"),
        _switch("select", "OpenPBS syntax", "Ask with select=…, which OpenPBS needs.", "Ask with select=…"),
        _choice("launch", "Launcher", "Starts the agent on the compute node.", "", _LAUNCH),
        _text("extra", "Directives", "More lines for the scheduler, one per line.", "--mem=8G", lines=2),
    ),
    "Note": (_text("note", "Note", "A text for everyone who uses the site.", lines=4),),
}
SITE_FIELDS = tuple(msgspec.structs.replace(spec, group=title) for title, specs in _GROUPS.items() for spec in specs)
"""The fields as data: the window makes a form of them, the commands their help."""
FOLDED = frozenset(_GROUPS) - {"Connection", _JOBS}
"""The groups that are opened when something of them is set or wrong."""
SPECS = {spec.name: spec for spec in SITE_FIELDS}
_BETWEEN = {"jump": ", ", "modules": ", ", "fingerprints": "\n", "extra": "\n"}
"""The fields with several entries, and what is between two of them in the text."""


_LOGIN_HOST = re.compile(
    r"(login|gate|gateway|ssh|front|frontend|head|node|www|access)-?[0-9a-z]?[0-9]*", re.IGNORECASE
)
"""Matches names of login nodes, such as login1 or gate."""


def texts_of(site: Site) -> dict[str, str]:
    """The contents of the fields for this site."""
    asked = {ASKED + name: value for name, value in msgspec.structs.asdict(site.allocation).items()}
    values: dict[str, Any] = msgspec.structs.asdict(site) | asked
    texts = {name: between.join(values[name]) for name, between in _BETWEEN.items()}
    texts |= {"port": str(site.port or ""), "ports": "-".join(map(str, site.ports))}
    return {name: texts[name] if name in texts else format_value(values[name]) for name in SPECS}


def site_of(texts: Mapping[str, str]) -> tuple[Site, tuple[Problem, ...]]:
    """The site that the fields describe, and everything that is wrong; a field that cannot be read is as if empty."""
    read = {name: _read(spec, texts.get(name, "")) for name, spec in SPECS.items()}
    problems = [found for _, found in read.values() if found is not None]
    asked: dict[str, Any] = {name.removeprefix(ASKED): value for name, (value, _) in read.items() if ASKED in name}
    own: dict[str, Any] = {name: value for name, (value, _) in read.items() if ASKED not in name}
    site = with_address(Site(**own, allocation=AllocationRequest(**asked)))
    return site, (*problems, *check_site(site))


def _read(spec: ParamSpec, whole: str) -> tuple[Value | tuple[str, ...] | tuple[int, ...], Problem | None]:
    """The value that a field's text stands for, and what is wrong with it."""
    name, text = spec.name, whole.strip("\n") if spec.lines > 1 else whole.strip()
    if name in _BETWEEN:
        parts = text.splitlines() if spec.lines > 1 else text.replace("\n", ",").split(",")
        return tuple(part.strip() for part in parts if part.strip()), None
    if name in ("port", "ports"):
        return _numbers(name, text)
    if name == "scheduler" and not text:
        found = Problem("site.scheduler", "The scheduler is not known yet.", "Choose it, or press Find.", name)
        return NO_SCHEDULER, found
    return convert(spec, text) if text else (spec.default, None)


def with_fields(site: Site, words: Sequence[str]) -> Site:
    """``site`` after ``field=value`` words; all other fields stay to the letter. What a job asks for may be named
    without ``allocation.`` before it. A list that is given several times has all those entries.

    Raises ``ProblemError`` with every word that is none, else with everything that is wrong with the site then.
    """
    made, problems = with_texts(site, _read_words(words))
    raise_all(problems)
    return made


def with_texts(site: Site, given: Mapping[str, str]) -> tuple[Site, list[Problem]]:
    """``site`` with the texts ``given`` in these fields, all other fields to the letter, and what is wrong with it."""
    made, problems = site_of({**texts_of(site), **given})
    names = {"allocation" if name.startswith(ASKED) else name for name in given}
    names |= {"user", "port"} if "host" in given else set()  # which may be a part of it
    # On a command line such a field is named without ``allocation.``; the window shows its label only.
    found = [msgspec.structs.replace(one, text=one.text.replace(f"({ASKED}", "(")) for one in problems]
    return msgspec.structs.replace(site, **{name: getattr(made, name) for name in names}), found


def _read_words(words: Sequence[str]) -> dict[str, str]:
    given: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for word in words:
        key, equals, value = word.partition("=")
        name = key.strip() if key.strip() in SPECS else ASKED + key.strip()
        if not equals:
            hint = "Write it like modules=python,cuda/11.8; a field without a value, as in user=, is cleared."
            problems.append(Problem("site.fields", f"{word[:60]!r} sets no field.", hint, word[:60]))
        elif name not in SPECS:
            problems.append(unknown_field(key.strip(), [one.removeprefix(ASKED) for one in SPECS]))
        elif name == "scheduler" and not value.strip():
            hint = f"Give one of {', '.join(NAMES)}; {NO_SCHEDULER} means that runs train on the host itself."
            problems.append(Problem("site.fields", "The scheduler cannot be cleared.", hint, name))
        elif name in given and name not in _BETWEEN:
            problems.append(Problem("site.fields", f"{key.strip()} is given twice.", "Leave one out.", name))
        else:
            given.setdefault(name, []).append(value)
    raise_all(problems)
    return {name: _BETWEEN.get(name, "").join(values) for name, values in given.items()}


def _numbers(name: str, text: str) -> tuple[int | tuple[int, ...], Problem | None]:
    """The port, 0 for none, or the ports."""
    parts = [part.strip() for part in text.replace("–", "-").split("-")] if text else []
    right = all(part.isascii() and part.isdecimal() and len(part) < 7 for part in parts)
    numbers = tuple(map(int, parts)) if right else ()
    if name == "ports":
        hint = "Write the first and the last: 40000-40999."
        return numbers, None if right else Problem("site.ports", f"{text[:40]!r} is not a range.", hint, name)
    if not right or len(numbers) > 1 or numbers == (0,):
        words = f"A port is a number from 1 to 65535, got {text[:20]!r}."
        return 0, Problem("site.port", words, "Write one number, such as 2222.", name)
    return (numbers[0] if numbers else 0), None


def machine_of(host: str) -> str:
    """The part of a host's name that says which machine it is: "juwels" of login03.juwels.fz-juelich.de."""
    parts = host.split(".")
    known = [part for part in parts[:-1] if not _LOGIN_HOST.fullmatch(part)]
    return host if host.replace(".", "").isdigit() else next(iter(known), parts[0])


def free_name(wish: str, taken: frozenset[str]) -> str:
    """A name for a new site, made from ``wish``, that is allowed and free."""
    word = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in wish.lower())
    word = word.strip("-_")[:36] or "site"
    names = [word, *(f"{word}-{number}" for number in range(2, 100))]
    return next((name for name in names if name not in taken and not check_name(name)), "site")
