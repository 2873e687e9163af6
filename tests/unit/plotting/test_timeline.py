"""A timeline: bars from points, what a row does at a moment, and the text of a terminal."""

from __future__ import annotations

import numpy as np
import pytest

from clew_gui.plotting.measured import measured_plots, text_tables
from clew_gui.plotting.timeline import Bar, bar_at, bars, busy_share, last_end, timeline_text
from clew_shared.cards import SeriesPlot
from clew_shared.journal.events import Series
from clew_shared.journal.history import Measured

SPEC = SeriesPlot(id="t", title="One step", series=("Device 1", "Device 2", "Device 3"), form="timeline")
ROWS = {"Device 1": ([0, 1, 2, 4, 8], [1, 2, 0, -1, 0]), "Device 2": ([1, 2, 4], [1, -1, 0])}


def rows() -> dict[str, Measured]:
    last = Series(name="", x=b"", y=b"", x_label="Time", x_unit="s")
    return {name: Measured(np.array(x, "f8"), np.array(y, "f8"), last) for name, (x, y) in ROWS.items()}


def test_a_bar_is_from_one_point_to_the_next() -> None:
    (plot,) = measured_plots([SPEC], rows())
    one, two = plot.lines
    assert bars(one) == [Bar(0, 1, 1, False), Bar(1, 2, 2, False), Bar(4, 8, 1, True)]
    assert [bar.text() for bar in bars(two)] == ["forward 1", "backward 1"]
    assert last_end(plot.lines) == 8
    assert (busy_share(one, 8), busy_share(two, 8)) == (6 / 8, 3 / 8)


@pytest.mark.parametrize(
    ("moment", "text"), [(0, "forward 1"), (1.5, "forward 2"), (2, ""), (4, "backward 1"), (8, ""), (-1, "")]
)
def test_at_a_moment_a_row_works_or_waits(moment: float, text: str) -> None:
    (plot,) = measured_plots([SPEC], rows())
    bar = bar_at(plot.lines[0], moment)
    assert (bar.text() if bar else "") == text


def test_a_terminal_shows_a_row_of_letters_and_no_table() -> None:
    (plot,) = measured_plots([SPEC], rows())
    assert timeline_text(plot) == [
        "One step, 8.00 s: F forward, B backward, · waits",
        "Device 1  " + 16 * "F" + 16 * "·" + 32 * "B" + "  works 75%",
        "Device 2  " + 8 * "·" + 8 * "F" + 16 * "B" + 32 * "·" + "  works 38%",
    ]
    assert text_tables([plot]) == []


def test_bars_may_have_names() -> None:
    spec = SeriesPlot(id="t", title="One step", series=("Device 2",), form="timeline", bars=("Trains", "Waits for it"))
    (plot,) = measured_plots([spec], rows())
    assert [bar.text(spec.bars) for bar in bars(plot.lines[0])] == ["Trains", "Waits for it"]
    assert timeline_text(plot) == [
        "One step, 4.00 s: T trains, W waits for it",
        "Device 2  " + 16 * "·" + 16 * "T" + 32 * "W" + "  4.00 s",
    ]


def test_nothing_measured_has_no_text() -> None:
    assert timeline_text(*measured_plots([SPEC], {})) == []
