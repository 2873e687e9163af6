"""Backpropagation by hand: one training step of a network with two inputs, two hidden units and one that answers,
number by number.

Hidden units have tanh, the last one a sigmoid; the loss is the cross-entropy. Weights are numbered unit by unit, each
unit's offset last: 1 to 3 and 4 to 6 are those of the hidden units, 7 to 9 those of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from clew_shared.cards import ByHand

Stage = Literal["forward", "loss", "backward", "update"]
Point = tuple[float, float, int]
"""x, y and the class."""
_SUBSCRIPT: Final = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Line(NamedTuple):
    """A number, and how it is computed: ``formula`` has the names, ``numbers`` what they are. ``turn`` says when."""

    turn: int
    stage: Stage
    name: str
    formula: str
    numbers: str
    value: float


TURNS: Final = (
    "Forward: the first hidden unit",
    "Forward: the second hidden unit",
    "Forward: the answer",
    "The loss",
    "Backward: the slope at the last sum",
    "Backward: gradients of the last unit",
    "Backward: on to the hidden units",
    "Backward: gradients of the first unit",
    "Backward: gradients of the second unit",
    "Update: each weight goes against its gradient",
)
"""What is computed together, in this order."""


def indexed(letter: str, number: int) -> str:
    """A letter with its number below: w₁."""
    return letter + str(number).translate(_SUBSCRIPT)


def one_pass(weights: Sequence[float], point: Point, rate: float) -> tuple[Line, ...]:
    """All numbers of one training step with one point, in the order in which they are computed."""
    return tuple(_Pass(weights, point, rate).lines())


def updated(lines: Sequence[Line]) -> tuple[float, ...]:
    """The weights after a pass."""
    return tuple(line.value for line in lines if line.stage == "update")


class _Pass:
    def __init__(self, weights: Sequence[float], point: Point, rate: float) -> None:
        self._x, self._y, self._target = point
        self._rate = rate
        self._known = {indexed("w", number): weight for number, weight in enumerate(weights, 1)}
        self._known |= {"x": self._x, "y": self._y}

    def lines(self) -> Iterator[Line]:
        yield from self._unit(0, 1, ("x", "y"))
        yield from self._unit(1, 2, ("x", "y"))
        yield from self._unit(2, 3, ("h₁", "h₂"))
        p = self._known["p"]
        formula, numbers = ("−ln p", f"−ln {said(p)}") if self._target else ("−ln(1 − p)", f"−ln(1 − {said(p)})")
        against = -self._known["s₃"] if self._target else self._known["s₃"]
        loss = max(against, 0) + math.log1p(math.exp(-abs(against)))  # a logarithm of 0 has no value
        yield self._line(3, "loss", "L", formula, numbers, loss)
        yield self._line(4, "backward", "δ₃", "p − class", f"{said(p)} − {self._target}", p - self._target)
        yield from self._gradients(5, 3, ("h₁", "h₂"))
        for unit in (1, 2):
            h, w, d = indexed("h", unit), indexed("w", 6 + unit), indexed("δ", unit)
            value = self._known["δ₃"] * self._known[w] * (1 - self._known[h] ** 2)
            numbers = f"{self._factor('δ₃')}·{self._factor(w)}·(1 − {self._factor(h)}²)"
            yield self._line(6, "backward", d, f"δ₃·{w}·(1 − {h}²)", numbers, value)
        yield from self._gradients(7, 1, ("x", "y"))
        yield from self._gradients(8, 2, ("x", "y"))
        for number in range(1, 10):
            w, g = indexed("w", number), indexed("g", number)
            numbers = f"{said(self._known[w])} − {self._rate:g}·{self._factor(g)}"
            value = self._known[w] - self._rate * self._known[g]
            yield Line(9, "update", f"new {w}", f"{w} − rate·{g}", numbers, value)

    def _unit(self, turn: int, unit: int, inputs: tuple[str, str]) -> Iterator[Line]:
        """The weighted sum of a unit, and what it makes of it."""
        first, second, offset = (indexed("w", 3 * unit - 2 + k) for k in range(3))
        s, (one, other) = indexed("s", unit), inputs
        known = self._known
        numbers = " + ".join(
            (
                *(f"{self._factor(w)}·{self._factor(x)}" for w, x in ((first, one), (second, other))),
                self._factor(offset),
            )
        )
        value = known[first] * known[one] + known[second] * known[other] + known[offset]
        yield self._line(turn, "forward", s, f"{first}·{one} + {second}·{other} + {offset}", numbers, value)
        if unit < 3:
            yield self._line(
                turn, "forward", indexed("h", unit), f"tanh {s}", f"tanh {self._factor(s)}", math.tanh(value)
            )
        else:
            answer = 0.5 * (1 + math.tanh(0.5 * value))
            yield self._line(turn, "forward", "p", f"1/(1 + e^−{s})", f"1/(1 + e^−{self._factor(s)})", answer)

    def _gradients(self, turn: int, unit: int, inputs: tuple[str, str]) -> Iterator[Line]:
        """How the loss depends on each weight of a unit: its delta times what the weight multiplies."""
        d = indexed("δ", unit)
        for k, factor in enumerate((*inputs, "")):
            g = indexed("g", 3 * unit - 2 + k)
            value = self._known[d] * (self._known[factor] if factor else 1.0)
            formula = f"{d}·{factor}" if factor else d
            numbers = f"{self._factor(d)}·{self._factor(factor)}" if factor else said(self._known[d])
            yield self._line(turn, "backward", g, formula, numbers, value)

    def _line(self, turn: int, stage: Stage, name: str, formula: str, numbers: str, value: float) -> Line:
        self._known[name] = value
        return Line(turn, stage, name, formula, numbers, value)

    def _factor(self, name: str) -> str:
        """The number, in brackets where it is negative."""
        value = self._known[name]
        text = f"{value:g}".replace("-", "−") if name in ("x", "y") else said(value)
        return f"({text})" if value < 0 else text


def said(value: float) -> str:
    """A number with three digits after the point."""
    return f"{value:.3f}".replace("-", "−")


# --- Many steps -------------------------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """What is known after so many turns: ``lines`` of the present step, of which those of the latest turn are new.

    ``number`` is that step, from 1 on, ``weights`` are those before it. ``turn`` is None before the first one.
    """

    number: int
    turn: int | None
    point: Point
    weights: tuple[float, ...]
    lines: tuple[Line, ...]
    loss: float

    @property
    def new(self) -> tuple[Line, ...]:
        """The lines of the latest turn."""
        return tuple(line for line in self.lines if line.turn == self.turn)

    def value(self, name: str) -> float | None:
        """A number by its name; None as long as it is not known."""
        return next((line.value for line in self.lines if line.name == name), None)


class StepsByHand:
    """Training steps with one point after the other, as far as somebody has gone: each is computed once."""

    def __init__(self, network: ByHand) -> None:
        self.network = network
        self._weights = [network.weights]
        self._passes: list[tuple[Line, ...]] = []

    def at(self, turns: int) -> Moment:
        """What is known after so many turns in all."""
        number, turn = divmod(max(turns - 1, 0), len(TURNS))
        while len(self._passes) <= number:
            self._passes.append(one_pass(self._weights[-1], self._point(len(self._passes)), self.network.rate))
            self._weights.append(updated(self._passes[-1]))
        known = tuple(line for line in self._passes[number] if turns and line.turn <= turn)
        loss = self.mean_loss(self._weights[number])
        return Moment(number + 1, turn if turns else None, self._point(number), self._weights[number], known, loss)

    def _point(self, number: int) -> Point:
        return self.network.points[number % len(self.network.points)]

    def mean_loss(self, weights: Sequence[float]) -> float:
        """The mean loss of all points with these weights."""
        losses = (
            line.value for point in self.network.points for line in one_pass(weights, point, 0) if line.stage == "loss"
        )
        return sum(losses) / len(self.network.points)
