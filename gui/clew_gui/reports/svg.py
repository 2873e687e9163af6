"""Draws a report's figures: a plot's frame, ticks, curves and legend as SVG, without Qt.

Only attributes are used, no style sheets and no scripts: a browser and Qt's SVG renderer draw the same picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.axes.ticks import Span, Tick
from clew_shared.base.harmless import for_html

Floats = npt.NDArray[np.float64]

WIDTH: Final = 760
HEIGHT: Final = 270
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 40
COLOURS: Final = ("#2F5BD7", "#F0690F", "#003C1E", "#D269B4", "#96875A", "#5A0F69")
"""The curve colours of the window's light theme, which were chosen for colour-blind eyes."""
_DASHES: Final = ("", "7 4", "2 3", "9 3 2 3")
LETTER: Final = 6.6
"""Usual width of a letter in pixels."""
INK, FAINT, GRID = "#18202B", "#5F6A7A", "#E3E7EE"


class ReportFigure(NamedTuple):
    """A picture with its caption; ``height`` in pixels for a width of ``WIDTH``. ``table`` belongs to it: heads, then
    rows."""

    title: str
    caption: str
    svg: str
    height: int = HEIGHT
    table: tuple[tuple[str, ...], ...] = ()


class SvgAxes:
    """A plot's frame, ticks and clip, and the mapping from values to pixels."""

    def __init__(self, x: Span, y: Span, height: int = HEIGHT, *, log_x: bool = False, log_y: bool = False) -> None:
        self._x, self._y, self._log = x, y, (log_x, log_y)
        self._height = height
        self.parts: list[str] = []
        self._levels: list[tuple[float, float]] = []

    @property
    def _bottom(self) -> int:
        return self._height - BOTTOM

    def across(self, x: Floats) -> Floats:
        """Pixels from the left."""
        place = np.log10(x) if self._log[0] else x
        return LEFT + (place - self._x.low) / self._x.size * (WIDTH - LEFT - RIGHT)

    def down(self, y: Floats) -> Floats:
        """Pixels from the top; what is above or below the axis is drawn at its end."""
        with np.errstate(divide="ignore", invalid="ignore"):
            place = np.log10(y) if self._log[1] else y
        part = (place - self._y.low) / self._y.size
        return self._bottom - np.clip(part, 0.0, 1.0) * (self._bottom - TOP)

    def ticks(self, x: Sequence[Tick], y: Sequence[Tick], x_title: str, y_title: str = "") -> None:
        """Grid lines with their numbers, and the titles of the axes."""
        for tick in y:
            at = self._bottom - (tick.at - self._y.low) / self._y.size * (self._bottom - TOP)
            self.parts.append(draw_line(LEFT, at, WIDTH - RIGHT, at, GRID))
            self.parts.append(draw_text(LEFT - 8, at + 4, tick.text, "end"))
        for tick in x:
            at = LEFT + (tick.at - self._x.low) / self._x.size * (WIDTH - LEFT - RIGHT)
            self.parts.append(draw_line(at, self._bottom, at, self._bottom + 4, FAINT))
            self.parts.append(draw_text(at, self._bottom + 17, tick.text, "middle"))
        self.parts.append(draw_line(LEFT, self._bottom, WIDTH - RIGHT, self._bottom, FAINT))
        self.parts.append(draw_text((LEFT + WIDTH - RIGHT) / 2, self._height - 6, x_title, "middle"))
        if y_title:
            self.parts.append(draw_text(LEFT + 6, TOP + 12, y_title, "start"))

    def level(self, y: float, words: str) -> None:
        """A goal as a dashed line; its words are left of those of another one that is as high."""
        at = float(self.down(np.array([y]))[0])
        if TOP <= at <= self._bottom:
            self.parts.append(draw_line(LEFT, at, WIDTH - RIGHT, at, "#14773F", dash="5 4"))
            width = LETTER * len(words) + 8
            right = min([left for other, left in self._levels if abs(other - at) < 14], default=WIDTH - RIGHT)
            self._levels.append((at, right - width))
            ground = f'x="{right - width:.1f}" y="{at - 16:.1f}" width="{width:.1f}" height="14"'
            self.parts.append(f'<rect {ground} fill="#FFFFFF" fill-opacity="0.85"/>')
            self.parts.append(draw_text(right - 4, at - 4, words, "end", "#14773F"))

    def expectation(self, x: Floats, y: Floats) -> None:
        """A curve that was drawn by hand before the run."""
        inside = (x >= self._x.low) & (x <= self._x.high)
        places = zip(self.across(x[inside]).tolist(), self.down(y[inside]).tolist(), strict=True)
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        if path:
            self.parts.append(f'<path d="M{path}" fill="none" stroke="{FAINT}" stroke-dasharray="4 4"/>')

    def curve(self, x: Floats, y: Floats, number: int, marks: bool = False, pale: bool = False) -> None:
        """A line through the points that are finite, interrupted at those that are not; with dots where ``marks``."""
        colour, dash = curve_style(number)
        across, down = self.across(x), self.down(y)
        good = np.isfinite(across) & np.isfinite(down)
        for piece in _stretches(good):
            path = "L".join(
                f"{a:.1f} {b:.1f}" for a, b in zip(across[piece].tolist(), down[piece].tolist(), strict=True)
            )
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            ink = 'stroke-width="1" stroke-opacity="0.3"' if pale else 'stroke-width="1.6"'
            self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" {ink}{dashes}/>')
        if marks:
            ends = zip(across[good].tolist(), down[good].tolist(), strict=True)
            self.parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in ends]

    def band(self, x: Floats, low: Floats, high: Floats, number: int) -> None:
        """The range of a noisy curve, faint."""
        across, top, bottom = self.across(x), self.down(high), self.down(low)
        good = np.isfinite(across) & np.isfinite(top) & np.isfinite(bottom)
        if good.sum() > 1:
            there = [*zip(across[good].tolist(), top[good].tolist(), strict=True)]
            back = [*zip(across[good].tolist(), bottom[good].tolist(), strict=True)][::-1]
            path = "L".join(f"{a:.1f} {b:.1f}" for a, b in there + back)
            self.parts.append(f'<path d="M{path}Z" fill="{curve_style(number)[0]}" fill-opacity="0.16" stroke="none"/>')

    def bar(self, left: float, right: float, low: float, high: float, colour: str) -> None:
        """A rectangle between two places on each axis."""
        (x1, x2), (y2, y1) = self.across(np.array([left, right])).tolist(), self.down(np.array([low, high])).tolist()
        size = f'x="{x1:.1f}" y="{y1:.1f}" width="{max(x2 - x1, 0.5):.1f}" height="{y2 - y1:.1f}"'
        self.parts.append(f'<rect {size} fill="{colour}"/>')

    def upright(self, x: float, words: str, y: float) -> None:
        """A dashed line from top to bottom, with words at ``y`` pixels."""
        at = float(self.across(np.array([x]))[0])
        self.parts.append(draw_line(at, TOP, at, self._bottom, INK, dash="5 4"))
        right = at + 12 + LETTER * len(words) < WIDTH
        self.parts.append(draw_text(at + 6 if right else at - 6, y, words, "start" if right else "end", INK))

    def path(self, places: Sequence[tuple[float, float]], colour: str, dash: str = "") -> None:
        """A line through ``places`` on the axes."""
        if places:
            x, y = np.array(places).T
            points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(self.across(x), self.down(y), strict=True))
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            self.parts.append(f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')

    def whisker(self, x: float, low: float, y: float, high: float, colour: str) -> None:
        """A dot with its interval."""
        at = float(self.across(np.array([x]))[0])
        bottom, middle, top = self.down(np.array([low, y, high])).tolist()
        if bottom - top > 1:
            self.parts.append(draw_line(at, top, at, bottom, colour))
            self.parts += [draw_line(at - 4, end, at + 4, end, colour) for end in (top, bottom)]
        self.parts.append(f'<circle cx="{at:.1f}" cy="{middle:.1f}" r="3.5" fill="{colour}"/>')

    def svg(self, title: str, legend: Sequence[str] = ()) -> tuple[str, int]:
        """The whole picture with its legend below, and its height: names of curves in the order of their numbers."""
        return self.svg_with(title, [(name, *curve_style(number)) for number, name in enumerate(legend)])

    def svg_with(self, title: str, legend: Sequence[tuple[str, str, str]]) -> tuple[str, int]:
        """The same with the colour and the dashes of each name of the legend."""
        rows = list(_legend(legend, self._height + 12)) if len(legend) > 1 else []
        height = self._height + (18 * rows[-1][0] + 8 if rows else 0)
        body = "".join([*self.parts, *(part for _, part in rows)])
        return whole_svg(body, height, title), height


def whole_svg(body: str, height: int, title: str) -> str:
    """A complete SVG document."""
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head = f'<svg {names} width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    fonts = 'font-family="Inter, Helvetica, Arial, sans-serif" font-size="12"'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#FFFFFF"/>'
    return f'{head} role="img" {fonts}><title>{for_html(title)}</title>{ground}{body}</svg>'


def draw_line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "", width: float = 1) -> str:
    """A straight line, in pixels."""
    style = f' stroke-dasharray="{dash}"' if dash else ""
    style += f' stroke-width="{width:g}"' if width != 1 else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{style}/>'


def draw_text(x: float, y: float, words: str, anchor: str, colour: str = FAINT) -> str:
    """A text at a place in pixels."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{for_html(words)}</text>'


def fitted(words: str, width: float) -> str:
    """The words, cut to ``width`` pixels."""
    most = max(1, int(width / LETTER))
    return words if len(words) <= most else f"{words[: most - 1]}…"


def curve_style(number: int) -> tuple[str, str]:
    """Colour and dashes of a curve."""
    return COLOURS[number % len(COLOURS)], _DASHES[number // len(COLOURS) % len(_DASHES)]


def _legend(names: Sequence[tuple[str, str, str]], top: int) -> Iterator[tuple[int, str]]:
    """Yields each name with its line, as many in a row as fit, and the number of rows so far."""
    x, row = float(LEFT), 0
    for name, colour, dash in names:
        width = 44 + LETTER * len(name)
        if x > LEFT and x + width > WIDTH:
            x, row = float(LEFT), row + 1
        y = top + 18 * row
        yield row + 1, draw_line(x, y - 4, x + 24, y - 4, colour, dash, 2) + draw_text(x + 30, y, name, "start", INK)
        x += width


def _stretches(good: npt.NDArray[np.bool_]) -> Iterator[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(np.int8), [0]])))
    yield from (slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True))
