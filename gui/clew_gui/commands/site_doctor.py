"""``clew site doctor`` and ``clew site modules``: what of a site works, what does not, and what it has to offer."""

from __future__ import annotations

import os
from collections.abc import Sequence

from clew_gui.commands.shell import FAILED, INTERRUPTED, OK, Shell
from clew_gui.remote.doctor import Finding, Verdict, examine
from clew_gui.remote.doctor.modules import available, matching
from clew_gui.remote.prompts import AskOnce, headless_prompter
from clew_gui.remote.site_line import open_line
from clew_gui.remote.sites import Site, is_local
from clew_shared.problem import problem

DOCTOR_FORMAT = 1
"""The version of what ``--json`` prints; docs/connecting.md describes it."""
_MARKS = {Verdict.OK: "ok", Verdict.WARN: "note", Verdict.BAD: "BAD", Verdict.SKIPPED: "-"}
_COLUMN = 18


def doctor(shell: Shell, name: str, found: Site, want_job: bool, as_json: bool) -> int:
    """Show each finding as it comes; the exit status is 1 when something is bad."""
    findings: list[Finding] = []
    examination = examine(name, found, shell.places, headless_prompter(os.environ), want_job)
    interrupted = False
    try:
        for finding in examination:
            findings.append(finding)
            if not as_json:
                _show(shell, finding)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        examination.close()
    bad = [finding for finding in findings if finding.verdict is Verdict.BAD]
    if as_json:
        whole = {"format": DOCTOR_FORMAT, "site": name, "ok": not bad and not interrupted, "ended": not interrupted}
        shell.say_json({**whole, "findings": findings})
    else:
        shell.say(_verdict(findings, bad, interrupted))
    return INTERRUPTED if interrupted else FAILED if bad else OK


def _show(shell: Shell, finding: Finding) -> None:
    shell.say(f"{_MARKS[finding.verdict]:>4}  {finding.title:<{_COLUMN}}  {finding.text}")
    if finding.hint:
        shell.say(f"{'':{_COLUMN + 8}}{'->'} {finding.hint}")


def _verdict(findings: Sequence[Finding], bad: Sequence[Finding], interrupted: bool) -> str:
    if interrupted:
        return "\nEnded before everything was looked at."
    if bad:
        number = "One thing keeps" if len(bad) == 1 else f"{len(bad)} things keep"
        return f"\n{number} runs from working there: {', '.join(finding.title for finding in bad)}."
    notes = sum(finding.verdict is Verdict.WARN for finding in findings)
    also = f" {notes} {'thing is' if notes == 1 else 'things are'} worth knowing." if notes else ""
    return f"\nNothing keeps runs from working there.{also}"


def modules(shell: Shell, name: str, found: Site, pattern: str, as_json: bool) -> int:
    """List what ``module avail`` has. Raises ``ProblemError`` when nothing fits or there is no such command."""
    if is_local(found):
        raise problem("site.local", "This computer has no modules of a site.", where=name)
    line = open_line(name, found, shell.places, AskOnce(headless_prompter(os.environ)))
    try:
        there = available(line)
    finally:
        line.close()
    names = matching(there, pattern)
    if not names and not as_json:
        text = f"None of the {len(there.names)} modules has {pattern!r} in its name."
        raise problem("modules.none", text, f"All of them: clew site modules {name}", name)
    if as_json:
        default = sorted(there.default & set(names))
        shell.say_json({"site": name, "modules": names, "default": default, "loaded": found.modules})
        return OK
    for one in names:
        marks = [*(["default"] if one in there.default else []), *(["in the site"] if _named(one, found) else [])]
        shell.say(f"{one}  ({', '.join(marks)})" if marks else one)
    shell.note(_how(name, found, names))
    return OK


def _named(module: str, found: Site) -> bool:
    return module in found.modules or module.partition("/")[0] in found.modules


def _how(name: str, found: Site, names: Sequence[str]) -> str:
    """Which line the site needs for it."""
    example = next((one for one in names if not _named(one, found)), names[0])
    line = ", ".join(f'"{one}"' for one in dict.fromkeys([*found.modules, example]))
    about = "A site's jobs load what its file names, in this order, such as:"
    return f"\n{about}\n    modules = [{line}]\nThe file: clew site show {name}"
