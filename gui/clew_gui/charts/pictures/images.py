"""The form "images": images of one size in rows, with their classes and the model's answers."""

from __future__ import annotations

from typing import Final

import numpy as np

from clew_gui.base.tokens import FontKind
from clew_gui.charts.kit.drawing import Drawing
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.pictures.taken import answered, grid_columns, integers, pixels
from clew_gui.charts.pictures.tile import Tile
from clew_shared.exporters.tensorboard import in_rows
from clew_shared.journal.events import Image

_LABEL: Final = 15.0
"""The height of the text below an image: its class and the model's answer."""
_GAP: Final = 3.0
_LEAST: Final = 14.0
"""The height below which an image with words is not worth seeing: then fewer are shown."""
_APART: Final = 8.0
"""The pixels between the texts below two images."""
_LONGEST: Final = 170.0
"""The width at which words below an image are cut off: names of folders may be of any length."""
_SMALLEST_APART: Final = 24.0
"""The size below which images, those of a manifold for example, are almost side by side."""


_MANY: Final = 1024
"""The number of images above which they are drawn as one, so that a page of a report stays small."""


class Images:
    """Images of one size in rows, as large as they fit, with the names of their classes below."""

    def __init__(self, tile: Tile, image: Image) -> None:
        self._tile, self.image = tile, image
        self._pixels = pixels(image)
        self._answered = answered(tile.taken.spec, image)
        room, count = tile.room, max(image.count, 1)
        below = _LABEL if self._answered else 0.0
        size = float(image.width), float(image.height)
        wanted = tile.taken.spec.columns
        if not wanted:
            wanted = grid_columns(count, size, (room.width, room.height), below + _GAP)
        words = self._widest() + _APART if below else 0.0
        self.columns = max(1, min(wanted, count, int(room.width // words) if words else count))
        self._gap = _GAP if room.width / self.columns >= _SMALLEST_APART else 1.0
        self._shown = count
        if below and count * (_LEAST + below + self._gap) > self.columns * room.height:  # few to see, not many specks
            fits = int((room.height - _LABEL) // (_LEAST + below + self._gap))
            self._shown = min(count, self.columns * max(fits, 1))
        rows = -(-self._shown // self.columns)
        across = (room.width - self._gap * (self.columns - 1)) / (self.columns * size[0])
        high = room.height - (_LABEL if self._shown < count else 0.0)
        down = (high - rows * below - self._gap * (rows - 1)) / (rows * size[1])
        scale = max(min(across, down), 0.01)
        self._cell = (scale * size[0], scale * size[1])
        self._below = below
        self._pitch = max(self._cell[0] + self._gap, words)
        wide = self.columns * self._pitch - self._gap
        self._corner = room.x + max(0.0, 0.5 * (room.width - wide)), room.y

    def _widest(self) -> float:
        """The width of the longest words below an image, as far as they are to have room."""
        said = ((_said(*pair), _kind(*pair)) for pair in set(self._answered))
        return min(max((self._tile.sizes.width(text, kind) for text, kind in said), default=0.0), _LONGEST)

    def box(self, number: int) -> Box:
        """Returns the rectangle of image ``number``."""
        row, column = divmod(number, self.columns)
        wide, high = self._cell
        left = self._corner[0] + column * self._pitch + 0.5 * (self._pitch - self._gap - wide)
        return Box(left, self._corner[1] + row * (high + self._gap + self._below), wide, high)

    def _extent(self, rows: int) -> tuple[float, float]:
        """Width and height of all images together."""
        return self.columns * self._pitch, rows * (self._cell[1] + self._gap + self._below)

    def draw(self, drawing: Drawing) -> None:
        """Add the images; their pixels stay sharp if they are enlarged. Very many are one image, without words."""
        theme, smooth = drawing.theme, self._cell[0] < self.image.width
        if self._shown > _MANY:
            rows, shown = -(-self._shown // self.columns), self._pixels[: self._shown]
            drawing.image(Box(*self._corner, *self._extent(rows)), in_rows(shown, self.columns), smooth)
            return
        for number in range(self._shown):
            drawing.image(self.box(number), self._pixels[number], smooth)
        if self._shown < self.image.count:
            room, more = self._tile.room, f"and {self.image.count - self._shown:,} more"
            drawing.text(room.right, room.bottom - 0.5 * _LABEL, more, theme.text2, across="right")
        for number, (true, answer) in enumerate(self._answered[: self._shown]):
            box, ink = self.box(number), theme.text2 if true == answer else theme.bad
            at, text, kind = (box.across, box.bottom + 0.5 * _LABEL), _said(true, answer), _kind(true, answer)
            drawing.text(*at, text, ink, kind, across="middle", room=self._pitch)

    def read(self, x: float, y: float) -> str:
        """The number of an image; its class and the answer."""
        found = next((k for k in range(self._shown) if self.box(k).holds(x, y)), None)
        if found is None:
            return ""
        if not self._answered:
            return f"image {found + 1}"
        true, answer = self._answered[found]
        return f"{true}, answer {answer}" if self.image.answers else true

    def description(self) -> str:
        """Says how many images there are, and how many are answered wrongly."""
        image = self.image
        text = f"{image.count:,} images of {image.width} × {image.height} pixels"
        if not image.answers:
            return text
        wrong = np.count_nonzero(integers(image.classes) != integers(image.answers))
        return f"{text}, {wrong:,} of them answered wrongly"


def _said(true: str, answer: str) -> str:
    """Returns the text below an image: its class, and the answer if that is another one."""
    return true if true == answer else f"{true} → {answer}"


def _kind(true: str, answer: str) -> FontKind:
    return "caption" if true == answer else "captionStrong"
