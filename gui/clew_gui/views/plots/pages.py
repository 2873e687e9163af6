"""The pages of plots in the *Run* tab. A new kind of plot is a module with a ``PlotPage``, and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from clew_gui.views.plots.by_hand import ByHandView
from clew_gui.views.plots.curves import CurvesView
from clew_gui.views.plots.measured import MeasuredView
from clew_gui.views.plots.pictures import PicturesView
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.plots.surface import SurfaceView
from clew_shared.cards import ExerciseCard


@dataclass(frozen=True)
class Page:
    """One page: the exercises that have it, and its widget. One that goes ``beside`` the curves is offered so too."""

    name: str
    title: str
    offered: Callable[[ExerciseCard], bool]
    kind: type[PlotPage]
    beside: bool = False


BOTH: Final = "both"
"""The name of the page that shows the curves and what is beside them."""
PAGES: Final = (
    Page("curves", "Curves", lambda card: card.kind != "measurement", CurvesView),
    Page("measured", "Measured", lambda card: card.kind == "measurement", MeasuredView),
    Page("surface", "Surface", lambda card: bool(card.surfaces), SurfaceView, beside=True),
    Page("pictures", "Pictures", lambda card: bool(card.pictures), PicturesView, beside=True),
    Page("by_hand", "By hand", lambda card: card.by_hand is not None, ByHandView),
)


def offered(card: ExerciseCard | None) -> tuple[Page, ...]:
    """The pages of an exercise."""
    return tuple(page for page in PAGES if card is not None and page.offered(card))


def kinds_of(page: str, pages: tuple[Page, ...]) -> tuple[str, ...]:
    """The kinds of plots that a page shows, if an exercise has these ``pages``."""
    return ("curves", *[one.name for one in pages if one.beside][:1]) if page == BOTH else (page,)
