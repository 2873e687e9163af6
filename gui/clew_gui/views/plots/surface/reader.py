"""Describes a loss surface with paths: where each run is, what is under the pointer, the picture in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from PySide6.QtCore import QPointF

from clew_gui.charts.surface import PathHead
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.numbers import count_text, value_text
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.curves.readout import prominent
from clew_gui.plotting.loss_surface import Heights
from clew_gui.views.plots.surface.paths import Paths

_NEAR: Final = 16.0
_SPOKEN: Final = 4


class Reading(NamedTuple):
    """A box at a pixel: the run that it is about, if any, and its lines, the first one strong."""

    run: RunStyle | None
    at: QPointF
    lines: tuple[str, ...]


class SurfaceReader:
    """Reads the paths of ``runs`` over ``heights``. ``labels`` are the metrics' names for people."""

    def __init__(self, heights: Heights, labels: dict[str, str], runs: Sequence[RunStyle], paths: Paths) -> None:
        self._heights, self._runs, self._paths = heights, runs, paths
        x, y, loss = (labels.get(name, name) for name in (*heights.spec.metrics, heights.spec.metric))
        self.names = (x, y, loss)

    def heads(self) -> tuple[PathHead, ...]:
        """Returns where each run is now."""
        found = (self.head(run) for run in self._runs)
        return tuple(head for head in found if head is not None)

    def start(self) -> tuple[float, float] | None:
        """Returns where the first of the runs began."""
        heads = (self.head(run, 0) for run in self._runs)
        return next(((head.x, head.y) for head in heads if head is not None), None)

    def head(self, run: RunStyle, index: int | None = None) -> PathHead | None:
        """Returns where a run was at one of its values, by default at the last one that is drawn."""
        pair, walk = self._paths.pair(run), self._paths.walk(run.run_id)
        if pair is None:
            return None
        x, y = pair
        size = min(len(x), len(y))
        last = min(walk.trail.taken, size) if walk is not None else size
        at = last - 1 if index is None else index
        if not 0 <= at < size:
            return None
        step = float(x.steps[at])
        losses = run.history.pyramid(self._heights.spec.metric)
        sample = losses.at(step) if losses is not None else None
        loss = sample.value if sample is not None and sample.step == step else None
        return PathHead(run, step, float(x.values[at]), float(y.values[at]), loss)

    def note(self) -> str:
        """A sentence about runs that leave the picture; empty when all stay."""
        left = []
        for run in self._runs:
            walk, pair = self._paths.walk(run.run_id), self._paths.pair(run)
            if walk is not None and pair is not None and walk.trail.outside is not None:
                left.append((run, float(pair[0].steps[walk.trail.outside])))
        if not left:
            return ""
        run, step = left[0]
        more = f" So {'does' if len(left) == 2 else 'do'} {len(left) - 1} more." if len(left) > 1 else ""
        return f"{run.label} leaves the map at step {count_text(step)}; zoom out to follow.{more}"

    def summary(self, note: str) -> str:
        """The picture in words."""
        heads = {head.run.run_id: head for head in self.heads()}
        if not heads:
            return "No run has values yet."
        parts = []
        for run in prominent(self._runs, _SPOKEN):
            if run.run_id in heads:
                head = heads[run.run_id]
                parts.append(f"{run.label} at step {count_text(head.step)}: {self._place(head)}{self._loss(head)}.")
        return " ".join([*parts, note]).strip()

    def _place(self, head: PathHead) -> str:
        return f"{self.names[0]} {value_text(head.x)}, {self.names[1]} {value_text(head.y)}"

    def _loss(self, head: PathHead) -> str:
        return f", {self.names[2].lower()} {value_text(head.loss)}" if head.loss is not None else ""

    def read(self, at: QPointF, frame: Frame) -> Reading | None:
        """The nearest point of a path, or else the surface itself; None beside the map."""
        box = frame.box
        if not (box.x <= at.x() <= box.right and box.y <= at.y() <= box.bottom):
            return None
        near = [(found, run) for run in self._runs if (found := self._nearest(run, at)) is not None]
        if near:
            (_, index), run = min(near, key=lambda item: (item[0][0], not item[1].selected))
            return self.read_run(run, index, frame)
        x, y = frame.place(at.x(), at.y())
        height = self._heights.at(x, y)
        value = value_text(height) if height is not None else "is not on the map here"
        place = f"{self.names[0]} {value_text(x)}, {self.names[1]} {value_text(y)}"
        return Reading(None, at, (f"{self.names[2]} {value}", place))

    def _nearest(self, run: RunStyle, at: QPointF) -> tuple[float, int] | None:
        walk = self._paths.walk(run.run_id)
        found = walk.trail.nearest(at.x(), at.y()) if walk is not None else None
        return found if found is not None and found[0] <= _NEAR else None

    def read_run(self, run: RunStyle, index: int, frame: Frame) -> Reading | None:
        """Reads out one run at one of its values."""
        head = self.head(run, index)
        if head is None:
            return None
        lines = (run.label, f"Step {count_text(head.step)}{self._loss(head)}", self._place(head))
        return Reading(run, QPointF(*frame.at(head.x, head.y)), lines)
