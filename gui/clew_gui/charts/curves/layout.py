"""Where everything of a scene of curves is: the stacked plots, their gutters, what is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.base.tokens import Theme
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.curves.scene import PlotScene, RunCurve, Scene
from clew_gui.charts.kit.drawing import TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.gutter import Gutter, Label
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import goal_text, value_text

AXIS_HEIGHT: Final = 24.0
TITLE: Final = 22.0
_GAP: Final = 16.0
_TOP: Final = 8.0
_EVERY: Final = 4
"""Pixels between the points of a line that labels keep off."""


@dataclass(frozen=True)
class Stack:
    """Boxes of the plots from top to bottom, the gutter right of them, and the whole picture."""

    width: float
    height: float
    plots: tuple[Box, ...]
    gutter: float

    @property
    def area(self) -> Box:
        """The box from the first plot's top to the last one's bottom."""
        if not self.plots:
            return Box(0, 0, 0, 0)
        first, last = self.plots[0], self.plots[-1]
        return Box(first.x, first.y, first.width, last.bottom - first.y)


def stack(width: float, height: float, plots: int, left: float, gutter: float, titles: bool, footer: float) -> Stack:
    """Divide a picture: plots of equal height, ``left`` for the value axes, the x axis once at the foot.

    ``titles`` leaves a line above each plot for its title; ``footer`` is extra room below the x axis.
    """
    top = TITLE if titles else _TOP
    between = _GAP + (TITLE - 6 if titles else 0)
    inner = height - top - AXIS_HEIGHT - footer - between * max(plots - 1, 0)
    each = max(inner // max(plots, 1), 24.0)
    wide = max(width - left - (gutter or 14.0), 32.0)
    boxes = tuple(Box(left, top + i * (each + between), wide, each) for i in range(plots))
    return Stack(width, height, boxes, gutter)


class CurvesLayout:
    """A scene in a stack of boxes. ``lifted`` is the run under the pointer."""

    def __init__(self, scene: Scene, boxes: Stack, theme: Theme, sizes: TextSizes, lifted: str = "") -> None:
        self.scene, self.stack, self.theme, self.sizes, self.lifted = scene, boxes, theme, sizes, lifted
        self.frames = tuple(
            Frame(box, scene.grid.span, plot.span) for box, plot in zip(boxes.plots, scene.plots, strict=True)
        )
        pairs = zip(scene.plots, self.frames, strict=True) if boxes.gutter else ()
        self.gutters = [self._gutter(plot, frame) for plot, frame in pairs]

    def _gutter(self, plot: PlotScene, frame: Frame) -> Gutter:
        gutter = Gutter(Box(frame.box.right, frame.box.y, self.stack.gutter, frame.box.height))
        gutter.place(self._labels(plot, frame), key(plot))
        return gutter

    def _labels(self, plot: PlotScene, frame: Frame) -> list[Label]:
        labels = []
        for item in plot.curves:
            end = item.curve.end
            if not item.headline or end is None:
                continue
            x, y = end
            if x > self.scene.grid.span.high:  # the view is zoomed: what is at its right border counts
                x, y = item.curve.at(self.scene.grid.span.high) or end
            bad = item.curve.bad_x is not None and x <= item.curve.bad_x
            # The very number that was recorded, which the end of a smoothed or decimated line is not.
            value = item.curve.last if item.curve.ends and item.curve.last is not None else plot.value(y)
            labels.append(
                Label(
                    run=item.run,
                    at=min(max(frame.row(y), frame.box.y), frame.box.bottom),
                    seen=plot.span.low <= y <= plot.span.high,
                    value=item.curve.bad_word if bad else value_text(value, plot.setup.format),
                    strong=self.stands_out(item.run),
                    bad=bad,
                )
            )
        return labels

    def stands_out(self, run: RunStyle) -> bool:
        """Whether a run is selected or under the pointer."""
        return run.selected or run.run_id == self.lifted

    def colour(self, run: RunStyle) -> str:
        """The colour of a run's curves."""
        return self.theme.curve(run.index).colour

    def goals(self, plot: PlotScene) -> list[tuple[str, float]]:
        """The goals in sight: what each says, and its axis coordinate."""
        result = []
        for goal in plot.setup.goals:
            if not plot.log or goal.value > 0:
                at = float(np.log10(goal.value)) if plot.log else goal.value
                if plot.span.low <= at <= plot.span.high:
                    result.append((f"Goal {goal_text(goal.value, plot.setup.format)}", at))
        return result

    def has_dot(self, item: RunCurve, frame: Frame) -> bool:
        """Whether a curve's last point carries a dot."""
        return self.end_in_sight(item, frame) and (item.run.live or self.stands_out(item.run))

    @staticmethod
    def end_in_sight(item: RunCurve, frame: Frame) -> bool:
        """Whether the last point of a curve can be seen."""
        end = item.curve.end
        return end is not None and item.curve.ends and in_sight(frame, *end)

    @staticmethod
    def broken(item: RunCurve, frame: Frame) -> tuple[float, float] | None:
        """Returns where in sight a curve became NaN or infinite: its x, and the pixel row of its last value before."""
        x = item.curve.bad_x
        if x is None or not item.headline or not frame.x.low <= x <= frame.x.high:
            return None
        before = item.curve.at(x) or item.curve.end
        row = frame.row(before[1]) if before is not None else frame.box.middle
        return x, min(max(row, frame.box.y + 8), frame.box.bottom - 8)

    def points_of(self, index: int) -> FloatArray:
        """Pixels of the main lines of one plot, to keep labels off them; of evaluations also between the points."""
        frame = self.frames[index]
        parts = [np.empty((0, 2))]
        for item in self.scene.plots[index].curves:
            every = 1 if item.curve.sparse else _EVERY
            x, y = frame.px(item.curve.x[::every]), frame.py(item.curve.y[::every])
            if item.curve.sparse and x.size:
                dense = np.arange(x[0], x[-1] + 1, _EVERY)
                parts.append(np.column_stack((dense, np.interp(dense, x, y))))
            parts.append(np.column_stack((x, y)))
        return np.concatenate(parts)


def in_sight(frame: Frame, x: float, y: float) -> bool:
    """Whether a point lies in the plot, or at most a pixel beside it."""
    return frame.box.inset(-1, -1, -1, -1).holds(*frame.at(x, y))


def heading(plot: PlotScene) -> str:
    """The plot's title, with its scale where that is logarithmic."""
    return plot.setup.title + (", log scale" if plot.log else "")


def key(plot: PlotScene) -> str:
    """Explains which line is which of a plot's several metrics, a line of text for each; empty for one metric."""
    styles: dict[str, str] = {}
    for item in sorted(plot.curves, key=lambda d: not d.headline):
        style = f"{plot.mark_of(item.curve.metric)}s" if item.curve.sparse else "line" if item.headline else "thin"
        styles.setdefault(item.curve.metric, style)
    if len(styles) < 2:
        return ""
    if sum(item.curve.sparse for item in {item.curve.metric: item for item in plot.curves}.values()) == 1:
        styles = {metric: "points" if style.startswith("dot") else style for metric, style in styles.items()}
    return "\n".join(f"{style}: {plot.setup.label(metric)}" for metric, style in styles.items())


def empty_sentence(runs: Sequence[RunStyle]) -> str:
    """The text of a plot in which no shown run has a value."""
    if runs and not any(run.live or run.coming for run in runs):
        return "There are no values: it ended before the first one."
    if any(run.coming for run in runs):
        return "The values are being read."
    return "The curves appear here with the run's first values."
