"""The shapes that a chart consists of, the ``Drawing`` that collects them, and what every chart can do. No Qt.

``views/charts`` paints a drawing on the screen and into pictures, ``svg.py`` writes it as text: what a chart looks like
is said once, where it is laid out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from clew_gui.base.tokens import BOLD, FONT_FACTORS, FontKind, Theme
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span, within, zoomed

Across = Literal["left", "middle", "right"]
"""The part of a text that is at its x."""
Down = Literal["top", "middle", "bottom"]
"""The part of a text that is at its y."""
Shape = Literal["dot", "square", "triangle", "diamond", "star", "cross"]
RUN_WIDTH: Final = 1.8
SELECTED_WIDTH: Final = 2.2
OTHER_WIDTH: Final = 1.2
"""Pixels of a run's line: of any run, of the one that stands out, and of lines that stand back."""


@dataclass(frozen=True)
class Stroke:
    """A line's look. ``dash`` is in pixels, on and off in turn, ``dashed`` of which are already there before it; a
    ``crisp`` line is not smoothed."""

    colour: str
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    crisp: bool = False
    dashed: float = 0.0


@dataclass(frozen=True, eq=False)
class Path:
    """A polyline through finite points; with ``fill`` a closed area."""

    x: FloatArray
    y: FloatArray
    stroke: Stroke | None = None
    fill: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, eq=False)
class Rectangle:
    """A filled rectangle. Smooth ones may begin between two pixels."""

    box: Box
    fill: str
    opacity: float = 1.0
    edge: Stroke | None = None
    radius: float = 0.0
    smooth: bool = True


@dataclass(frozen=True, eq=False)
class Marks:
    """Small shapes, each ``size`` wide, at points. ``edge`` surrounds them, so that they can be seen on a line."""

    x: FloatArray
    y: FloatArray
    fill: str
    size: float
    shape: Shape = "dot"
    edge: Stroke | None = None
    opacity: float = 1.0


@dataclass(frozen=True, eq=False)
class Words:
    """A line of text. A ``halo`` of that colour keeps it readable over anything; a ``turned`` one runs upwards."""

    x: float
    y: float
    text: str
    colour: str
    kind: FontKind = "caption"
    across: Across = "left"
    down: Down = "middle"
    halo: str = ""
    turned: bool = False


@dataclass(frozen=True, eq=False)
class Raster:
    """An image of bytes: rows, columns, and one channel (grey) or three."""

    box: Box
    pixels: npt.NDArray[np.uint8]
    smooth: bool = False


@dataclass(frozen=True, eq=False)
class Group:
    """Shapes that are moved by ``shift``, of which only what lies in the ``clip`` is shown; in an SVG document words
    and images are shown whole."""

    items: tuple[Item, ...]
    clip: Box | None = None
    shift: tuple[float, float] = (0.0, 0.0)


Item = Path | Rectangle | Marks | Words | Raster | Group


def corners(shape: Shape) -> tuple[tuple[float, float], ...]:
    """The corners of a shape in a square of side 1 around 0; none of a dot."""
    match shape:
        case "dot":
            return ()
        case "square":
            return ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
        case "triangle":
            return ((0.0, -0.5), (0.5, 0.5), (-0.5, 0.5))
        case "diamond":
            return ((0.0, -0.5), (0.385, 0.0), (0.0, 0.5), (-0.385, 0.0))
        case "star":
            radii = [0.5 if k % 2 == 0 else 0.21 for k in range(10)]
            return tuple((math.sin(k * math.pi / 5) * r, -math.cos(k * math.pi / 5) * r) for k, r in enumerate(radii))
        case "cross":
            near, far, tip = 0.19, 0.33 + 0.095, 0.33 - 0.095
            arm = ((0.0, -near), (tip, -far), (far, -tip))
            return tuple(
                (x * cos - y * sin, x * sin + y * cos)
                for cos, sin in ((1, 0), (0, 1), (-1, 0), (0, -1))
                for x, y in arm
            )


class TextSizes(Protocol):
    """Measures text: by the window's fonts, or by a table where there are none."""

    def width(self, text: str, kind: FontKind = "caption") -> float:
        """Pixels of a line of text."""

    def height(self, kind: FontKind = "caption") -> float:
        """Pixels of a line from the highest letter to the lowest."""

    def size(self, kind: FontKind = "caption") -> float:
        """The font's size in pixels."""


_NARROW: Final = frozenset("iljI.,:;'|!()[]{}ftr ·")
_WIDE: Final = frozenset("mwMW%@→…–×")
_BODY: Final = 13.0


class UsualSizes:
    """Text as wide as it usually is in Inter, for reports that are made without fonts."""

    def width(self, text: str, kind: FontKind = "caption") -> float:
        """Counts letters as narrow, wide or usual ones."""
        ems = sum(0.33 if letter in _NARROW else 0.92 if letter in _WIDE else 0.6 for letter in text)
        return ems * self.size(kind) * (1.05 if kind in BOLD else 1.0)

    def height(self, kind: FontKind = "caption") -> float:
        """The usual height of a line."""
        return 1.21 * self.size(kind)

    def size(self, kind: FontKind = "caption") -> float:
        """The size in the window at its usual scale."""
        return _BODY * FONT_FACTORS.get(kind, 1.0)


class Drawing:
    """Collects the shapes of a chart, the lowest first, in a theme's colours."""

    def __init__(self, theme: Theme, sizes: TextSizes) -> None:
        self.theme, self.sizes = theme, sizes
        self.items: list[Item] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: Stroke) -> None:
        """A straight line."""
        self.path([x1, x2], [y1, y2], stroke)

    def path(self, x: FloatArray | Sequence[float], y: FloatArray | Sequence[float], stroke: Stroke) -> None:
        """A polyline, interrupted where a point is not finite."""
        across, down = np.asarray(x, np.float64), np.asarray(y, np.float64)
        for piece in finite_pieces(np.isfinite(across) & np.isfinite(down)):
            self.items.append(Path(across[piece], down[piece], stroke))

    def band(self, x: FloatArray, low: FloatArray, high: FloatArray, fill: str, opacity: float) -> None:
        """The area between two lines over the same x, where all three are finite."""
        for piece in finite_pieces(np.isfinite(x) & np.isfinite(low) & np.isfinite(high)):
            there, back = slice(piece.start, piece.stop), slice(None, None, -1)
            around, ends = np.concatenate([x[there], x[there][back]]), np.concatenate([high[there], low[there][back]])
            self.items.append(Path(around, ends, None, fill, opacity))

    def rect(
        self,
        box: Box,
        fill: str,
        opacity: float = 1.0,
        *,
        edge: Stroke | None = None,
        radius: float = 0.0,
        smooth: bool = True,
    ) -> None:
        """A rectangle."""
        self.items.append(Rectangle(box, fill, opacity, edge, radius, smooth))

    def marks(
        self,
        x: FloatArray | Sequence[float],
        y: FloatArray | Sequence[float],
        fill: str,
        size: float,
        *,
        shape: Shape = "dot",
        edge: Stroke | None = None,
        opacity: float = 1.0,
    ) -> None:
        """Small shapes of one look at points that are finite."""
        across, down = np.asarray(x, np.float64), np.asarray(y, np.float64)
        good = np.isfinite(across) & np.isfinite(down)
        if good.any():
            self.items.append(Marks(across[good], down[good], fill, size, shape, edge, opacity))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "",
        kind: FontKind = "caption",
        *,
        across: Across = "left",
        down: Down = "middle",
        halo: str = "",
        turned: bool = False,
        room: float = 0.0,
    ) -> None:
        """A line of text, by default in the colour of captions; cut off if it is wider than ``room``."""
        shown = self.elided(text, room, kind) if room else text
        if shown:
            self.items.append(Words(x, y, shown, colour or self.theme.text3, kind, across, down, halo, turned))

    def paragraph(self, box: Box, text: str, colour: str, kind: FontKind = "body", *, across: Across = "left") -> None:
        """Text in as many lines as fit into a box; the last of them ends with … if there is more."""
        x = {"left": box.x, "middle": box.across, "right": box.right}[across]
        high = self.sizes.height(kind) + 1
        most = max(int((box.height + 0.5) // high), 1)
        lines = wrapped(text, lambda line: self.sizes.width(line, kind) <= box.width)
        for number, line in enumerate(lines[:most]):
            last = number == most - 1 and len(lines) > most
            shown = self.elided(" ".join(lines[number:]), box.width, kind) if last else line
            self.text(x, box.y + number * high, shown, colour, kind, across=across, down="top")

    def image(self, box: Box, pixels: npt.NDArray[np.uint8], smooth: bool = False) -> None:
        """An image, stretched over a box."""
        self.items.append(Raster(box, pixels, smooth))

    @contextmanager
    def clipped(self, box: Box) -> Iterator[None]:
        """What is drawn inside of this block is shown in the box only."""
        outside, self.items = self.items, []
        try:
            yield
        finally:
            outside.append(Group(tuple(self.items), box))
            self.items = outside

    def width(self, text: str, kind: FontKind = "caption") -> float:
        """Pixels of a line of text."""
        return self.sizes.width(text, kind)

    def elided(self, text: str, room: float, kind: FontKind = "caption") -> str:
        """The text, cut with … if it is wider than ``room``; empty if not even a letter fits."""
        if self.sizes.width(text, kind) <= room:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (
                (middle, high) if self.sizes.width(text[:middle].rstrip() + "…", kind) <= room else (low, middle - 1)
            )
        return text[:low].rstrip() + "…" if low else ""


def widest(sizes: TextSizes, texts: Sequence[str], kind: FontKind = "caption") -> float:
    """Pixels of the widest of some lines; 0 for none."""
    return max((sizes.width(text, kind) for text in texts), default=0.0)


def rgb(colour: str) -> FloatArray:
    """The parts of a colour ``#rrggbb``, from 0 to 255."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float64)


def wrapped(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The lines of a text between whose words it may be broken."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and fits(longer):
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def finite_pieces(good: npt.NDArray[np.bool_]) -> Iterator[slice]:
    """Slices of neighbours that are all good."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(np.int8), [0]])))
    yield from (slice(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True))


# --- The protocol of charts -------------------------------------------------------------------------------------------


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

    def description(self) -> str:
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
