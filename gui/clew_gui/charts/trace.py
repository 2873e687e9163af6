"""The chart of traced steps: a bar of where their time goes, the timeline of threads and devices, the dearest
operations."""

from __future__ import annotations

from typing import Final

from clew_gui.base.tokens import Theme, ink_on
from clew_gui.charts.axes import FOOT, draw_foot
from clew_gui.charts.drawing import Drawing, TextSizes, widest
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.trace import Timeline, time_ticks
from clew_shared.base.number_words import counted
from clew_shared.journal.trace import KINDS, PARTS, all_seconds, dearest, kind_of, shares
from clew_shared.study.trace import left_out_words, parts_words, steps_words, time_words
from clew_shared.study.usage import share

_HEAD: Final = 20.0
_BAR: Final = 20.0
_LINE: Final = 17.0
"""The height of a line of text."""
_ROW: Final = 22.0
_LEAST_ROW: Final = 5.0
_NAMED: Final = 13.0
"""The height from which on a row has room for its name."""
_GAP: Final = 8.0
_LEFT: Final = 14.0
"""Room for the half of the first number of the axis."""
_ROWS: Final = 12
"""Rows of their whole height in a file."""
_LEAST: Final = 24.0
"""The least height of the timeline."""
_SHARE: Final = 0.45
"""The part of the height that the table takes where the timeline could use more."""
_COLOURS: Final = dict(zip(KINDS, (0, 4, 2, 9, 1, 3, 6, 7), strict=True))
_PARTS: Final = {"reduce": _COLOURS["reduce"], "input": _COLOURS["input"], "host": 5}


def height_of(timeline: Timeline) -> float:
    """Pixels that all of a trace takes in a file."""
    table = 1 + len(dearest(timeline.event))
    return _HEAD + _BAR + _LINE + _ROW * min(len(timeline), _ROWS) + FOOT + _LINE * table + 6 * _GAP


def kind_colour(theme: Theme, kind: str) -> str:
    """The colour of a kind of operations."""
    return theme.class_colour(_COLOURS[kind])


def part_colour(theme: Theme, part: str) -> str:
    """The colour of a part of a step."""
    if part in _PARTS:
        return theme.class_colour(_PARTS[part])
    return theme.accent if part == "compute" else theme.line


class TraceChart:
    """All of a trace below each other. ``shown`` is the part of its time that the timeline shows, by default all."""

    def __init__(self, timeline: Timeline, box: Box, sizes: TextSizes, shown: Span | None = None) -> None:
        self._timeline, self._event, self._sizes = timeline, timeline.event, sizes
        self._box = box.inset(4, 2, 8, 2)
        self._bar = Box(self._box.x, self._box.y + _HEAD, self._box.width, _BAR)
        top = self._bar.bottom + _LINE + _GAP
        free = self._box.bottom - top - FOOT - _GAP
        below = min(max(_SHARE * box.height, free - _ROW * len(timeline)), free - _LEAST)
        self._dearest = dearest(self._event, min(10, max(int(below / _LINE) - 1, 0)))
        table = (len(self._dearest) + 1) * _LINE if self._dearest else 0.0
        room = max(self._box.bottom - table - _GAP - FOOT - top, _LEAST)
        self._high = min(room / max(len(timeline), 1), _ROW)
        names = widest(sizes, self._event.rows) + 10 if self._high >= _NAMED else _LEFT
        left = max(min(names, 0.25 * box.width), _LEFT)
        high = max(self._high * max(len(timeline), 1), 1.0)
        self.frame = Frame(
            Box(self._box.x + left, top, max(self._box.width - left, 32.0), high),
            shown or timeline.whole,
            Span(0.0, max(len(timeline), 1)),
        )
        self._table = self.frame.box.bottom + FOOT + _GAP

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        steps = steps_words(self._event)
        drawing.text(self._box.x, self._box.y + 9, steps, drawing.theme.text, "captionStrong")
        beside = self._box.x + self._sizes.width(steps, "captionStrong") + 12
        drawing.text(beside, self._box.y + 9, left_out_words(self._event), room=self._box.right - beside)
        self._draw_bar(drawing)
        self._draw_rows(drawing)
        draw_foot(drawing, self.frame, time_ticks(self.frame.x, max(int(self.frame.box.width // 80), 2)))
        self._draw_table(drawing)

    def _draw_bar(self, drawing: Drawing) -> None:
        """The parts side by side, and below them what the colours mean."""
        theme, x, key = drawing.theme, self._bar.x, self._bar.x
        for part, size in shares(self._event).items():
            colour, wide = part_colour(theme, part), size * self._bar.width
            drawing.rect(Box(x, self._bar.y, wide, self._bar.height), colour)
            if drawing.width(share(size)) + 8 < wide:
                drawing.text(x + 0.5 * wide, self._bar.middle, share(size), ink_on(colour, theme), across="middle")
            x += wide
            words = f"{PARTS[part]} {share(size)}"
            if size >= 0.0005 and key + drawing.width(words) + 14 <= self._bar.right:
                drawing.rect(Box(key, self._bar.bottom + 5, 9, 9), colour, smooth=False)
                drawing.text(key + 14, self._bar.bottom + 10, words, theme.text2)
                key += drawing.width(words) + 30

    def _draw_rows(self, drawing: Drawing) -> None:
        theme, box, gap = drawing.theme, self.frame.box, 1.0 if self._high >= _LEAST_ROW else 0.0
        columns = max(int(box.width), 1)
        for number, name in enumerate(self._event.rows[: len(self._timeline)]):
            top = box.y + number * self._high
            drawing.rect(Box(box.x, top, box.width, self._high - gap), theme.line, 0.4, smooth=False)
            if self._high >= _NAMED:
                drawing.text(box.x - 8, top + 0.5 * self._high, name, across="right", room=box.x - self._box.x - 8)
            for one in self._timeline.stretches(number, self.frame.x, columns):
                place = Box(box.x + one.first, top, one.end - one.first, self._high - gap)
                drawing.rect(place, kind_colour(theme, one.kind), one.full, smooth=False)

    def _draw_table(self, drawing: Drawing) -> None:
        """A line for each of the dearest operations; its columns as far as they have room."""
        if not self._dearest:
            return
        theme, total, right = drawing.theme, all_seconds(self._event), self._box.right
        columns = ((right, "Share"), (right - 64, "Time"), (right - 136, "Count"))
        kind_at, middle = right - 330, self._table + 0.5 * _LINE
        wide = kind_at > self._box.x + 160
        drawing.text(self._box.x, middle, "Dearest operations", theme.text, "captionStrong")
        if wide:
            drawing.text(kind_at, middle, "Kind")
        for x, words in columns:
            drawing.text(x, middle, words, across="right")
        for one in self._dearest:
            middle += _LINE
            drawing.rect(Box(self._box.x, middle - 5, 9, 9), kind_colour(theme, one.kind), smooth=False)
            end = kind_at if wide else right - 190
            drawing.text(self._box.x + 15, middle, one.name, theme.text, room=end - self._box.x - 23)
            if wide:
                drawing.text(kind_at, middle, KINDS[one.kind], theme.text2)
            values = (share(one.seconds / total), time_words(one.seconds), f"{one.times:,}")
            for (x, _), words in zip(columns, values, strict=True):
                drawing.text(x, middle, words, theme.text2, across="right")

    def read(self, x: float, y: float) -> str:
        """The operation, or the part of a step, at a pixel."""
        if self._bar.holds(x, y):
            at = (x - self._bar.x) / self._bar.width
            for part, size in shares(self._event).items():
                if at <= size:
                    each = time_words(size * self._event.seconds / self._event.count)
                    return f"{PARTS[part]}: {share(size)} of the time, {each} of a step"
                at -= size
        if not self.frame.box.holds(x, y) or not len(self._timeline):
            return ""
        number = min(int((y - self.frame.box.y) / self._high), len(self._timeline) - 1)
        found = self._timeline.at(number, self.frame.x_at(x))
        if found is None:
            return self._event.rows[number]
        name, begin, end = found
        kind = KINDS[kind_of(self._event.kinds[name])]
        return f"{self._event.names[name]}: {kind.lower()}, {time_words(end - begin)} at {time_words(begin)}"

    def words(self) -> str:
        """The parts, and the three dearest operations."""
        told = [f"{one.name} {time_words(one.seconds)} in {counted(one.times, 'time')}" for one in self._dearest[:3]]
        dearest = f"Dearest: {', '.join(told) or 'nothing'}. {left_out_words(self._event)}".rstrip()
        return f"{steps_words(self._event)}: {parts_words(self._event)}. {dearest}"
