"""The kinds of plots in the *Run* tab: what each must be able to do, and which of them a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from PySide6.QtCore import QSize

from clew_gui.charts.drawing import Drawing
from clew_gui.plotting.curves.model import RunStyle

Kind = Literal["curves", "surface", "measured", "pictures", "by_hand"]
"""``PlotSpec``, ``SurfaceSpec``, ``SeriesPlot``, ``PictureSpec`` and ``ByHand`` of a card."""
Page = Literal["curves", "surface", "both", "measured", "pictures", "beside", "by_hand"]
KINDS_OF: Final[dict[Page, tuple[Kind, ...]]] = {
    "curves": ("curves",),
    "surface": ("surface",),
    "both": ("curves", "surface"),
    "measured": ("measured",),
    "pictures": ("pictures",),
    "beside": ("curves", "pictures"),
    "by_hand": ("by_hand",),
}


class PlotKind(Protocol):
    """A widget that draws runs in its own way."""

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs."""

    def touch(self) -> None:
        """Asks for a new frame, because shown runs have something new."""

    def reset_zoom(self) -> None:
        """Show everything."""

    def setVisible(self, visible: bool) -> None:
        """Qt's own."""

    def isHidden(self) -> bool:
        """Qt's own."""


class DrawnPlot(Protocol):
    """A kind of plot whose widget also draws itself for a file."""

    def size(self) -> QSize:
        """Qt's own."""

    def accessibleDescription(self) -> str:
        """Qt's own: the picture in words."""

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """Adds a picture of this size; where it is made of pixels, ``scale`` of them for a logical one."""
