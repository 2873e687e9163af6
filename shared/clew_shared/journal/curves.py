"""Growing curves: columns that share their steps, appended block by block and cut where a later attempt begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.cards import MetricSpec
from clew_shared.journal.buffer import Buffer
from clew_shared.journal.events import Points
from clew_shared.journal.pyramid import Pyramid

Floats = NDArray[np.floating[Any]]
STEPPED, EVALUATED = "steps", "evaluations"
"""First words of the keys of tracks: what was recorded in each step, and what was measured after some."""


class Column(NamedTuple):
    """The curve of one metric, ascending in ``steps`` (int64). ``clock`` is the training clock in seconds (float64).

    The arrays are views of growing buffers: use them at once, or copy them, before more is fed.
    """

    steps: NDArray[np.int64]
    values: Floats
    clock: NDArray[np.float64]

    def before(self, step: int) -> Column:
        """Returns what was recorded before ``step``."""
        count = int(np.searchsorted(self.steps, step))
        return Column(self.steps[:count], self.values[:count], self.clock[:count])


class CurveBlock(NamedTuple):
    """``size`` points that were recorded together by ``attempt``: the wall clock at their end and what they took."""

    size: int
    attempt: int
    time: float
    seconds: float

    def split(self, size: int) -> tuple[CurveBlock, CurveBlock]:
        """The first ``size`` points and the rest, with the time in proportion."""
        rest = self.size - size
        later = self.seconds * rest / self.size
        return (
            self._replace(size=size, time=self.time - later, seconds=self.seconds - later),
            self._replace(size=rest, seconds=later),
        )

    def wall(self) -> NDArray[np.float64]:
        """The wall-clock time of each point, interpolated; 0 where the writer gave none."""
        if not self.time:
            return np.zeros(self.size)
        return self.time - self.seconds * np.arange(self.size - 1, -1, -1) / self.size


class CurvePiece(NamedTuple):
    """A stretch of some columns, owned by itself."""

    steps: NDArray[np.int64]
    clock: NDArray[np.float64]
    values: dict[str, Floats]
    blocks: list[CurveBlock]

    def until(self, step: int) -> tuple[CurvePiece, CurvePiece]:
        """Splits the piece into what is before ``step``, and the rest."""
        index = int(np.searchsorted(self.steps, step))
        before, later = split_blocks(self.blocks, index)
        first = CurvePiece(
            self.steps[:index], self.clock[:index], {k: v[:index] for k, v in self.values.items()}, before
        )
        rest = CurvePiece(self.steps[index:], self.clock[index:], {k: v[index:] for k, v in self.values.items()}, later)
        return first, rest


def split_blocks(blocks: Sequence[CurveBlock], index: int) -> tuple[list[CurveBlock], list[CurveBlock]]:
    """The blocks of the first ``index`` points and of the others; searched from the end, where cuts happen."""
    keep, start = len(blocks), sum(block.size for block in blocks)
    while start > index:
        keep -= 1
        start -= blocks[keep].size
    if start == index:
        return list(blocks[:keep]), list(blocks[keep:])
    before, later = blocks[keep].split(index - start)
    return [*blocks[:keep], before], [later, *blocks[keep + 1 :]]


class PointsLayout:
    """Says how to read the values of a schema's ``Points``; made once for each schema, because there are many frames.

    ``dtypes`` are the columns' by metric. ``key`` is the same for layouts with the same columns.
    """

    def __init__(self, metrics: Sequence[MetricSpec]) -> None:
        self.dtypes = {metric.name: metric.dtype for metric in metrics}
        self.names = tuple(self.dtypes)
        self.key = (STEPPED, *self.names)
        self._formats = [(metric.name, np.dtype(metric.dtype).newbyteorder("<")) for metric in metrics]
        self._rest = np.empty(0)

    def values(self, event: Points) -> dict[str, Floats]:
        """The arrays of ``event`` by metric, without a copy; empty when they do not fit."""
        raws, count = event.values, event.count
        if count < 1 or event.first < 0 or len(raws) != len(self._formats):
            return {}
        found: dict[str, Floats] = {}
        for (name, kind), raw in zip(self._formats, raws, strict=True):
            if len(raw) != count * kind.itemsize:
                return {}
            found[name] = np.frombuffer(raw, kind)
        return found

    def clock(self, event: Points, end: float) -> NDArray[np.float64]:
        """The training clock of each step when the stretch ends at ``end``, interpolated."""
        if len(self._rest) != event.count:
            self._rest = 1.0 - np.arange(1, event.count + 1) / event.count
        return end - event.seconds * self._rest


class Track:
    """Columns that share their steps: those of one schema, or the values of one kind of evaluation.

    A column gets its pyramid when somebody first asks for it: a reader that only folds or exports pays nothing.
    """

    def __init__(self, dtypes: Mapping[str, str]) -> None:
        self.steps = Buffer(np.int64)
        self.clock = Buffer(np.float64)
        self.values: dict[str, Buffer[Any]] = {name: Buffer(dtype) for name, dtype in dtypes.items()}
        self.blocks: list[CurveBlock] = []
        self._buffers: list[Buffer[Any]] = [self.steps, self.clock, *self.values.values()]
        self._pyramids: dict[str, Pyramid] = {}

    @property
    def last_step(self) -> int:
        """The last step, -1 when there is none."""
        return int(self.steps.view[-1]) if self.steps.size else -1

    @property
    def last_clock(self) -> float:
        """The training clock at the last step."""
        return float(self.clock.view[-1]) if self.clock.size else 0.0

    def column(self, metric: str) -> Column:
        """The curve of one of its metrics."""
        return Column(self.steps.view, self.values[metric].view, self.clock.view)

    def pyramid(self, metric: str) -> Pyramid:
        """The curve of one of its metrics, with least and greatest values at all scales."""
        if metric not in self._pyramids:
            self._pyramids[metric] = Pyramid(self.steps, self.values[metric])
        return self._pyramids[metric]

    def extend(self, piece: CurvePiece) -> None:
        """Append a piece whose steps all come later."""
        self.steps.extend(piece.steps)
        self.clock.extend(piece.clock)
        for name, buffer in self.values.items():
            buffer.extend(piece.values[name])
        self.blocks += piece.blocks

    def extend_run(
        self, first: int, clock: NDArray[np.float64], values: Mapping[str, Floats], block: CurveBlock
    ) -> None:
        """Append steps from ``first`` on, which come later than all that is there."""
        self.steps.grow(block.size)[:] = np.arange(first, first + block.size)
        self.clock.extend(clock)
        for name, buffer in self.values.items():
            buffer.extend(values[name])
        self.blocks.append(block)

    def cut(self, step: int) -> CurvePiece:
        """Take away everything from ``step`` on and return it."""
        index = int(np.searchsorted(self.steps.view, step))
        if index == self.steps.size:
            return CurvePiece(np.empty(0, np.int64), np.empty(0), {name: np.empty(0) for name in self.values}, [])
        values = {name: buffer.view[index:].copy() for name, buffer in self.values.items()}
        self.blocks, later = split_blocks(self.blocks, index)
        piece = CurvePiece(self.steps.view[index:].copy(), self.clock.view[index:].copy(), values, later)
        for buffer in self._buffers:
            buffer.truncate(index)
        for pyramid in self._pyramids.values():
            pyramid.cut(index)
        return piece

    def insert(self, piece: CurvePiece) -> None:
        """Put in a piece that comes before some of what is there, without the steps that are there already."""
        tail = self.cut(int(piece.steps[0]))
        self.extend(piece.until(int(tail.steps[0]))[0] if len(tail.steps) else piece)
        self.extend(tail)

    def part(self, metric: str, attempt: int) -> list[Column]:
        """The stretches of a metric's curve that come from ``attempt``."""
        return stretches(self.column(metric), self.blocks, attempt)

    def wall(self) -> NDArray[np.float64]:
        """The wall-clock time of each point."""
        return np.concatenate([block.wall() for block in self.blocks]) if self.blocks else np.empty(0)


def stretches(whole: Column, blocks: Sequence[CurveBlock], attempt: int) -> list[Column]:
    """The parts of a curve, recorded in ``blocks``, that come from ``attempt``."""
    found, start = [], 0
    for block in blocks:
        end = start + block.size
        if block.attempt == attempt:
            found.append(Column(whole.steps[start:end], whole.values[start:end], whole.clock[start:end]))
        start = end
    return found


def join(columns: Iterable[Column]) -> Column:
    """Joins several curves into one, ascending in steps; a single curve is returned as it is."""
    parts = [column for column in columns if len(column.steps)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Column(np.empty(0, np.int64), np.empty(0), np.empty(0))
    steps = np.concatenate([part.steps for part in parts])
    order = np.argsort(steps, kind="stable")
    values: Floats = np.concatenate([part.values for part in parts])
    return Column(steps[order], values[order], np.concatenate([part.clock for part in parts])[order])
