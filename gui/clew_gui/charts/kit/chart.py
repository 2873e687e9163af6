"""What every chart can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from clew_gui.base.tokens import Theme
from clew_gui.charts.kit.drawing import Drawing, Item, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, within, zoomed


class Chart:
    """A chart that is laid out in a box. A kind of chart says what it can do; what it leaves out it cannot."""

    draws_reading = False
    """Whether ``draw_reading`` shows what ``read`` says; if not, a tooltip does."""
    along: tuple[Frame, Span] | None = None
    """What is shown, and all that can be shown by moving and zooming along x; None where that is not possible."""
    drags_box: bool | None = None
    """Whether a drag draws a box to zoom into; False: it does with Shift, None: never."""
    whole: Frame | None = None
    """What to show so that everything can be seen; None where that is known elsewhere."""

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes, but no read-out."""
        raise NotImplementedError

    @property
    def ground_key(self) -> object:
        """What the ground shows: while it is equal, also in another chart, the ground is not drawn again."""
        return self

    def draw_ground(self, drawing: Drawing) -> None:
        """Add what is kept as pixels while nothing but the pointer moves."""
        self.draw(drawing)

    def draw_growth(self, drawing: Drawing) -> None:
        """Add to a kept ground what it does not have yet."""

    def draw_top(self, drawing: Drawing) -> None:
        """Add what lies over the ground and is drawn each time."""

    def draw_lifted(self, drawing: Drawing, name: str) -> None:
        """Add what makes a thing that can be picked stand out."""

    def draw_reading(self, drawing: Drawing, x: float, y: float) -> None:
        """Add the read-out of a pixel."""

    def read(self, x: float, y: float) -> str:
        """Says what is at a pixel; empty for nothing."""
        return ""

    def words(self) -> str:
        """The chart in words, for people who cannot see it."""
        return ""

    def places(self) -> Sequence[tuple[float, float]]:
        """The pixels that the arrow keys read out one by one."""
        return ()

    def pick(self, x: float, y: float) -> str:
        """The name of what a click at a pixel chooses."""
        return ""

    def tile_at(self, x: float, y: float) -> str:
        """The name of the part of the chart at a pixel that can be shown alone."""
        return ""

    def grip_at(self, x: float, y: float) -> str:
        """The name of what can be dragged at a pixel."""
        return ""

    def value_at(self, grip: str, x: float, y: float) -> tuple[float, float] | None:
        """The coordinates that a grip gets when it is dragged to a pixel; None: it stays."""
        return None

    def moved(self, columns: float, rows: float) -> Frame | None:
        """What to show after a move by so many pixels; None where nothing can be moved and zoomed."""
        if self.along is None:
            return None
        frame, full = self.along
        return replace(frame, x=within(frame.moved(columns, 0).x, full) or full)

    def zoomed(self, factor: float, at: tuple[float, float] | None = None) -> Frame | None:
        """``factor`` times as much, with a pixel (by default the middle) kept in place."""
        if self.along is None:
            return None
        frame, full = self.along
        return replace(frame, x=zoomed(frame.x, full, factor, frame.x_at(at[0]) if at is not None else None) or full)


Layout = Callable[[Box, TextSizes], Chart]
"""Lays a chart out in a box, with text of these sizes."""


def drawn(chart: Chart, theme: Theme, sizes: TextSizes) -> list[Item]:
    """The shapes of one chart."""
    drawing = Drawing(theme, sizes)
    chart.draw(drawing)
    return drawing.items
