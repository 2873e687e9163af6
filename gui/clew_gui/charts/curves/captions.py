"""Captions of the curves: at goals, events and breaks, and at the expected curve. None lies on another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.charts.curves.layout import CurvesLayout, in_sight
from clew_gui.charts.curves.readout import x_text
from clew_gui.charts.kit.drawing import finite_pieces
from clew_gui.charts.kit.layout import Box, FloatArray, emptiest

_HEIGHT: Final = 18.0
_AIR: Final = 8.0
_MARK: Final = 7.0
"""Half the size of a mark, in pixels."""


@dataclass(frozen=True)
class Caption:
    """A text in its box; ``ground`` clears what lies under it."""

    box: Box
    text: str
    ink: str
    ground: bool = True


@dataclass(frozen=True)
class _CaptionRequest:
    """A text with the upper left corners at which it may be, the best first."""

    text: str
    ink: str
    corners: tuple[tuple[float, float], ...]
    ground: bool = True


def captions(layout: CurvesLayout, index: int) -> list[Caption]:
    """The captions of one plot. Those about trouble are placed first; those that find no room are left out."""
    kinds = (_breaks, _goals, _events, _expected, _metrics)
    placements = [one for kind in kinds for one in kind(layout, index)]
    if not placements:
        return []
    points, room = np.concatenate([layout.points_of(index), *_marks(layout, index)]), layout.frames[index].box
    found: list[Caption] = []
    for wanted in placements:
        wide = layout.sizes.width(wanted.text) + _AIR
        spots = [Box(x, y, wide, _HEIGHT) for x, y in wanted.corners]
        chosen = emptiest(spots, points, room, taken=[one.box for one in found])
        if chosen >= 0:
            found.append(Caption(spots[chosen], wanted.text, wanted.ink, wanted.ground))
    return found


def _marks(layout: CurvesLayout, index: int) -> Iterator[FloatArray]:
    """Pixels of the marks on the lines."""
    plot, frame = layout.scene.plots[index], layout.frames[index]
    places = [item.curve.end for item in plot.curves if layout.has_dot(item, frame)]
    places += [item.curve.best for item in plot.curves]
    for event, step in layout.scene.events:
        curve = plot.headline(event.run_id)
        places.append(curve.at(step) if curve is not None else None)
    around = np.array([(dx, dy) for dx in (-_MARK, 0.0, _MARK) for dy in (-_MARK, 0.0, _MARK)])
    for place in places:
        if place is not None:
            yield around + np.array(frame.at(*place))
    if plot.ghost is not None and plot.ghost[0].size:
        x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
        dense = np.linspace(x.min(), x.max(), 400)
        yield np.column_stack((dense, np.interp(dense, x, y)))


def _metrics(layout: CurvesLayout, index: int) -> Iterator[_CaptionRequest]:
    """Names each metric of a plot with several at its curve's end, for one run."""
    plot, frame = layout.scene.plots[index], layout.frames[index]
    alone = len({item.run.run_id for item in plot.curves}) == 1
    mine = [item for item in plot.curves if alone or item.run.selected]
    if len({item.curve.metric for item in mine}) < 2:
        return
    for item in mine:
        end = item.curve.end
        if end is None or not in_sight(frame, *end):
            continue
        text = plot.setup.label(item.curve.metric)
        column, row = frame.column(end[0]), frame.row(end[1])
        left = column - layout.sizes.width(text) - _AIR - 10
        corners = (
            *((column + 8, row + by) for by in (-9.0, -18.0, 0.0)),
            *((left + back, row + by) for back in (0.0, -40.0) for by in (-22.0, 4.0, -34.0, 16.0)),
        )
        yield _CaptionRequest(text, layout.colour(item.run), corners)


def _beside(column: float, away: float, wide: float, tops: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((x, top) for top in tops for x in (column + away, column - away - wide))


def _breaks(layout: CurvesLayout, index: int) -> Iterator[_CaptionRequest]:
    """Labels the points where a curve became NaN or infinite."""
    frame = layout.frames[index]
    for item in layout.scene.plots[index].curves:
        at = layout.broken(item, frame)
        if at is not None:
            where = x_text(layout.scene.x_value(at[0]), layout.scene.grid.unit)
            text = f"Diverged at {where[0].lower()}{where[1:]}"
            tops = [at[1] - 9 + by for by in (0.0, -20.0, 20.0, -40.0, 40.0)]
            corners = _beside(frame.column(at[0]), 9, layout.sizes.width(text) + _AIR, tops)
            yield _CaptionRequest(text, layout.theme.bad, corners)


def _events(layout: CurvesLayout, index: int) -> Iterator[_CaptionRequest]:
    """Labels the run's events, in the lowest plot."""
    frame = layout.frames[index]
    if index < len(layout.frames) - 1:
        return
    for event, x in layout.scene.events:
        column = frame.column(x)
        if frame.box.x <= column <= frame.box.right:
            ink = layout.theme.bad if event.bad else layout.theme.text2
            foot, wide = frame.box.bottom - 20, layout.sizes.width(event.text) + _AIR
            sides = _beside(column, 4, wide, (foot, foot - 20, frame.box.y + 2))
            fits = column + 4 + wide <= frame.box.right  # left of its line it would seem to be the one before's
            yield _CaptionRequest(event.text, ink, sides[::2] if fits else sides[1::2])


def _goals(layout: CurvesLayout, index: int) -> Iterator[_CaptionRequest]:
    """Labels each goal, on its own line: beside a line a text may be taken for that of the next one. Goals at the same
    value share a text."""
    box, frame = layout.frames[index].box, layout.frames[index]
    for text, at in dict.fromkeys(layout.goals(layout.scene.plots[index])):
        top = min(max(frame.row(at) - _HEIGHT / 2, box.y), box.bottom - _HEIGHT)
        room = max(box.width - layout.sizes.width(text) - _AIR - 32, 0.0)
        corners = tuple((box.x + 12 + part * room, top) for part in (1.0, 0.0, 0.75, 0.5, 0.25))
        yield _CaptionRequest(text, layout.theme.ok, corners)


def _expected(layout: CurvesLayout, index: int) -> Iterator[_CaptionRequest]:
    """Labels the expected curve, which is drawn while nothing has run."""
    plot, frame = layout.scene.plots[index], layout.frames[index]
    if plot.ghost is None or not plot.ghost[0].size or plot.setup.ghost is None:
        return
    x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
    first = next(finite_pieces(np.isfinite(y)), None)  # the first of several curves has the name
    if first is None:
        return
    x, y = x[first], y[first]
    corners = []
    for part in (0.62, 0.5, 0.38, 0.25):
        left = frame.box.x + part * frame.box.width
        height = float(np.interp(left, x, y))
        corners += [(left, height - 34), (left, height + 16)]
    yield _CaptionRequest(plot.setup.ghost.text, layout.theme.text3, tuple(corners), ground=False)
