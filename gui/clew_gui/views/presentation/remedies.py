"""Buttons for the ways out of a problem: each part of the window that can go one says how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy

MOST_BUTTONS = 4
"""The largest number of remedies that are offered; a problem names the best first."""


class RemedyButton(msgspec.Struct, frozen=True):
    """A button that helps: its words, and what it does."""

    text: str
    act: Callable[[], object]


Maker = Callable[[Remedy], RemedyButton | None]
Remedies = Callable[[Problem, str], Sequence[RemedyButton]]
"""Gives the buttons that help with a problem of a run, whose id is empty if it is of none."""


class RemedyButtons:
    """Makes buttons of remedies. A way out that no part of this window can go has none; the sentences say it all."""

    def __init__(self) -> None:
        self._makers: dict[str, Maker] = {}

    def add(self, act: str, maker: Maker) -> None:
        """Lets ``maker`` make the buttons of remedies of this kind; it returns None if there is nothing to press."""
        self._makers[act] = maker

    def of(self, remedies: Iterable[Remedy]) -> tuple[RemedyButton, ...]:
        """Returns the buttons of the remedies, in this order, none twice."""
        made = (self._makers[one.act](one) for one in remedies if one.act in self._makers)
        return tuple({button.text: button for button in made if button is not None}.values())
