"""Examines this computer (``clew doctor``) and sites: what of them works (``clew site doctor``), which scheduler a site
has (``clew site add``), and what it has to offer (``clew site modules``)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import closing

import msgspec

from clew_gui.commands.context import FAILED, INTERRUPTED, OK, CommandContext, Parser
from clew_gui.commands.sites.show import all_words
from clew_gui.doctor.checks import examine
from clew_gui.doctor.examination import Finding, Verdict
from clew_gui.doctor.software import available, matching
from clew_gui.schedulers.registry import NAMES, NO_SCHEDULER
from clew_gui.sites.consent import consents
from clew_gui.sites.scheduler_search import ABSENT, FoundScheduler, look_for_scheduler
from clew_gui.sites.site import LOCAL, Site, address, is_local
from clew_gui.sites.site_connection import open_connection
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.problem import Problem, ProblemError, problem

DOCTOR_FORMAT = 1
"""The version of what ``--json`` prints; docs/sites.md describes it."""
_MARKS = {Verdict.OK: "ok", Verdict.WARN: "note", Verdict.BAD: "BAD", Verdict.SKIPPED: "-"}
_COLUMN = 18


def examine_site(context: CommandContext, name: str, found: Site, want_job: bool, as_json: bool) -> int:
    """Show each finding as it comes; the exit status is 1 when something is bad."""
    findings: list[Finding] = []
    examination = examine(name, found, context.places, headless_prompter(os.environ), want_job)
    interrupted = False
    shown = _Shown(context, name)
    try:
        with closing(examination):
            for finding in examination:
                findings.append(finding)
                if not as_json:
                    shown.add(finding)
    except KeyboardInterrupt:
        interrupted = True
    bad = [finding for finding in findings if finding.verdict is Verdict.BAD]
    if as_json:
        whole = {"format": DOCTOR_FORMAT, "site": name, "ok": not bad and not interrupted, "ended": not interrupted}
        context.say_json({**whole, "findings": findings})
    else:
        shown.end()
        context.say(_verdict(findings, bad, interrupted, "here" if is_local(found) else "there"))
    return INTERRUPTED if interrupted else FAILED if bad else OK


def doctor(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew doctor``: examine this computer, as ``clew site doctor`` does a site; returns the exit status."""
    parser = Parser("clew doctor", "Check what Clew needs on this computer. A site: clew site doctor NAME.")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("site", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args(list(argv))
    if options.site:
        name = options.site[0]
        raise problem("cli.usage", "It checks this computer.", f"A site: clew site doctor {name}", name)
    return examine_site(context, LOCAL, Site(), False, options.json)


class _Shown:
    """Findings as lines; those that were not tried for the same reason make one."""

    def __init__(self, context: CommandContext, site: str) -> None:
        self._context, self._site = context, site
        self._untried: list[Finding] = []

    def add(self, finding: Finding) -> None:
        """Adds one finding."""
        if self._untried and finding.text != self._untried[0].text:
            self.end()
        if finding.verdict is Verdict.SKIPPED:
            self._untried.append(finding)
        else:
            self._line(finding)

    def end(self) -> None:
        """Say what was held back."""
        if len(self._untried) == 1:
            self._line(self._untried[0])
        elif self._untried:
            titles = ", ".join(finding.title for finding in self._untried)
            title, text = f"{len(self._untried)} more", f"{self._untried[0].text} ({titles})"
            self._line(msgspec.structs.replace(self._untried[0], title=title, text=text))
        self._untried = []

    def _line(self, said: Finding) -> None:
        self._context.say(f"{_MARKS[said.verdict]:>4}  {said.title:<{_COLUMN}}  {said.text}")
        ways = tuple(msgspec.structs.replace(one, site=self._site) for one in said.remedies)
        if advice := Problem(said.code, said.text, said.hint, remedies=ways).advice():
            self._context.say(f"{'':{_COLUMN + 8}}-> {advice}")


def _verdict(findings: Sequence[Finding], bad: Sequence[Finding], interrupted: bool, where: str) -> str:
    if interrupted:
        return "\nStopped before everything was checked."
    if bad:
        number = "One thing keeps" if len(bad) == 1 else f"{len(bad)} things keep"
        return f"\n{number} runs from working {where}: {', '.join(finding.title for finding in bad)}."
    notes = sum(finding.verdict is Verdict.WARN for finding in findings)
    also = f" {notes} {'thing is' if notes == 1 else 'things are'} worth knowing." if notes else ""
    return f"\nNothing keeps runs from working {where}.{also}"


_UNSEEN = f"To add it without looking, give --scheduler {NAMES[0]} (or {', '.join(NAMES[1:])})."


def look(context: CommandContext, name: str, made: Site, consent: bool) -> FoundScheduler:
    """The scheduler of a site that is being made. Raises ``ProblemError`` where nobody can say which it has, and where
    there is none: to train on a login node has to be asked for."""
    if consent:
        consents(context.places).give(all_words(made))
    context.note(f"Looking for the scheduler on {address(made)} …")
    try:
        with closing(open_connection(name, made, context.places, AskOnce(headless_prompter(os.environ)))) as connection:
            return look_for_scheduler(connection)
    except ProblemError as error:
        first = error.problems[0]
        hint = f"{first.hint} {_UNSEEN}".lstrip()
        if first.code == ABSENT:
            hint = f"If that is what you want, give --scheduler {NO_SCHEDULER}."
            hint += " If a module brings its commands, give --module NAME."
        elif first.code == "site.consent":
            hint = f"Read them, then add --consent. {_UNSEEN}"
        raise problem(first.code, first.text, hint, first.where) from None


def modules(context: CommandContext, name: str, found: Site, pattern: str, as_json: bool) -> int:
    """List what ``module avail`` has. Raises ``ProblemError`` when nothing fits or there is no such command."""
    if is_local(found):
        raise problem("site.local", "This computer has no modules of a site.", where=name)
    with closing(open_connection(name, found, context.places, AskOnce(headless_prompter(os.environ)))) as connection:
        there = available(connection)
    names = matching(there, pattern)
    if not names and not as_json:
        text = f"None of the {len(there.names)} modules has {pattern!r} in its name."
        hint = (
            f"All of them: clew site modules {name}. Some are shown only once the site names their toolchain as well."
        )
        raise problem("modules.none", text, hint, name)
    if as_json:
        default = sorted(there.default & set(names))
        context.say_json({"site": name, "modules": names, "default": default, "loaded": found.modules})
        return OK
    for one in names:
        marks = [*(["default"] if one in there.default else []), *(["in the site"] if _named(one, found) else [])]
        context.say(f"{one}  ({', '.join(marks)})" if marks else one)
    context.note(_how(name, found, names, bool(pattern)))
    return OK


def _named(module: str, found: Site) -> bool:
    return module in found.modules or module.partition("/")[0] in found.modules


def _how(name: str, found: Site, names: Sequence[str], asked: bool) -> str:
    """Says which line the site needs for it: for the first module that was asked for, else for what it loads now."""
    new = [one for one in names if not _named(one, found)][:1] if asked else []
    line = ",".join(dict.fromkeys([*found.modules, *new])) or "NAME"
    return f"\nJobs load the site's modules, in this order. To change them:\n    clew site set {name} modules={line}"
