"""The page of a loss surface, which a person can move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from clew_gui.charts.curves.model import View
from clew_gui.charts.kit.drawing import Drawing, TextSizes
from clew_gui.charts.kit.layout import Box, Frame
from clew_gui.charts.surface import Heights, PathLayer, SurfaceChart, SurfaceLook
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import ExerciseCard

_PIXELS: Final = 700_000
"""Most pixels that the map is worked out for; a finer screen gets them enlarged."""
_FINE_MS: Final = 150
"""A map that a hand moves is rough; it is worked out finely when the hand has rested so long."""


class SurfaceView(PlotPage):
    """Shows one surface. The map is worked out when what is visible changes, never because points arrive."""

    name = "Loss surface"
    reset_text = "Show the whole map\tHome"
    every_step = True
    stretch = 9

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._heights: Heights | None = None
        self._labels: dict[str, str] = {}
        self._paths = PathLayer("", "")
        self._look = SurfaceLook()
        self._moving = False
        self.zoomed.connect(self._show_frame)
        self.double_clicked.connect(self.reset_zoom)
        self.setMinimumSize(320, 150)  # in less no path can be followed

    def show_card(self, card: ExerciseCard) -> None:
        """Show the first surface of a card."""
        spec = next(iter(card.surfaces), None)
        self._heights = Heights(spec) if spec is not None else None
        self._labels = {metric.name: metric.label for metric in card.metrics}
        self._paths = PathLayer(*spec.metrics) if spec is not None else self._paths
        self._look = replace(self._look, zoom=None)
        self.setAccessibleName(spec.title if spec is not None else "Loss surface")
        self.show_chart(partial(self._lay_out, self._heights) if self._heights is not None else None)

    @property
    def metrics(self) -> Sequence[str]:
        """Those of its axes."""
        return self._heights.spec.metrics if self._heights is not None else ()

    def _lay_out(self, heights: Heights, box: Box, sizes: TextSizes) -> SurfaceChart:
        fine = min(self.devicePixelRatioF(), (_PIXELS / max(box.width * box.height, 1.0)) ** 0.5)
        look = replace(self._look, scale=0.5 * fine if self._moving else fine)
        return SurfaceChart(heights, self._labels, self.runs, self._paths, look, box, sizes)

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """A picture of this size for a file."""
        if self._heights is not None:
            paths, box = PathLayer(*self._heights.spec.metrics), Box(0, 0, width, height)
            look = replace(self._look, scale=scale)
            SurfaceChart(self._heights, self._labels, self.runs, paths, look, box, SIZES).draw(drawing)

    def stand_beside(self, on: bool) -> None:
        """Beside the curves no runs are listed."""
        self._look = replace(self._look, listed=not on)
        self.redraw()

    def set_view(self, view: View) -> None:
        """Draw all paths up to a step."""
        self._look = replace(self._look, until=view.until)
        super().set_view(view)

    def _show_frame(self, frame: Frame | None) -> None:
        self._look = replace(self._look, zoom=(frame.x, frame.y) if frame is not None else None)
        self._moving = frame is not None
        self.redraw()
        self._moving = False
        if frame is not None and self.isVisible():
            self._timer.start(_FINE_MS)

    def reset_zoom(self) -> None:
        """Show the whole map."""
        self._show_frame(None)
