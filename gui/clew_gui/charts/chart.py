"""What every chart can do, and a page of charts for a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from clew_gui.base.tokens import Theme
from clew_gui.charts.drawing import Drawing, Item, TextSizes
from clew_gui.charts.svg import svg
from clew_gui.plotting.axes.layout import Box


class Chart(Protocol):
    """A chart that is laid out in a box."""

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""

    def read(self, x: float, y: float) -> str:
        """Says what is at a pixel; empty for nothing."""

    def words(self) -> str:
        """The chart in words, for people who cannot see it."""


Layout = Callable[[Box, TextSizes], Chart]
"""Lays a chart out in a box, with text of these sizes."""


@dataclass(frozen=True)
class ChartPage:
    """What goes into a file: shapes on ``ground``, in ``width`` by ``height`` pixels, with a title and a text for
    people who cannot see them."""

    width: float
    height: float
    items: Sequence[Item]
    title: str
    description: str
    ground: str

    def svg(self, sizes: TextSizes) -> str:
        """The page as an SVG document."""
        return svg(self.items, (self.width, self.height), sizes, self.title, self.description, self.ground)


def drawn(chart: Chart, theme: Theme, sizes: TextSizes) -> list[Item]:
    """The shapes of one chart."""
    drawing = Drawing(theme, sizes)
    chart.draw(drawing)
    return drawing.items
