"""The doctor's result for one check. Plain data, for the terminal, the window and programs alike."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy


class Verdict(StrEnum):
    """The outcome. Only BAD keeps runs from working; WARN is worth knowing; SKIPPED was not tried."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    SKIPPED = "skipped"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check.

    ``check`` is its stable name for programs ("hostkey"), ``where`` the hop, user and host, for those that are looked
    at once for each hop; both together are unique. ``title`` is for people, ``text`` whole sentences, ``hint`` how to
    fix it. ``code`` is that of the ``Problem`` of a bad finding, where there is one. ``seconds`` is how long it
    took, with the time in which a person was asked. ``remedies`` are ways out, as a ``Problem`` has them.
    """

    check: str
    title: str
    verdict: Verdict
    text: str
    hint: str = ""
    where: str = ""
    code: str = ""
    seconds: float = 0.0
    remedies: tuple[Remedy, ...] = ()


class CheckResult(NamedTuple):
    """The result of one check: the part of a ``Finding`` that the check decides."""

    verdict: Verdict
    text: str
    hint: str = ""
    code: str = ""
    remedies: tuple[Remedy, ...] = ()


def fine(text: str, *remedies: Remedy) -> CheckResult:
    """Returns a result with nothing to fix."""
    return CheckResult(Verdict.OK, text, remedies=remedies)


def note(text: str, hint: str = "", *remedies: Remedy) -> CheckResult:
    """Returns the result of something that works, and is worth knowing."""
    return CheckResult(Verdict.WARN, text, hint, remedies=remedies)


def wrong(text: str, hint: str, code: str = "", *remedies: Remedy) -> CheckResult:
    """Runs will not work before this is fixed."""
    return CheckResult(Verdict.BAD, text, hint, code, remedies)


def refused(found: Problem) -> CheckResult:
    """Returns the result for a problem with which runs will not work."""
    return wrong(found.text, found.hint, found.code, *found.remedies)


def untried(text: str, *remedies: Remedy) -> CheckResult:
    """Returns the result of a check that was not tried; ``text`` says why."""
    return CheckResult(Verdict.SKIPPED, text, remedies=remedies)
