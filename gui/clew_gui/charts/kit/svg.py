"""Writes a drawing as SVG: attributes only, no style sheets, scripts or clip paths, so that a browser and Qt's renderer
show the same picture."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.base.tokens import BOLD
from clew_gui.charts.kit.clip import clip_lines
from clew_gui.charts.kit.drawing import Group, Item, Marks, Path, Raster, Rectangle, Stroke, TextSizes, Words, corners
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_shared.base.harmless import for_html
from clew_shared.exporters.tensorboard import png

_ANCHORS: Final = {"left": "start", "middle": "middle", "right": "end"}
_BASELINES: Final = {"top": 0.95, "middle": 0.36, "bottom": -0.22}
"""How far below its y the base of a text is, in sizes of its font."""


@dataclass(frozen=True)
class ChartPage:
    """What goes into a file: shapes on ``ground``, in ``width`` by ``height`` pixels, with a title and a text for
    people who cannot see them."""

    width: float
    height: float
    items: Sequence[Item]
    title: str
    description: str
    ground: str

    def svg(self, sizes: TextSizes) -> str:
        """The page as a complete SVG document."""
        width, height = f"{self.width:g}", f"{self.height:g}"
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        view = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" xml:space="preserve"'
        fonts = 'font-family="Inter, Helvetica, Arial, sans-serif"'
        said = f"<title>{for_html(self.title)}</title>"
        said += f"<desc>{for_html(self.description)}</desc>" if self.description else ""
        ground = f'<rect width="{width}" height="{height}" fill="{self.ground}"/>'
        return f"<svg {names} {view} {fonts}>{said}{ground}{''.join(_written(self.items, sizes))}</svg>"


def _written(items: Sequence[Item], sizes: TextSizes, clip: Box | None = None) -> Iterator[str]:
    """Shapes as elements. What is clipped is cut here, because Qt's renderer knows no clip paths."""
    for item in items:
        match item:
            case Path():
                yield from _path(item, clip)
            case Rectangle():
                yield _rectangle(item, clip)
            case Marks():
                yield from _marks(item, clip)
            case Words():
                yield _words(item, sizes.size(item.kind))
            case Raster():
                yield _raster(item)
            case Group():
                inside = _written(item.items, sizes, _within(item, clip))
                if item.shift == (0.0, 0.0):
                    yield from inside
                else:
                    yield f'<g transform="translate({item.shift[0]:g} {item.shift[1]:g})">{"".join(inside)}</g>'


def _words(item: Words, size: float) -> str:
    y = item.y + _BASELINES[item.down] * size
    turn = f' transform="rotate(-90 {item.x:.1f} {item.y:.1f})"' if item.turned else ""
    weight = ' font-weight="600"' if item.kind in BOLD else ""
    place = f'x="{item.x:.1f}" y="{y:.1f}" font-size="{size:.1f}" text-anchor="{_ANCHORS[item.across]}"'
    text = for_html(item.text)
    halo = f' stroke="{item.halo}" stroke-width="3.5" stroke-linejoin="round"'
    below = f'<text {place}{weight}{turn} fill="{item.halo}"{halo}>{text}</text>' if item.halo else ""
    return f'{below}<text {place}{weight}{turn} fill="{item.colour}">{text}</text>'


def _within(group: Group, outer: Box | None) -> Box | None:
    """What of a group is shown, in its own coordinates, where only ``outer`` of what it is in is shown."""
    if outer is None:
        return group.clip
    dx, dy = group.shift
    outer = Box(outer.x - dx, outer.y - dy, outer.width, outer.height)
    return outer if group.clip is None else group.clip.within(outer)


def _stroke(stroke: Stroke | None) -> str:
    if stroke is None:
        return ""
    dash = f' stroke-dasharray="{" ".join(f"{part:g}" for part in stroke.dash)}"' if stroke.dash else ""
    faint = f' stroke-opacity="{stroke.opacity:g}"' if stroke.opacity < 1 else ""
    crisp = ' shape-rendering="crispEdges"' if stroke.crisp else ""
    return f' stroke="{stroke.colour}" stroke-width="{stroke.width:g}"{faint}{dash}{crisp}'


def _faint(opacity: float) -> str:
    return f' fill-opacity="{opacity:g}"' if opacity < 1 else ""


def _points(x: FloatArray, y: FloatArray) -> str:
    return "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _path(item: Path, clip: Box | None) -> Iterator[str]:
    if item.fill:
        x, y = item.x, item.y
        if clip is not None:
            x, y = np.clip(x, clip.x, clip.right), np.clip(y, clip.y, clip.bottom)
        yield f'<path d="M{_points(x, y)}Z" fill="{item.fill}"{_faint(item.opacity)}/>'
        return
    pieces = [(item.x, item.y)] if clip is None else clip_lines(item.x, item.y, clip)
    for x, y in pieces:
        yield f'<path d="M{_points(x, y)}" fill="none" stroke-linejoin="round"{_stroke(item.stroke)}/>'


def _rectangle(item: Rectangle, clip: Box | None) -> str:
    box = item.box if clip is None else item.box.within(clip)
    if box.width <= 0 or box.height <= 0:
        return ""
    round_corners = f' rx="{item.radius:g}"' if item.radius else ""
    fill = item.fill or "none"
    return f'<rect {_box(box)}{round_corners} fill="{fill}"{_faint(item.opacity)}{_stroke(item.edge)}/>'


def _box(box: Box) -> str:
    return f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'


def _marks(item: Marks, clip: Box | None) -> Iterator[str]:
    look = f'fill="{item.fill or "none"}"{_faint(item.opacity)}{_stroke(item.edge)}'
    half, outline = 0.5 * item.size, corners(item.shape)
    for x, y in zip(item.x.tolist(), item.y.tolist(), strict=True):
        if clip is None or clip.holds(x, y):
            if item.shape == "dot":
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{half:g}" {look}/>'
            else:
                path = "L".join(f"{x + item.size * dx:.1f} {y + item.size * dy:.1f}" for dx, dy in outline)
                yield f'<path d="M{path}Z" {look}/>'


def _raster(item: Raster) -> str:
    data = base64.b64encode(png(item.pixels)).decode()
    sharp = "" if item.smooth else ' image-rendering="pixelated"'
    stretch = ' preserveAspectRatio="none"'
    return f'<image {_box(item.box)}{sharp}{stretch} xlink:href="data:image/png;base64,{data}"/>'
