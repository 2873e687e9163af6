"""All pictures of one run as tiles beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from clew_gui.charts.kit.drawing import Chart, Drawing, TextSizes
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import count_text
from clew_gui.charts.pictures.histogram import DistributionsPicture, HistogramPicture
from clew_gui.charts.pictures.images import Images
from clew_gui.charts.pictures.planes import Network, Planes, ScatterPicture
from clew_gui.charts.pictures.tables import Bars, Shares, SurfacePicture, Table
from clew_gui.charts.pictures.taken import TakenPicture, tile_columns
from clew_gui.charts.pictures.tile import TITLE, Blank, Picture, Tile
from clew_shared.cards import PictureSpec, has_extent
from clew_shared.journal.events import Histogram, Image, Matrix
from clew_shared.journal.history import Figure

FORMS: Final[dict[str, tuple[type[Figure], Callable[[Tile, Any], Picture]]]] = {
    "images": (Image, Images),
    "scatter": (Matrix, ScatterPicture),
    "histogram": (Histogram, HistogramPicture),
    "matrix": (Matrix, Table),
    "bars": (Matrix, Bars),
    "shares": (Matrix, Shares),
    "plane": (Image, lambda tile, image: (Network if tile.taken.spec.grows else Planes)(tile, image)),
    "surface": (Matrix, SurfacePicture),
    "distributions": (Matrix, DistributionsPicture),
}
"""The event of each form of picture, and what lays it out. Exercises have no shares; what is tried with a run has."""
EMPTY: Final = "Pictures appear here as they are taken."
_GAP: Final = 18.0
_EDGE: Final = 6.0
_NAME: Final = 20.0
"""The height of the names of two runs over their pictures."""


class Beside(NamedTuple):
    """The pictures of another run to show beside those of the first: the names of both runs, and what the other took,
    with its thresholds."""

    names: tuple[str, str]
    taken: Sequence[TakenPicture]
    thresholds: Mapping[str, float]


class PicturesChart(Chart):
    """Lays out the pictures of a run. ``taken`` are the pictures to show, ``thresholds`` where those of histograms
    are, by the picture's id. The title of a picture has its step, unless that is ``step``, which is shown
    elsewhere. Those of a run ``beside`` are in the right half."""

    draws_reading = True

    def __init__(
        self,
        taken: Sequence[TakenPicture],
        box: Box,
        sizes: TextSizes,
        thresholds: Mapping[str, float] | None = None,
        step: int | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._box, self._step = box, step
        self._names = [] if beside is None else list(zip(beside.names, _halves(box), strict=True))
        self.taken = (*taken, *(beside.taken if beside is not None else ()))
        if beside is None:
            self.tiles = _tiles(taken, box, sizes, thresholds or {})
        else:
            left, right = (half.inset(0, _NAME, 0, 0) for half in _halves(box))
            self.tiles = _tiles(taken, left, sizes, thresholds or {})
            self.tiles += _tiles(beside.taken, right, sizes, beside.thresholds)
        self.forms = [picture_of(tile) for tile in self.tiles]

    def draw(self, drawing: Drawing) -> None:
        """Add everything but a read-out."""
        if not self.tiles:
            drawing.text(self._box.across, self._box.middle, EMPTY, across="middle")
        for name, half in self._names:
            at = half.x + _EDGE, half.y + 0.5 * _NAME
            drawing.text(*at, name, drawing.theme.text, "strong", room=half.width - 2 * _EDGE)
        for tile, form in zip(self.tiles, self.forms, strict=True):
            with drawing.clipped(tile.box.inset(-4, -2, -4, -4)):
                self._draw_head(drawing, tile, "")
                form.draw(drawing)

    def draw_reading(self, drawing: Drawing, x: float, y: float) -> None:
        """Adds the read-out at a pixel, over the step in the head of that picture."""
        number = self._number_at(x, y)
        words = self.forms[number].read(x, y) if number is not None else ""
        if number is None or not words:
            return
        tile = self.tiles[number]
        with drawing.clipped(tile.box.inset(-4, -2, -4, -4)):
            drawing.rect(Box(tile.box.x - 4, tile.box.y - 2, tile.box.width + 8, TITLE - 2), drawing.theme.surface)
            self._draw_head(drawing, tile, words)

    def _draw_head(self, drawing: Drawing, tile: Tile, reading: str) -> None:
        """Writes the title, and right of it the read-out, or the step."""
        theme, box, middle = drawing.theme, tile.box, tile.box.y + 0.5 * (TITLE - 4)
        figure = tile.taken.figure
        other = figure is not None and figure.step != self._step
        note = reading or (f"step {count_text(figure.step)}" if figure is not None and other else "")
        note = drawing.elided(note, 0.7 * box.width)
        drawing.text(box.right, middle, note, theme.text if reading else theme.text3, across="right")
        room = box.width - (drawing.width(note) + 12 if note else 0)
        drawing.text(box.x, middle, tile.taken.spec.title, theme.text2, "captionStrong", room=room)

    def _number_at(self, x: float, y: float) -> int | None:
        return next((k for k, tile in enumerate(self.tiles) if tile.box.holds(x, y)), None)

    def tile_at(self, x: float, y: float) -> str:
        """The id of the picture at a pixel."""
        number = self._number_at(x, y)
        return "" if number is None else self.taken[number].spec.id

    def pick(self, x: float, y: float) -> str:
        """The parameter of a network's drawing that a click changes, with the sign of the change."""
        return next((found for form in self.forms if isinstance(form, Network) and (found := form.pick(x, y))), "")

    def grip_at(self, x: float, y: float) -> str:
        """The number of the tile whose threshold is at a pixel."""
        forms = enumerate(self.forms)
        return next((str(k) for k, form in forms if isinstance(form, HistogramPicture) and form.grips(x, y)), "")

    def value_at(self, grip: str, x: float, y: float) -> tuple[float, float] | None:
        """The threshold at a pixel; None where another picture has come since the press."""
        form = self.forms[int(grip)] if int(grip) < len(self.forms) else None
        return (form.value_at(x), 0.0) if isinstance(form, HistogramPicture) else None

    def read(self, x: float, y: float) -> str:
        """What is at a pixel of a picture."""
        number = self._number_at(x, y)
        return "" if number is None else self.forms[number].read(x, y)

    def description(self) -> str:
        """The pictures in words."""
        if not self.tiles:
            return EMPTY
        parts = [" beside ".join(name for name, _ in self._names)] if self._names else []
        for tile, form in zip(self.tiles, self.forms, strict=True):
            figure = tile.taken.figure
            at = f" at step {count_text(figure.step)}" if figure is not None else ""
            parts.append(f"{tile.taken.spec.title}{at}: {form.description()}")
        return ". ".join(parts)


def picture_of(tile: Tile) -> Picture:
    """The form of a tile. A newer agent may know forms that this window does not."""
    spec, figure = tile.taken.spec, tile.taken.figure
    if spec.form not in FORMS:
        return Blank(tile, f"This version of Clew cannot show the form {spec.form[:40]!r}")
    event, form = FORMS[spec.form]
    if spec.form == "plane" and spec.grows and figure is None:  # a network without a layer takes no picture of units
        figure = Image(name=spec.id, step=0, width=1, height=1, channels=1, data=b"", count=0)
    if not isinstance(figure, event):
        return Blank(tile, "Not taken yet")
    reason = _reason(spec, figure) if spec.form in ("plane", "surface") else ""
    return Blank(tile, reason) if reason else form(tile, figure)


def _reason(spec: PictureSpec, figure: Figure | None) -> str:
    """Says why maps over a plane cannot be shown; empty when they can."""
    if not (has_extent(spec.x) and has_extent(spec.y)):
        return "Its axes have no extent"
    none = isinstance(figure, Image) and not (figure.count or spec.grows)
    flat = isinstance(figure, Matrix) and min(figure.rows, figure.columns) < 2
    return "There is nothing to show" if none or flat else ""


def _halves(box: Box) -> tuple[Box, Box]:
    wide = 0.5 * (box.width - _GAP)
    return Box(box.x, box.y, wide, box.height), Box(box.x + wide + _GAP, box.y, wide, box.height)


def _tiles(taken: Sequence[TakenPicture], box: Box, sizes: TextSizes, thresholds: Mapping[str, float]) -> list[Tile]:
    there = any(one.figure is not None for one in taken)
    square = {"plane", "surface"} & {one.spec.form for one in taken}
    boxes = _boxes(len(taken), box, 0.9 if square else 1.35) if there else []
    return [Tile(one, place, sizes, thresholds.get(one.spec.id)) for one, place in zip(taken, boxes, strict=False)]


def _boxes(count: int, box: Box, aspect: float) -> list[Box]:
    """Tiles in rows, about ``aspect`` times as wide as high; those of a row that is not full share its width."""
    columns = tile_columns(count, box.width, box.height, aspect)
    rows = [min(columns, count - first) for first in range(0, count, columns)]
    high = (box.height - 2 * _EDGE - _GAP * (len(rows) - 1)) / max(len(rows), 1)
    found = []
    for k, inside in enumerate(rows):
        wide = (box.width - 2 * _EDGE - _GAP * (inside - 1)) / inside
        top = box.y + _EDGE + k * (high + _GAP)
        found += [Box(box.x + _EDGE + place * (wide + _GAP), top, wide, high) for place in range(inside)]
    return found
