"""What a run's machines do (use, memory, power), as rows below its curves, on their x axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clew_gui.charts.curves.model import from_steps, knows
from clew_gui.charts.kit.axes import FOOT, draw_foot, draw_grid
from clew_gui.charts.kit.drawing import Chart, Drawing, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.gutter import draw_swatch
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.lines import PlotLine, draw_line, draw_marks, nearest
from clew_gui.charts.kit.ticks import Span, Tick, XUnit, linear_ticks
from clew_gui.study.usage import of_limit, share
from clew_shared.base.number_words import in_bytes
from clew_shared.journal.history import History
from clew_shared.journal.pulse import ProcessPulse, together

_RATE: Final = 1e6
"""Bytes per second from which disk and network have a row: less is noise."""


@dataclass(frozen=True, eq=False)
class PulseRow:
    """A row: what it shows, how its values read, the value at the top of its axis, and its lines. The x of a line are
    seconds since 1970 until it is laid out."""

    title: str
    words: Callable[[float], str]
    top: float
    unit: float
    suffix: str
    lines: tuple[PlotLine, ...]

    def ticks(self, span: Span, most: int) -> tuple[Tick, ...]:
        """Ticks of the value axis."""
        scaled = linear_ticks(Span(span.low / self.unit, span.high / self.unit), most)
        return tuple(Tick(tick.at * self.unit, f"{tick.text} {self.suffix}".rstrip()) for tick in scaled)


def pulse_rows(history: History) -> tuple[PulseRow, ...]:
    """The rows of a run, of what is known of it. Processes are added up; a GPU or a node has a line of its own."""
    every, hosts = list(history.pulse.processes.values()), history.pulse.hosts()
    nodes = [found[0] for found in hosts.values()]
    gpus = [(process, number) for process in every for number in process.gpus]
    limit = _largest([process.column("memory_limit") for process in every])
    memory = [_line(host if len(hosts) > 1 else "", *together(found, "memory")) for host, found in hosts.items()]
    on_gpus = [_gpu(gpus, one, "memory") for one in gpus]
    disk = [_line(name, *together(every, name)) for name in ("read", "written")]
    network = [_line(name, *together(nodes, name)) for name in ("received", "sent")]
    rows = (
        _row("Processor", share, [_line("", *together(every, "cpu"))], 0.01, "%"),
        _row("Memory", lambda value: of_limit(value, limit or None), memory, *_size(memory)),
        _row("GPU", share, [_gpu(gpus, one, "use") for one in gpus], 0.01, "%", least=1.0),
        _row("GPU memory", lambda value: in_bytes(round(value)), on_gpus, *_size(on_gpus)),
        _row("Power", "{:.0f} W".format, [*_power(hosts), *(_gpu(gpus, one, "power") for one in gpus)], 1.0, "W"),
        _row("Disk", _rate, _worth(disk), *_size(disk, "/s")),
        _row("Network", _rate, _worth(network), *_size(network, "/s")),
    )
    return tuple(row for row in rows if row.lines)


def _worth(lines: Sequence[PlotLine]) -> Sequence[PlotLine]:
    """Traffic that is worth a row."""
    return lines if _largest([line.y for line in lines]) >= _RATE else ()


def _row(
    title: str, words: Callable[[float], str], lines: Sequence[PlotLine], unit: float, suffix: str, least: float = 0.0
) -> PulseRow:
    kept = tuple(line for line in lines if len(line.x))
    top = max(_largest([line.y for line in kept]) * 1.08, least, unit)
    return PulseRow(title, words, top, unit, suffix, kept)


def _line(name: str, times: FloatArray, values: NDArray[Any]) -> PlotLine:
    known = np.isfinite(values)
    return PlotLine(name, times[known], values[known].astype(np.float64))


def _gpu(gpus: Sequence[tuple[ProcessPulse, int]], one: tuple[ProcessPulse, int], what: str) -> PlotLine:
    process, number = one
    several = len({found.host for found, _ in gpus}) > 1
    name = f"GPU {number}{f' on {process.host}' if several else ''}" if len(gpus) > 1 else "GPU"
    return _line(name, process.times, process.column(f"gpu{number}_{what}"))


def _power(hosts: dict[str, list[ProcessPulse]]) -> list[PlotLine]:
    return [
        _line(f"processors on {host}" if len(hosts) > 1 else "processors", found[0].times, found[0].column("power"))
        for host, found in hosts.items()
    ]


def _size(lines: Sequence[PlotLine], per: str = "") -> tuple[float, str]:
    most = _largest([line.y for line in lines])
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next(((size, f"{name}{per}") for size, name in units if most >= size), (1.0, f"B{per}"))


def _rate(value: float) -> str:
    return f"{in_bytes(round(value))}/s"


def _largest(values: Sequence[NDArray[Any]]) -> float:
    return max((float(np.nanmax(one)) for one in values if len(one) and np.isfinite(one).any()), default=0.0)


# --- The x axis -------------------------------------------------------------------------------------------------------


def is_placed(history: History, unit: XUnit) -> bool:
    """Whether samples have places on the axis of the run's curves: two or more, as a single one is no curve."""
    if not knows(history, unit) or not history.timeline()[0].size:
        return False
    place = places_of(history, unit, log=False)
    return any(np.count_nonzero(np.isfinite(place(one.times))) > 1 for one in history.pulse.processes.values())


def places_of(history: History, unit: XUnit, log: bool) -> Callable[[FloatArray], FloatArray]:
    """Returns what says where moments are on the x axis of the run's curves: at the step that was being done; NaN
    outside of training. Made once for all lines of a chart, because it goes through all steps."""
    metric = max(history.recorded(), key=lambda name: len(history.column(name).steps), default="")
    steps = history.column(metric).steps + 1.0
    walls = np.maximum.accumulate(history.wall(metric))

    def place(times: FloatArray) -> FloatArray:
        x = np.full(len(times), np.nan)
        if not len(steps):
            return x
        done = np.interp(times, walls, steps, left=np.nan, right=np.nan)
        known = np.isfinite(done)
        x[known] = from_steps(history, done[known], unit)
        return np.where(x > 0, np.log10(np.where(x > 0, x, 1.0)), np.nan) if log else x

    return place


def seconds_of(history: History, times: FloatArray) -> FloatArray:
    """Seconds since the run's first sample."""
    first = min((float(one.times[0]) for one in history.pulse.processes.values() if len(one)), default=0.0)
    return times - first


ROW: Final = 46.0
"""The height of a row."""
GAP: Final = 14.0
_LEAST: Final = 24.0
"""The least height of a row in which its curve says anything."""
_FOOT: Final = FOOT + 16
_VALUES: Final = 2
"""Values of several lines that have room beside their title."""
_LINE: Final = 15.0
"""The height of a name."""


def height_of(rows: int, foot: bool) -> float:
    """Pixels that so many rows take; with a ``foot`` they have an x axis of their own."""
    return rows * (ROW + GAP) + (_FOOT if foot else 0)


class PulseChart(Chart):
    """Rows below each other, as many as have room. ``sides``: the columns where they begin and end, and where the names
    and last values right of them end.

    ``x_of`` places moments on the axis, of which ``span`` is shown; ``ticks`` and ``title`` of an x axis of their own.
    """

    def __init__(
        self,
        rows: Sequence[PulseRow],
        x_of: Callable[[FloatArray], FloatArray],
        span: Span,
        sides: tuple[float, float, float],
        box: Box,
        sizes: TextSizes,
        *,
        index: int = 0,
        ticks: Sequence[Tick] = (),
        title: str = "",
    ) -> None:
        room = box.height - (_FOOT if ticks else 0)
        shown = rows[: max(int(room // (_LEAST + GAP)), 1)]  # the first ones say most
        self._rows = [replace(row, lines=tuple(_placed(row, x_of, span, index))) for row in shown]
        self._ticks, self._title = ticks, title
        left, right, self._right = sides
        each = max(room / max(len(self._rows), 1) - GAP, 16.0)
        tops = [box.y + 8 + k * (each + GAP) for k in range(len(self._rows))]
        boxes = [Box(left, top, max(right - left, 32.0), each) for top in tops]
        self.frames = [Frame(one, span, Span(0.0, row.top)) for one, row in zip(boxes, self._rows, strict=True)]

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        for row, frame in zip(self._rows, self.frames, strict=True):
            draw_grid(drawing, frame, row.ticks(frame.y, 2 if frame.box.height < 60 else 4))
            with drawing.clipped(frame.box.inset(-1, -2, -1, -1)):
                for line in row.lines:
                    draw_line(drawing, frame, line)
                    draw_marks(drawing, frame, line)
            self._draw_names(drawing, row, frame)
        if self._ticks and self.frames:
            draw_foot(drawing, self.frames[-1], self._ticks, self._title)

    def _draw_names(self, drawing: Drawing, row: PulseRow, frame: Frame) -> None:
        """The title and the last value; several lines have their names below it, as far as all of them have room."""
        left, y = frame.box.right + 16, frame.box.y
        ends = [line.value for line in row.lines]
        fits = len(row.lines) > 1 and len(row.lines) * _LINE <= frame.box.height + GAP - 20
        last = "" if fits else ", ".join(ends[:_VALUES]) + (", …" if len(ends) > _VALUES else "")
        drawing.text(left - 12, y, row.title, drawing.theme.text, "captionStrong")
        drawing.text(self._right - 2, y, last, drawing.theme.text2, across="right")
        for line in row.lines if fits else ():
            y += _LINE
            draw_swatch(drawing, left, y, line.index)
            drawing.text(left + 18, y, line.name, room=self._right - left - 24 - drawing.width(line.value))
            drawing.text(self._right - 2, y, line.value, drawing.theme.text2, across="right")

    def read(self, x: float, y: float) -> str:
        """The values nearest to a pixel."""
        for row, frame in zip(self._rows, self.frames, strict=True):
            if frame.box.inset(-2, -GAP / 2, -2, -GAP / 2).holds(x, y):
                found = [(line.name, row.words(float(line.y[nearest(frame, line, x)[0]]))) for line in row.lines]
                return f"{row.title}: {', '.join(_named(found))}" if found else ""
        return ""

    def description(self) -> str:
        """Each row's last value."""
        told = [(row.title, _named([(line.name, line.value) for line in row.lines])) for row in self._rows]
        return ". ".join(f"{title} {', '.join(ends)}" for title, ends in told if ends)


def _named(values: Sequence[tuple[str, str]]) -> list[str]:
    """Each value with its name if there are several."""
    return [f"{name if len(values) > 1 else ''} {value}".strip() for name, value in values if value]


def _placed(row: PulseRow, x_of: Callable[[FloatArray], FloatArray], span: Span, index: int) -> Iterator[PlotLine]:
    """The lines on the axis, with their last values in sight. A single one has the run's colour; several have one
    each."""
    for number, line in enumerate(row.lines):
        every = x_of(line.x)
        x, y = every[np.isfinite(every)], line.y[np.isfinite(every)]
        seen = y[(x >= span.low) & (x <= span.high)]
        value = row.words(float(seen[-1])) if len(seen) else ""
        if x.size:
            look = (index, ()) if len(row.lines) == 1 else (number, None)
            yield replace(line, x=x, y=y, value=value, width=1.4, index=look[0], dash=look[1])
