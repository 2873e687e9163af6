"""Where the crosshair goes: to whole steps under the pointer, and from step to step by the keyboard."""

from __future__ import annotations

import math

from clew_gui.plotting.scene import Scene
from clew_gui.views.plots.geometry import Frame


def snapped(scene: Scene, x: float) -> float:
    """To a whole step, where steps are farther apart than half a pixel. Axis coordinates."""
    grid = scene.grid
    value = scene.x_value(x)
    if grid.unit.value != "step" or value < 0.5:
        return x
    whole = math.log10(round(value)) if grid.log else float(round(value))
    return min(max(whole, grid.span.low), grid.span.high)


def stepped(scene: Scene, frame: Frame, x: float | None, pixels: float) -> float:
    """From ``x`` by so many pixels, at least to the next step; None: it begins at the end of the curves."""
    span = scene.grid.span
    if x is None:
        ends = [d.curve.end[0] for plot in scene.plots for d in plot.curves if d.curve.end is not None]
        target = max(ends, default=span.high)
    else:
        move = pixels / frame.rect.width() * span.size
        if scene.grid.unit.value == "step" and not scene.grid.log:
            move = math.copysign(max(abs(move), 1.0), pixels)
        target = x + move
    return min(max(snapped(scene, target), span.low), span.high)
