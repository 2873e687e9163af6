"""The agent on a site: installed when it is not there, and what starts it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from clew_gui.deploy.bundle import digests, name_of, own_files, packed
from clew_gui.deploy.packages import from_here, from_wheels
from clew_gui.deploy.probe import Probe, probe, python_problems
from clew_gui.deploy.remote_python import SMALL, TENSORFLOW, Need, ask_there
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.number_words import in_bytes
from clew_shared.base.problem import ProblemError, problem, raise_all

Say = Callable[[str], None]


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be started on a site.

    ``command`` begins its command line: ``(".../python", "-P", "-m", "clew_agent")``; what it is to do follows.
    ``environment`` must be set for it, after the site's modules and prologue. ``python`` and ``tensorflow`` are
    versions, "?" where the site does not report one. ``sent`` is how many bytes had to be brought.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    python: str
    tensorflow: str
    sent: int = 0


def ensure_agent(connection: SiteConnection, report: Say) -> Installed:
    """The agent of this very version on the site, brought there if need be: one round trip when nothing is missing.

    Raises ``ProblemError``: no Python or TensorFlow that will do, a module that is not there, no room, no connection.
    """
    own = own_files()
    agent = name_of("agent", own)
    found = probe(connection, agent, report)
    raise_all(python_problems(connection, found))
    sent = 0
    if found.states.get(agent) != "intact":
        sent += _send(connection, found, agent, own, (), report, "the agent")
    if found.packages and found.states.get(found.packages) != "intact":
        sent += _bring_packages(connection, found, report)
    layout = connection.layout()
    folders = [f"{layout.software}/{name}" for name in (agent, found.packages) if name]
    text = launcher_text(found.executable, folders, layout.home, connection.site.data)
    if found.launcher != text:
        put_launcher(connection, text, report)
    return _installed(found, folders, sent)


def _installed(found: Probe, folders: Sequence[str], sent: int) -> Installed:
    # Ours come first: one of the site's may be too old. The site's own path comes after them, for its TensorFlow.
    path = [*folders, *(part for part in found.path.split(":") if part)]
    return Installed(
        command=(found.executable, "-P", "-m", "clew_agent"),
        environment={"PYTHONPATH": ":".join(path)},
        python=found.python,
        tensorflow=found.have.get(TENSORFLOW, "?"),
        sent=sent,
    )


def try_packages(connection: SiteConnection, found: Probe, report: Say) -> tuple[str, ...]:
    """Find out whether ``ensure_agent`` could bring the packages that the site lacks, without keeping anything there.

    Returns the names of those that the site's own pip fetches. Raises the ``ProblemError`` of ``ensure_agent``.
    """
    _, left = _gather(connection, found, report)
    if left:
        question = {"software": connection.layout().software, "name": "", "files": {}, "replace": False, "kept": []}
        question["fetch"] = [need.requirement for need in left]
        answer = ask_there(connection, "install_there.py", question, report=report)
        if "refused" in answer:
            raise _refused(connection, found, answer, left, 0)
    return tuple(need.name for need in left)


def _bring_packages(connection: SiteConnection, found: Probe, report: Say) -> int:
    files, left = _gather(connection, found, report)
    missing = ", ".join(need.name for need in SMALL if need.name in found.missing)
    return _send(connection, found, found.packages, files, left, report, missing)


def _gather(connection: SiteConnection, found: Probe, report: Say) -> tuple[dict[str, bytes], list[Need]]:
    """Gathers what the site lacks: files out of this computer's own packages, else of wheels, and what is left to the
    site's pip with its index. Raises ``ProblemError`` if it has no pip."""
    files: dict[str, bytes] = {}
    left: list[Need] = []
    for need in (need for need in SMALL if need.name in found.missing):
        here = from_here(need, found)
        files |= here
        left += [] if here else [need]
    if left and (wheels := from_wheels(left, found, report)):
        files |= wheels
        left = []
    if left and not found.pip:
        raise _nowhere(connection, found, left, "its Python has no pip")
    return files, left


def _send(
    connection: SiteConnection,
    found: Probe,
    name: str,
    files: Mapping[str, bytes],
    fetch: Sequence[Need],
    report: Say,
    what: str,
) -> int:
    """Install one folder of software; how many bytes that took."""
    archive = packed(files) if files else b""
    again = "again, since it was damaged" if found.states.get(name) == "damaged" else ""
    report(f"Bringing {what} to {connection.title} ({in_bytes(len(archive))}){f' {again}' if again else ''}…")
    if fetch:
        report(f"The Python of {connection.title} fetches {', '.join(need.name for need in fetch)} by itself…")
    question: dict[str, Any] = {
        "software": connection.layout().software,
        "name": name,
        "files": digests(files),
        "fetch": [need.requirement for need in fetch],
        "replace": bool(again),
        "kept": sorted(found.states),
    }
    answer = ask_there(connection, "install_there.py", question, archive, report)
    if "refused" in answer:
        raise _refused(connection, found, answer, fetch, sum(map(len, files.values())))
    return len(archive)


def _refused(
    connection: SiteConnection, found: Probe, answer: Mapping[str, Any], fetch: Sequence[Need], needed: int
) -> ProblemError:
    why, free = str(answer.get("why", ""))[:300], answer.get("free")
    software = connection.layout().software
    if answer["refused"] == "pip":
        return _nowhere(connection, found, fetch, f"its own pip says: {why}")
    if answer["refused"] == "full":
        room = f" {in_bytes(free)} are free there," if isinstance(free, int) else ""
        text = (
            f"The agent does not fit into {software} on {connection.title}: {why}.{room} {in_bytes(needed)} are needed."
        )
        return problem(
            "bootstrap.full", text, "Remove files there, or name another folder as scratch.", connection.name
        )
    text = f"The agent could not be installed in {software} on {connection.title}: {why}."
    return problem("bootstrap.install", text, "Check that this folder can be written there.", connection.name)


def _nowhere(connection: SiteConnection, found: Probe, left: Sequence[Need], why: str) -> ProblemError:
    names = ", ".join(need.name for need in left)
    text = (
        f"The Python of {connection.title} ({found.python}, {found.machine}) lacks {names}. This computer's own do not "
        f"fit, no wheels could be fetched here, and {why}."
    )
    words = " ".join(f"'{need.requirement}'" for need in left)
    hint = f"Connect this computer to the internet once, or run there: {found.executable} -m pip install {words}"
    return problem("bootstrap.packages", text, hint, connection.name)


# --- Launcher ---------------------------------------------------------------------------------------------------------
# ``clew-agent`` on a site: a small program for job scripts of one's own. It starts the agent that came there last.
#
# What loads TensorFlow, modules mostly, is the job script's own business.


_ABOUT = "# The agent that Clew brought here last, for job scripts of your own: clew-agent run SPEC.toml"
_PUT = """umask 077
mkdir -p -- "${1%/*}" && new=$(mktemp "$1.XXXXXX") && cat >"$new" && chmod 700 "$new" && mv -f -- "$new" "$1" && exit
[ -z "$new" ] || rm -f -- "$new"
exit 1"""


def launcher_text(python: str, folders: Sequence[str], home: str, data: str) -> str:
    """The program. ``folders`` go before what the job's ``PYTHONPATH`` has; ``home`` and ``data``, Clew's folder there
    and the course's (empty: none), hold where the job says nothing else."""
    known = {"CLEW_HOME": home} | ({"CLEW_COURSE_DATA": data} if data else {})
    lines = ["#!/bin/sh", _ABOUT]
    for name, value in known.items():
        lines += [f'[ -n "${name}" ] || {name}={shlex.quote(value)}', f"export {name}"]
    lines.append(f'export PYTHONPATH={shlex.quote(":".join(folders))}"${{PYTHONPATH:+:$PYTHONPATH}}"')
    lines.append(f'exec {shlex.quote(python)} -P -m clew_agent "$@"')
    return "\n".join([*lines, ""])


def put_launcher(connection: SiteConnection, text: str, report: Callable[[str], None]) -> None:
    """Write it there, so that it appears whole. Where that cannot be done it is said: no run of Clew's needs it."""
    path = connection.layout().launcher
    done = connection.run(("sh", "-c", _PUT, "sh", path), stdin=text.encode())
    if done.failed:
        said = done.err.strip().splitlines()[-1:] or ["it did not answer"]
        report(
            f"{path} could not be written on {connection.title}, which only job scripts of your own need: {said[0]}."
        )
