"""The timeline of traced steps as pixel columns, and the chart that shows it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.base.tokens import DARK, LIGHT, Theme
from clew_gui.charts.chart import drawn
from clew_gui.charts.drawing import Rectangle, UsualSizes, Words
from clew_gui.charts.trace import TraceChart, kind_colour, part_colour
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.trace import Stretch, Timeline, time_ticks
from clew_shared.journal.events import Trace
from clew_shared.journal.trace import KINDS, PARTS, read_spans
from clew_shared.study.trace import trace_lines
from tests.unit.runs import trace

BOX = Box(0, 0, 640, 420)
STRANGE = st.sampled_from((0.0, -1.0, 5e-324, 1e-320, 1e-9, 1e-3, 1.0, 1e5, 1e10, 1.7e308, np.inf, np.nan))
"""Seconds that somebody else may have written."""


@st.composite
def strange_traces(draw: st.DrawFn) -> Trace:
    """Events whose arrays fit together, of up to three spans, operations and parts with whatever seconds."""
    names, spans, rows = draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    seconds = draw(st.sampled_from((1e-9, 0.004, 1e9)) | STRANGE)
    usual = st.sampled_from((0.0, seconds / 4)) | STRANGE

    def some(count: int) -> list[float]:
        return draw(st.lists(usual, min_size=count, max_size=count))

    spans *= bool(names and rows)
    return Trace(
        step=draw(st.integers()),
        count=draw(st.integers(1, 2**63)),
        seconds=seconds,
        parts=draw(st.dictionaries(st.sampled_from([*PARTS, "more"]), usual)),
        names=("MatMul",) * names,
        kinds=("matmul",) * names,
        counts=(1,) * names,
        totals=tuple(some(names)),
        rows=("Thread",) * rows,
        row=bytes(2 * spans),
        name=bytes(2 * spans),
        begin=np.array(some(spans), "<f8").tobytes(),
        took=np.array(np.clip(some(spans), -1e38, 1e38), "<f4").tobytes(),
    )


def chart(box: Box = BOX) -> TraceChart:
    return TraceChart(Timeline(trace()), box, UsualSizes())


def test_columns_have_the_kind_that_fills_most_of_them() -> None:
    assert Timeline(trace()).stretches(0, Span(0.0, 0.004), 8) == [
        Stretch(1, 6, "matmul", 1.0),
        Stretch(6, 7, "matmul", 0.5),
        Stretch(7, 8, "pointwise", 1.0),
    ]


def test_a_part_of_the_time_fills_all_columns() -> None:
    assert Timeline(trace()).stretches(0, Span(0.0006, 0.0018), 10) == [Stretch(0, 10, "matmul", 1.0)]


def test_the_sum_of_all_columns_is_what_the_operations_took() -> None:
    event = trace()
    many = np.linspace(0, 0.004, 801)[:-1]
    event = msgspec.structs.replace(
        event,
        row=np.zeros(800, "<u2").tobytes(),
        name=np.zeros(800, "<u2").tobytes(),
        begin=many.astype("<f8").tobytes(),
        took=np.full(800, 0.0000025, "<f4").tobytes(),
    )
    found = Timeline(event).stretches(0, Span(0.0, 0.004), 40)
    assert [(one.first, one.end, one.full) for one in found] == [(0, 40, 0.5)]


def test_the_operation_at_a_moment() -> None:
    timeline = Timeline(trace())
    found = timeline.at(0, 0.001)
    assert found is not None
    assert found == pytest.approx((0, 0.0005, 0.002))
    assert timeline.at(0, 0.0001) is None
    assert timeline.at(0, 0.0032) is None


def test_ticks_are_in_the_unit_of_the_time() -> None:
    assert [tick.text for tick in time_ticks(Span(0.0, 0.004), 5)] == ["0 ms", "1 ms", "2 ms", "3 ms", "4 ms"]
    assert time_ticks(Span(0.0, 3.0), 4)[-1].text == "3 s"


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_kinds_and_parts_have_a_colour_each(theme: Theme) -> None:
    assert len({kind_colour(theme, kind) for kind in KINDS}) == len(KINDS)
    assert len({part_colour(theme, part) for part in PARTS}) == len(PARTS)


@pytest.mark.parametrize("box", [BOX, Box(0, 0, 1200, 700), Box(0, 0, 300, 160)])
def test_it_lies_in_its_box(box: Box) -> None:
    items = drawn(chart(box), LIGHT, UsualSizes())
    rectangles = [one.box for one in items if isinstance(one, Rectangle)]
    assert all(one.inside(box.inset(-1, -1, -1, -1)) for one in rectangles if one.width > 0)
    assert max(one.y for one in items if isinstance(one, Words)) <= box.bottom


def test_what_is_under_the_pointer_is_said() -> None:
    found = chart()
    row = found.frame.box.y + 4
    assert found.read(found.frame.column(0.001), row) == "MatMul: matrix product, 1.50 ms at 500 µs"
    assert found.read(found.frame.column(0.0001), row) == "Thread 1"
    assert found.read(100, 25) == "Compute: 75 % of the time, 1.50 ms of a step"
    assert found.read(630, 415) == ""


def test_it_is_said_in_words() -> None:
    assert chart().words() == (
        "Steps 1 to 2, 2.00 ms each: compute 75 %, input 12 %, host 5.0 %, idle 7.5 %. "
        "Dearest: MatMul 2.50 ms in 2 times, ReluGrad 500 µs in 1 time."
    )


@given(strange_traces())
def test_what_a_journal_is_read_for_can_be_shown(event: Trace) -> None:
    if read_spans(event) is None:
        return
    assert all(len(line) < 400 for line in trace_lines(event))
    found = TraceChart(Timeline(event), BOX, UsualSizes())
    items = drawn(found, LIGHT, UsualSizes())
    assert all(
        one.box.inside(BOX.inset(-1, -1, -1, -1)) for one in items if isinstance(one, Rectangle) and one.box.width > 0
    )
    assert found.words()
    for x in range(0, 640, 40):
        for y in (30, 70):
            found.read(x, y)
