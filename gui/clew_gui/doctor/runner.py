"""Runs checks in their order, each with a time limit; a failed one hides only those that need it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from clew_gui.doctor.context import Examination
from clew_gui.doctor.finding import CheckResult, Finding, Verdict, refused, untried
from clew_shared.base.problem import ProblemError
from clew_shared.base.remedies import check_node

E = TypeVar("E", bound=Examination)


class Check(NamedTuple, Generic[E]):
    """One check. ``needs`` are checks that must not be bad or untried before; ``cause`` ends the sentence
    "Not tried, because …" of those that need this one. ``job``: only with a job on a node."""

    name: str
    title: str
    run: Callable[[E], CheckResult]
    cause: str = ""
    needs: Sequence[str] = ("login", "shell")
    job: bool = False


def follow(diagnosis: E, checks: Sequence[Check[E]], want_job: bool) -> Iterator[Finding]:
    """Runs the checks and yields one finding for each; a check that cannot run because another one failed says so."""
    for check in checks:
        if diagnosis.stop.is_set():
            return
        started = time.monotonic()
        result = _hindered(diagnosis, check, want_job) or _run(diagnosis, check)
        if result.verdict in (Verdict.BAD, Verdict.SKIPPED):
            diagnosis.causes[check.name] = _cause(diagnosis, check) or check.cause or f"{check.title} is not in order"
        finding = Finding(
            check=check.name,
            title=check.title,
            verdict=result.verdict,
            text=result.text,
            hint=result.hint,
            code=result.code,
            remedies=result.remedies,
            seconds=round(time.monotonic() - started, 3),
        )
        diagnosis.findings[check.name] = finding
        yield finding


def _cause(diagnosis: E, check: Check[E]) -> str:
    """Says why a check cannot run: the first failure that led to this, not the last one."""
    return next((diagnosis.causes[need] for need in check.needs if need in diagnosis.causes), "")


def _hindered(diagnosis: E, check: Check[E], want_job: bool) -> CheckResult | None:
    if check.job and not want_job:
        return untried("Checked only with a small job on a node.", check_node(diagnosis.name))
    if cause := _cause(diagnosis, check):
        return untried(f"Not tried, because {cause}.")
    if diagnosis.left_s <= 0:
        return untried("Not tried, because the checks before took too long.")
    return None


def _run(diagnosis: E, check: Check[E]) -> CheckResult:
    try:
        return check.run(diagnosis)
    except ProblemError as error:
        found = error.problems[0]
        if found.code == "ssh.lost":
            diagnosis.causes["login"] = "the connection was lost"
        return refused(found)
