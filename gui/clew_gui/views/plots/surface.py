"""The page of a loss surface, which a person can move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from clew_gui.charts.drawing import Drawing, TextSizes
from clew_gui.charts.surface import SurfaceChart, SurfaceLook
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.loss_surface import Heights
from clew_gui.plotting.surface_path import Paths
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import MetricSpec, SurfaceSpec

_PIXELS: Final = 700_000
"""Most pixels that the map is worked out for; a finer screen gets them enlarged."""
_FINE_MS: Final = 150
"""A map that a hand moves is rough; it is worked out finely when the hand has rested so long."""


class SurfaceView(ChartView):
    """Shows one surface. The map is worked out when what is visible changes, never because points arrive."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance, "Loss surface", keys=True)
        self._heights: Heights | None = None
        self._labels: dict[str, str] = {}
        self._runs: tuple[RunStyle, ...] = ()
        self._paths = Paths("", "")
        self._look = SurfaceLook()
        self._moving = False
        self.zoomed.connect(self._show_frame)
        self.double_clicked.connect(self.reset_zoom)
        self.setMinimumSize(320, 150)  # in less no path can be followed

    @property
    def spec(self) -> SurfaceSpec | None:
        """The surface that is shown."""
        return self._heights.spec if self._heights is not None else None

    def set_surface(self, spec: SurfaceSpec | None, metrics: Sequence[MetricSpec] = ()) -> None:
        """Show this surface; ``metrics`` has the labels of its axes."""
        self._heights = Heights(spec) if spec is not None else None
        self._labels = {metric.name: metric.label for metric in metrics}
        self._paths = Paths(*spec.metrics) if spec is not None else self._paths
        self._look = replace(self._look, zoom=None)
        self.setAccessibleName(spec.title if spec is not None else "Loss surface")
        self.show_chart(partial(self._lay_out, self._heights) if self._heights is not None else None)

    def _lay_out(self, heights: Heights, box: Box, sizes: TextSizes) -> SurfaceChart:
        fine = min(self.devicePixelRatioF(), (_PIXELS / max(box.width * box.height, 1.0)) ** 0.5)
        look = replace(self._look, scale=0.5 * fine if self._moving else fine)
        return SurfaceChart(heights, self._labels, self._runs, self._paths, look, box, sizes)

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """A picture of this size for a file."""
        if self._heights is not None:
            paths, box = Paths(*self._heights.spec.metrics), Box(0, 0, width, height)
            look = replace(self._look, scale=scale)
            SurfaceChart(self._heights, self._labels, self._runs, paths, look, box, SIZES).draw(drawing)

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show the paths of these runs."""
        self._runs = tuple(runs)
        self.touch()

    def list_runs(self, on: bool) -> None:
        """Whether to list the runs beside the map, if there is room."""
        self._look = replace(self._look, listed=on)
        self.redraw()

    def set_until(self, step: int | None) -> None:
        """Draw all paths up to this step; None: as far as they go."""
        if step != self._look.until:
            self._look = replace(self._look, until=step)
            self.redraw()

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
