"""What one tick of a session brought."""

from __future__ import annotations

import msgspec

from clew_shared.cards import Catalogue
from clew_shared.problem import Problem


class Changes(msgspec.Struct, frozen=True):
    """Runs with new points, with another state, seen for the first time; troubles to show. ``link``: this computer's
    link has another state; ``jobs``: of these jobs there is news, or their link has another state."""

    points: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    link: bool = False
    problems: tuple[Problem, ...] = ()
    catalogue: Catalogue | None = None


class Gathered:
    """Changes while a tick lasts."""

    def __init__(self) -> None:
        self.points: set[str] = set()
        self.states: set[str] = set()
        self.new: set[str] = set()
        self.jobs: set[str] = set()
        self.link = False
        self.problems: list[Problem] = []
        self.catalogue: Catalogue | None = None

    def done(self) -> Changes:
        """All of them."""
        return Changes(
            points=frozenset(self.points),
            states=frozenset(self.states),
            new=frozenset(self.new),
            jobs=frozenset(self.jobs),
            link=self.link,
            problems=tuple(self.problems),
            catalogue=self.catalogue,
        )
