"""Finds out what a site's Python has, as it will be in a job, and what about it would keep the agent from running."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from clew_gui.deploy.remote_python import FRAMEWORK, KERAS, PYTHON, SMALL, TENSORFLOW, ask_there
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import Problem, problem
from clew_shared.base.remedies import Remedy, list_modules
from clew_shared.catalogue import known_sets
from clew_shared.data_sets import BUILT_IN, data_set_of

_log = logging.getLogger(__name__)

INDEX = "https://pypi.org/simple/"
_MACHINES = ("x86_64", "aarch64")
_TENSORFLOW_SIZE = "about 300 MB to download, 1.5 GB in the home folder"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A site's Python on its login node; the nodes may differ, which the doctor finds out.

    ``executable`` is its path, ``path`` its ``PYTHONPATH``, ``libc`` the version of glibc (empty: another library).
    ``have`` is the version of each package by name ("?": there, but the version is unknown; empty: not there),
    ``missing`` those that are not there or too old. ``packages`` names the folder that would hold the small ones of
    them. ``states`` says of the agent's folder and of that one: intact, damaged or absent. ``launcher`` is the text of
    the program there that starts the agent (empty: none), ``too_old`` the Python that was found first and passed over
    (empty: none). ``free`` is room in bytes where software goes, -1 where
    nobody can tell. The last six are known from a thorough probe only: room in the home folder, what ``quota`` says,
    whether a package index answers, the files of the data ``sets`` by name that a job's agent would find there, that of
    the ``digits`` (scikit-learn's; empty: none), and where it would have ``searched`` for the sets.
    """

    python: Annotated[str, msgspec.Meta(pattern=r"^\d{1,3}\.\d{1,3}(\.|$)")]
    executable: str
    implementation: str
    system: str
    machine: str
    libc: tuple[int, ...]
    path: str
    have: dict[str, str]
    missing: tuple[str, ...]
    packages: str
    states: dict[str, str]
    pip: str
    free: int
    launcher: str = ""
    too_old: str = ""
    home_free: int = -1
    quota: str = ""
    index: bool | None = None
    sets: dict[str, str] = {}
    digits: str = ""
    searched: tuple[str, ...] = ()

    @property
    def minor(self) -> tuple[int, int]:
        """Python's version as wheels name it: (3, 11)."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)


def probe(
    connection: SiteConnection,
    agent: str = "agent",
    report: Callable[[str], None] = _log.info,
    *,
    thorough: bool = False,
) -> Probe:
    """Ask the site, in one round trip. ``agent`` is the folder whose state is wanted as well.

    Raises ``ProblemError`` when there is no Python, a module cannot be loaded, or the site cannot be reached.
    """
    needed = [(need.name, need.module, need.least, need.others) for need in (*FRAMEWORK, *SMALL)]
    question: dict[str, Any] = {"needed": needed, "never": [need.name for need in FRAMEWORK]}
    layout = connection.layout()
    question |= {"software": layout.software, "launcher": layout.launcher, "agent": agent}
    folders = (connection.site.data, layout.data)
    known = known_sets()
    sets = {name: card.files for name, card in known.items() if card.files}
    data = {"folders": folders, "sets": sets, "digits": known[BUILT_IN].packaged}
    question |= {"thorough": thorough, "index": INDEX, "data": data}
    answer = ask_there(connection, "probe_there.py", question, report=report)
    try:
        found = msgspec.convert(answer, Probe)
    except msgspec.ValidationError as error:
        text = f"The Python of {connection.title} gave an answer that Clew cannot understand: {error}."
        raise problem("bootstrap.there", text, "Check python in the site.", connection.name) from None
    right = {name: file for name, file in found.sets.items() if data_set_of(file) == name}
    return msgspec.structs.replace(found, sets=right)


def python_problems(connection: SiteConnection, found: Probe) -> list[Problem]:
    """Says what keeps this Python from training, each problem in its own sentence; Clew can fix none of it by
    itself."""
    if found.minor < PYTHON:
        text = f"{found.executable} on {connection.title} is Python {found.python}; the agent needs 3.11 or newer."
        return [
            Problem(
                "bootstrap.old",
                text,
                "Name a newer module, python or venv in the site.",
                connection.name,
                _modules(connection),
            )
        ]
    if found.system != "Linux" or found.machine not in _MACHINES:
        text = f"{connection.title} is {found.system} on {found.machine}; jobs run on Linux on x86-64 or aarch64."
        return [Problem("bootstrap.machine", text, "Choose another site.", connection.name)]
    return [
        _unfit_package(connection, found, need.name, need.least) for need in FRAMEWORK if need.name in found.missing
    ][:1]


def _unfit_package(connection: SiteConnection, found: Probe, name: str, least: str) -> Problem:
    called = {TENSORFLOW: "TensorFlow", KERAS: "Keras"}.get(name, name)
    has = found.have.get(name)
    what = f"has {called} {has}; the exercises need {least} or newer" if has else f"has no {called}"
    text = f"{found.executable} on {connection.title} {what}."
    if found.too_old not in ("", found.executable):
        text += f" {found.too_old}, which is found there first, was passed over: it is older than Python 3.11."
    if name == TENSORFLOW and not has:
        hint = (
            "Name the module that brings it in the site, or make a virtual environment there with "
            f"pip install 'tensorflow>=2.16' ({_TENSORFLOW_SIZE}) and name it as venv. Clew never installs it unasked."
        )
        return Problem("bootstrap.tensorflow", text, hint, connection.name, _modules(connection))
    hint = "Name a newer module, or a venv, in the site."
    return Problem(f"bootstrap.{name}", text, hint, connection.name, _modules(connection))


def _modules(connection: SiteConnection) -> tuple[Remedy, ...]:
    return (list_modules(connection.name),)
