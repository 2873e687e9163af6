"""The chart of a training step by hand: the network with all numbers that are known, and how the latest ones come
about."""

from __future__ import annotations

from typing import Final

from clew_gui.charts.kit.drawing import Chart, Drawing, Stroke, TextSizes
from clew_gui.charts.kit.layout import Box
from clew_gui.study.by_hand import TURNS, Line, Moment, indexed, said

_HEAD: Final = 40.0
_NODE: Final = 46.0
_LINE: Final = 17.0
_BESIDE: Final = 560.0
"""The width from which on the lines are beside the network, not below it."""
_NODES: Final = {"x": (0.0, 0.0), "y": (0.0, 1.0), "h₁": (0.5, 0.0), "h₂": (0.5, 1.0), "p": (1.0, 0.5)}
"""Where the inputs and units are, as parts of the width and the height."""
_UNITS: Final = {"h₁": 1, "h₂": 2, "p": 3}
_EDGES: Final = {1: ("x", "h₁"), 2: ("y", "h₁"), 4: ("x", "h₂"), 5: ("y", "h₂"), 7: ("h₁", "p"), 8: ("h₂", "p")}
"""The weights that are edges by their numbers; 3, 6 and 9 are offsets."""


class ByHandChart(Chart):
    """A moment of the walk, laid out."""

    def __init__(self, moment: Moment, box: Box, sizes: TextSizes) -> None:
        self._moment = moment
        self._box = box.inset(8, 2, 8, 4)
        room = self._box.inset(0, _HEAD, 0, 0)
        beside = room.width >= _BESIDE
        lines = max(len(moment.new), 2) * 2 * _LINE + 1.5 * _LINE
        if beside:
            self._network = Box(room.x, room.y, 0.56 * room.width, min(room.height, 360.0))
            self._lines = Box(self._network.right + 20, room.y, 0.44 * room.width - 20, room.height)
        else:
            high = max(room.height - lines, 0.45 * room.height)
            self._network = Box(room.x, room.y, room.width, high)
            self._lines = Box(room.x, room.y + high, room.width, room.height - high)
        inner = self._network.inset(0.5 * _NODE + 8, 0.5 * _NODE + 32, 0.5 * _NODE + 14, 0.5 * _NODE + 34)
        self._at = {name: (inner.x + x * inner.width, inner.y + y * inner.height) for name, (x, y) in _NODES.items()}
        self._fresh = {line.name for line in moment.new}

    # ------------------------------------------------------------ drawing
    def draw(self, drawing: Drawing) -> None:
        """Add the heading, the network and the lines of the latest turn."""
        moment, theme = self._moment, drawing.theme
        x, y, kind = moment.point
        head = f"Step {moment.number}: the point ({_input(x)}, {_input(y)}), class {kind}"
        drawing.text(self._box.x, self._box.y + 10, head, theme.text, "captionStrong", room=self._box.width)
        about = f"Mean loss of all points before this step: {said(moment.loss)}"
        drawing.text(self._box.x, self._box.y + 28, about, theme.text2, room=self._box.width)
        for number, (source, target) in _EDGES.items():
            used = self._is_used(number)
            stroke = Stroke(theme.accent, 2.2) if used else Stroke(theme.border, 1.2)
            drawing.line(*self._at[source], *self._at[target], stroke)
        for number, (source, target) in _EDGES.items():
            (x1, y1), (x2, y2), part = self._at[source], self._at[target], 0.36 if number < 7 else 0.42
            self._draw_weight(drawing, number, x1 + part * (x2 - x1), y1 + part * (y2 - y1))
        for name in _NODES:
            self._draw_node(drawing, name)
        self._draw_lines(drawing)

    def _draw_weight(self, drawing: Drawing, number: int, x: float, y: float) -> None:
        """A weight and below it its gradient, as far as that is known, with their middle at a pixel."""
        theme, moment = drawing.theme, self._moment
        new, gradient = moment.value(indexed("new w", number)), moment.value(indexed("g", number))
        weight = f"{indexed('w', number)} {said(moment.weights[number - 1] if new is None else new)}"
        slope = "" if gradient is None else f"{indexed('g', number)} {said(gradient)}"
        wide, high = max(drawing.width(weight), drawing.width(slope)) + 4, 28.0 if slope else 14.0
        drawing.rect(Box(x - 0.5 * wide, y - 0.5 * high, wide, high), theme.surface)
        ink = theme.accent if indexed("new w", number) in self._fresh else theme.text
        drawing.text(x, y - (7 if slope else 0), weight, ink, across="middle")
        drawing.text(x, y + 7, slope, theme.bad, across="middle")

    def _is_used(self, number: int) -> bool:
        """Whether an edge takes part in the latest turn."""
        names = {indexed("g", number), indexed("new w", number), indexed("s", (number + 2) // 3)}
        back = number in (7, 8) and indexed("δ", number - 6) in self._fresh
        return back or bool(names & self._fresh)

    def _draw_node(self, drawing: Drawing, name: str) -> None:
        theme, (x, y) = drawing.theme, self._at[name]
        unit = _UNITS.get(name, 0)
        fresh = bool({name, indexed("s", unit), indexed("δ", unit)} & self._fresh)
        edge = Stroke(theme.accent if fresh else theme.border, 2.2 if fresh else 1.4)
        drawing.marks([x], [y], theme.surface, _NODE, edge=edge)
        value = {"x": self._moment.point[0], "y": self._moment.point[1]}.get(name, self._moment.value(name))
        text = "" if value is None else said(value) if unit else _input(value)
        drawing.text(x, y - (8 if text else 0), name, theme.text2, "captionStrong", across="middle")
        drawing.text(x, y + 8, text, theme.text, across="middle")
        if unit:
            self._draw_beside(drawing, unit, x, y)

    def _draw_beside(self, drawing: Drawing, unit: int, x: float, y: float) -> None:
        """The offset above a unit; its sum, and how the loss depends on that, below it."""
        theme = drawing.theme
        above = 10 if self._moment.value(indexed("g", 3 * unit)) is None else 17
        self._draw_weight(drawing, 3 * unit, x, y - 0.5 * _NODE - above)
        names = [indexed("s", unit), indexed("δ", unit), *(["L"] if unit == 3 else [])]
        known = [(name, value) for name in names if (value := self._moment.value(name)) is not None]
        for number, (name, value) in enumerate(known):
            ink = theme.text2 if name.startswith("s") else theme.bad
            drawing.text(x, y + 0.5 * _NODE + 10 + 15 * number, f"{name} {said(value)}", ink, across="middle")

    def _draw_lines(self, drawing: Drawing) -> None:
        theme, box = drawing.theme, self._lines
        title = "Step goes on to the first sum." if self._moment.turn is None else TURNS[self._moment.turn]
        drawing.text(box.x, box.y + 9, title, theme.text, "captionStrong", room=box.width)
        lines, top = self._moment.new, box.y + 1.8 * _LINE
        high = min((box.bottom - top) / max(len(lines), 1), 3 * _LINE + 4)
        short = high < 2 * _LINE
        for number, line in enumerate(lines):
            y = top + number * high
            if not short:
                drawing.text(box.x, y, f"{line.name} = {line.formula}", theme.text2, room=box.width)
            left, row = (box.x, y) if short else (box.x + 12, y + _LINE - 2)
            value = said(line.value)
            before = "" if line.numbers == value else f"{line.numbers} = "
            room = box.right - left - drawing.width(value, "captionStrong")
            before = f"{line.name} = {before}" if short else f"= {before}"
            first, plus, rest = before.rpartition(" + ")
            if drawing.width(before) > room and plus and high > 3 * _LINE:
                drawing.text(left, row, first, theme.text, room=box.right - left)
                left, row, before = left + 8, row + _LINE - 2, f"+ {rest}"
            before = drawing.elided(before, room)
            drawing.text(left, row, before, theme.text)
            drawing.text(left + drawing.width(before), row, value, theme.text, "captionStrong")

    # ------------------------------------------------------------ reading
    def read(self, x: float, y: float) -> str:
        """Returns an empty text: all numbers are to be seen."""
        del x, y
        return ""

    def description(self) -> str:
        """The latest turn in words."""
        moment = self._moment
        x, y, kind = moment.point
        head = f"Step {moment.number}, point {_input(x)}, {_input(y)} of class {kind}"
        if moment.turn is None:
            return head
        return ". ".join([head, TURNS[moment.turn], *map(in_words, moment.new)])


def in_words(line: Line) -> str:
    """A line as text: what is computed, with names, with numbers, and what comes out."""
    value = said(line.value)
    return " = ".join([line.name, line.formula, *([line.numbers] if line.numbers != value else []), value])


def _input(value: float) -> str:
    return f"{value:g}".replace("-", "−")
