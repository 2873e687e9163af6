"""Short texts inside a plot: at goals, events and breaks, and at the curve to expect. None lies on another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from clew_gui.plotting.layout import Box, Placement
from clew_gui.plotting.pyramid import FloatArray
from clew_gui.plotting.readout import x_text

if TYPE_CHECKING:
    from clew_gui.views.plots.curves.artist import FramePainter

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
class _Wish:
    """A text with the left upper corners where it may stand, the best first."""

    text: str
    ink: str
    corners: tuple[tuple[float, float], ...]
    ground: bool = True


def captions(artist: FramePainter, index: int) -> list[Caption]:
    """The captions of one plot. What tells of trouble is placed first; what finds no place is left out."""
    wishes = (*_breaks(artist, index), *_goals(artist, index), *_events(artist, index), *_expected(artist, index))
    if not wishes:
        return []
    r = artist.frames[index].rect
    room = Box(r.left(), r.top(), r.width(), r.height())
    placement = Placement(room, np.concatenate([artist.points_of(index), *_marks(artist, index)]))
    found = []
    for wish in wishes:
        wide = artist.width_of(wish.text) + _AIR
        box = placement.take([Box(x, y, wide, _HEIGHT) for x, y in wish.corners])
        if box is not None:
            found.append(Caption(box, wish.text, wish.ink, wish.ground))
    return found


def _marks(artist: FramePainter, index: int) -> Iterator[FloatArray]:
    """Pixels of the marks on the lines."""
    plot, frame = artist.scene.plots[index], artist.frames[index]
    places = [item.curve.end for item in plot.curves if artist.has_dot(item, frame)]
    places += [item.curve.best for item in plot.curves]
    for event, step in artist.scene.events:
        curve = plot.headline(event.run_id)
        places.append(curve.at(step) if curve is not None else None)
    around = np.array([(dx, dy) for dx in (-_MARK, 0.0, _MARK) for dy in (-_MARK, 0.0, _MARK)])
    for place in places:
        if place is not None:
            yield around + np.array([frame.column(place[0]), frame.row(place[1])])
    if plot.ghost is not None and plot.ghost[0].size:
        x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
        dense = np.linspace(x.min(), x.max(), 400)
        yield np.column_stack((dense, np.interp(dense, x, y)))


def _beside(column: float, away: float, wide: float, tops: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((x, top) for top in tops for x in (column + away, column - away - wide))


def _breaks(artist: FramePainter, index: int) -> Iterator[_Wish]:
    """Where a curve stopped being a number."""
    frame = artist.frames[index]
    for item in artist.scene.plots[index].curves:
        at = artist.broken(item, frame)
        if at is not None:
            where = x_text(artist.scene.x_value(at[0]), artist.scene.grid.unit)
            text = f"NaN at {where[0].lower()}{where[1:]}"
            tops = [at[1] - 9 + by for by in (0.0, -20.0, 20.0, -40.0, 40.0)]
            corners = _beside(frame.column(at[0]), 9, artist.width_of(text) + _AIR, tops)
            yield _Wish(text, artist.theme.bad, corners)


def _events(artist: FramePainter, index: int) -> Iterator[_Wish]:
    """What happened to the run, in the lowest plot."""
    frame = artist.frames[index]
    if index < len(artist.frames) - 1:
        return
    for event, x in artist.scene.events:
        column = frame.column(x)
        if frame.rect.left() <= column <= frame.rect.right():
            ink = artist.theme.bad if event.bad else artist.theme.text2
            foot, wide = frame.rect.bottom() - 20, artist.width_of(event.text) + _AIR
            sides = _beside(column, 4, wide, (foot, foot - 20, frame.rect.top() + 2))
            fits = column + 4 + wide <= frame.rect.right()  # left of its line it would seem to be the one before's
            yield _Wish(event.text, ink, sides[::2] if fits else sides[1::2])


def _goals(artist: FramePainter, index: int) -> Iterator[_Wish]:
    """At each goal; goals so close that their texts would touch share one."""
    frame = artist.frames[index]
    groups: list[list[tuple[float, str]]] = []
    for row, text in sorted((frame.row(at), text) for text, at in artist.goals(artist.scene.plots[index])):
        if groups and row - groups[-1][-1][0] < _HEIGHT:
            groups[-1].append((row, text))
        else:
            groups.append([(row, text)])
    for group in groups:
        values = [text.removeprefix("Goal ") for _, text in group]
        text = f"Goal{'s' if len(values) > 1 else ''} {' and '.join(dict.fromkeys(values))}"
        wide = artist.width_of(text) + _AIR
        room = max(frame.rect.width() - wide - 32, 0.0)
        lefts = [frame.rect.left() + 12 + part * room for part in (1.0, 0.0, 0.75, 0.5, 0.25)]
        tops = (group[-1][0] + 3, group[0][0] - 20)
        yield _Wish(text, artist.theme.ok, tuple((x, top) for x in lefts for top in tops))


def _expected(artist: FramePainter, index: int) -> Iterator[_Wish]:
    """Beside the curve that is drawn while nothing has run."""
    plot, frame = artist.scene.plots[index], artist.frames[index]
    if plot.ghost is None or not plot.ghost[0].size or plot.setup.ghost is None:
        return
    x, y = frame.px(plot.ghost[0]), frame.py(plot.ghost[1])
    corners = []
    for part in (0.62, 0.5, 0.38, 0.25):
        left = frame.rect.left() + part * frame.rect.width()
        height = float(np.interp(left, x, y))
        corners += [(left, height - 34), (left, height + 16)]
    yield _Wish(plot.setup.ghost.text, artist.theme.text3, tuple(corners), ground=False)
