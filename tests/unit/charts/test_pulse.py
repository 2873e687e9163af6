"""The rows of what a run's machines do, on the x axis of its curves."""

from __future__ import annotations

import numpy as np
import pytest

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.kit.drawing import Drawing, Path, UsualSizes, Words
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_gui.charts.pulse import PulseChart, height_of, is_placed, places_of, pulse_rows, seconds_of
from clew_shared.journal.events import Schema
from clew_shared.journal.history import History
from tests.unit.runs import METRICS, points, pulse

NAN = float("nan")


def history(**columns: list[float]) -> History:
    """Four steps that ended at 101 to 104, and samples from 100 on."""
    found = History()
    found.feed(1, Schema(id=1, metrics=METRICS))
    for step in range(4):
        found.feed(1, points(step, [1.0], time=101.0 + step))
    found.feed(1, pulse(100, "trainer", "node1", **columns))
    return found


def test_each_quantity_that_is_known_has_a_row() -> None:
    found = history(cpu=[NAN, 1.0], memory=[1e9, 2e9], memory_limit=[16e9, 16e9], read=[NAN, 10.0])
    rows = pulse_rows(found)
    assert [row.title for row in rows] == ["Processor", "Memory"], "ten bytes a second are not worth a row"
    assert rows[0].words(1.8) == "180 %"
    assert rows[1].words(2e9) == "2.0 of 16 GB"
    assert [tick.text for tick in rows[1].ticks(Span(0.0, 2.16e9), 2)] == ["0 GB", "2 GB"]


def test_gpus_have_lines_of_their_own_and_processes_are_added_up() -> None:
    found = history(cpu=[NAN, 1.0], gpu0_use=[0.5, 0.6], gpu1_use=[0.7, 0.8], read=[NAN, 5e6])
    found.feed(1, pulse(100, "worker 1", "node1", cpu=[NAN, 0.5]))
    rows = {row.title: row for row in pulse_rows(found)}
    assert [line.name for line in rows["GPU"].lines] == ["GPU 0", "GPU 1"]
    assert rows["Processor"].lines[0].y.tolist() == [1.5]
    assert [line.name for line in rows["Disk"].lines] == ["read"]


def test_a_sample_is_at_the_step_that_was_being_done() -> None:
    found = history(cpu=[NAN, 1.0])
    times = np.array([100.0, 101.0, 102.5, 104.0, 110.0])
    np.testing.assert_array_equal(places_of(found, XUnit.STEP, log=False)(times), [NAN, 1.0, 2.5, 4.0, NAN])
    np.testing.assert_allclose(places_of(found, XUnit.STEP, log=True)(times)[1:4], np.log10([1.0, 2.5, 4.0]))


def test_without_curves_samples_have_times_only() -> None:
    found = History()
    found.feed(1, pulse(100, cpu=[NAN, 1.0]))
    assert not is_placed(found, XUnit.STEP)
    assert seconds_of(found, np.array([103.0])).tolist() == [3.0]


def chart(found: History, height: float) -> PulseChart:
    place = places_of(found, XUnit.STEP, log=False)
    box = Box(0, 0, 600, height)
    return PulseChart(pulse_rows(found), place, Span(0.0, 4.0), (50.0, 400.0, 600.0), box, UsualSizes())


def test_the_chart_says_its_values() -> None:
    found = history(cpu=[NAN, 1.0, 1.5, 0.5, 0.25], memory=[1e9] * 5)
    drawn = chart(found, height_of(2, foot=False))
    assert drawn.description() == "Processor 25 %. Memory 1.0 GB"
    frame = drawn.frames[0]
    assert drawn.read(frame.column(2.0), frame.box.middle) == "Processor: 150 %"
    assert drawn.read(frame.box.right + 50, frame.box.middle) == ""
    drawing = Drawing(LIGHT, UsualSizes())
    drawn.draw(drawing)
    assert any(isinstance(item, Words) and item.text == "Processor" for item in drawing.items)


@pytest.mark.parametrize(("height", "rows"), [(30.0, 1), (90.0, 2), (400.0, 3)])
def test_where_there_is_little_room_the_first_rows_are_drawn(height: float, rows: int) -> None:
    found = history(cpu=[NAN, 1.0], memory=[1e9, 1e9], power=[40.0, 50.0])
    drawn = chart(found, height)
    assert len(drawn.frames) == rows
    assert all(frame.box.bottom <= max(height, 40.0) for frame in drawn.frames)


def test_of_many_samples_the_extremes_are_drawn() -> None:
    found = History()
    found.feed(1, Schema(id=1, metrics=METRICS))
    found.feed(1, points(0, [1.0], time=100.0))
    found.feed(1, points(1, [1.0], time=100.0 + 5000))
    use = [0.1] * 5000
    use[2500] = 2.0
    found.feed(1, pulse(100, cpu=use))
    drawing = Drawing(LIGHT, UsualSizes())
    drawn = chart(found, height_of(1, foot=False))
    drawn.draw(drawing)
    lines = [item for item in drawing.items if isinstance(item, Path) and len(item.y) > 100]
    assert lines or any(hasattr(item, "items") for item in drawing.items)
