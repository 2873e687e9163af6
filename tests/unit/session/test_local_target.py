"""This computer as a place for runs."""

from __future__ import annotations

import sys

import pytest

from clew_gui.targets.target import LocalTarget
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError


def start_until_told(target: LocalTarget) -> None:
    """Start agents as a link does while it finds none."""
    while True:
        target.find()
        target.while_absent()


def test_whoever_keeps_a_homes_lock_without_being_found_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of another container or another Wine, for example: each agent that is started here ends at once."""
    says = "print('An agent serves this home already: process 7 of elsewhere since 2026-11-26 10:04:00.')"
    monkeypatch.setattr("clew_gui.targets.target._AGAIN_S", 0.0)
    target = LocalTarget(find_places(), (sys.executable, "-c", says))
    with pytest.raises(ProblemError, match="process 7 of elsewhere since"):
        start_until_told(target)
    target.close()
