"""Finds out which scheduler a site has: looks for its commands on the host and the path from which jobs will be
sent."""

from __future__ import annotations

import re
import shlex

import msgspec

from clew_gui.schedulers.registry import SCHEDULERS, SchedulerName, scheduler_of
from clew_gui.schedulers.scheduler import NOT_FOUND
from clew_gui.schedulers.state import Output
from clew_gui.sites.site import Site, address
from clew_gui.sites.site_connection import CALL_LIMIT_S, SiteConnection
from clew_shared.base.problem import problem

_OTHERS = {
    "qconf": "Grid Engine",
    "bsub": "LSF",
    "condor_submit": "HTCondor",
    "oarsub": "OAR",
}
"""Schedulers that Clew does not support."""
_LOOK = f"""\
for name in "$@"; do
    path=$(command -v "$name") && printf 'clew-found %s %s\\n' "$name" "$path" && found=yes
done
if [ -z "${{found:-}}" ]; then exit {NOT_FOUND}; fi
"""
_ASK_VERSION = """\
if command -v {command} >/dev/null; then
    printf 'clew-says {command} %s\\n' "$({version} 2>&1 </dev/null | head -n 1)"
fi
"""
_SIGNATURES = [(name, one.signature) for name, one in SCHEDULERS.items() if one.signature is not None]
"""How each scheduler is recognised, the most specific one first."""
ABSENT = "scheduler.absent"
"""The code of the problem that there is no scheduler that Clew supports."""


class FoundScheduler(msgspec.Struct, frozen=True):
    """A scheduler, the ``command`` that submits its jobs and where that lies. ``select``: it is OpenPBS."""

    scheduler: SchedulerName
    command: str
    path: str
    select: bool = False

    @property
    def text(self) -> str:
        """Describes the result for people."""
        label = scheduler_of(self.scheduler).label
        named = label if self.command in label else f"{label} ({self.command})"
        return f"Found {named}: jobs will go to its queue."


def look_for_scheduler(connection: SiteConnection) -> FoundScheduler:
    """The site's scheduler. Logs in and waits.

    Raises ``ProblemError`` when the site cannot be reached or does not answer, and when there is no scheduler that
    Clew speaks: runs would train on the login node then, which a person has to want.
    """
    commands = [signature.command for _, signature in _SIGNATURES]
    asked = [one for _, one in _SIGNATURES if one.version]
    versions = "".join(_ASK_VERSION.format(command=one.command, version=shlex.join(one.version)) for one in asked)
    done = connection.run(("sh", "-c", _LOOK + versions, "sh", *commands, *_OTHERS))
    if done.late:
        text = f"{connection.title} did not say within {CALL_LIMIT_S:g} s which scheduler it has."
        raise problem("scheduler.late", text, "The login node may be busy. Try again.", "scheduler")
    found = parse_look(done)
    if isinstance(found, FoundScheduler):
        return found
    where, absent = address(connection.site), ", ".join(commands)
    text = f"{where} has {found}, which Clew cannot use." if found else f"{where} has no scheduler: no {absent}."
    text += " Runs would train on that host itself, which most sites forbid on a login node."
    raise problem(ABSENT, text, where="scheduler")


def parse_look(done: Output) -> FoundScheduler | str:
    """Returns what was found; the name of a scheduler that Clew does not support, or an empty text."""
    paths = dict(re.findall(r"^clew-found (\S+) (.+)$", done.out, re.MULTILINE))
    other = next((label for name, label in _OTHERS.items() if name in paths), "")
    versions = dict(re.findall(r"^clew-says (\S+) (.*)$", done.out, re.MULTILINE))
    for scheduler, signature in _SIGNATURES:
        command = signature.command
        if command in paths and not any(name in paths for name in signature.others):
            select = bool(signature.select) and signature.select in versions.get(command, "")
            return FoundScheduler(scheduler, command, paths[command], select)
    return other


def with_scheduler(site: Site, found: FoundScheduler) -> Site:
    """Returns the site with the scheduler that was found. Its jobs ask for the scheduler's usual time if the site names
    none."""
    usual = scheduler_of(found.scheduler).usual_time
    asked = msgspec.structs.replace(site.allocation, time=site.allocation.time or usual)
    return msgspec.structs.replace(
        site, scheduler=found.scheduler, select=site.select or found.select, allocation=asked
    )
