"""Measured relations: numbers with their units, what a plot takes from a run, and the table of a terminal."""

from __future__ import annotations

import numpy as np
import pytest

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.kit.drawing import Marks, UsualSizes, drawn
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Format, Span, span_of
from clew_gui.charts.measured import (
    Bar,
    MeasuredChart,
    MeasuredRun,
    axis_ticks,
    measured_plots,
    quantity_text,
    text_tables,
    timeline_text,
)
from clew_shared.cards import SeriesPlot
from clew_shared.journal.events import Series
from clew_shared.journal.history import Measured

TIME = SeriesPlot(id="time", title="Time per call", log_x=True, log_y=True)


def measured(x: list[float], y: list[float], label: str = "Time per call", unit: str = "s") -> Measured:
    last = Series(name="", x=b"", y=b"", x_label="Size", y_label=label, y_unit=unit)
    return Measured(np.array(x), np.array(y), last)


@pytest.mark.parametrize(
    ("value", "unit", "form", "text"),
    [
        (1.234e-8, "s", "number", "12.3 ns"),
        (999.9e-9, "s", "number", "1.00 µs"),
        (1e-6, "s", "number", "1.00 µs"),
        (0.0461, "s", "number", "46.1 ms"),
        (75.0, "s", "number", "75.0 s"),
        (0.0, "s", "number", "0 s"),
        (1.63e6, "B", "number", "1.63 MB"),
        (900.0, "B", "number", "900 B"),
        (-2e6, "B", "number", "-2.00 MB"),
        (0.7891, "", "percent", "78.91 %"),
        (1_000_000.0, "", "number", "1,000,000"),
        (2.5, "", "number", "2.50"),
        (3.0, "images", "number", "3 images"),
        (float("inf"), "s", "number", "∞ s"),
    ],
)
def test_numbers_have_their_units(value: float, unit: str, form: Format, text: str) -> None:
    assert quantity_text(value, unit, form) == text


def test_an_axis_has_the_prefix_at_each_number() -> None:
    log = axis_ticks(Span(-6.2, -0.9), 6, log=True, unit="s")
    assert [tick.text for tick in log] == ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]
    linear = axis_ticks(Span(0, 40e6), 4, log=False, unit="B")
    assert [tick.text for tick in linear] == ["0 MB", "10 MB", "20 MB", "30 MB", "40 MB"]
    assert [tick.at for tick in linear] == pytest.approx([0, 10e6, 20e6, 30e6, 40e6])
    assert [tick.text for tick in axis_ticks(Span(0.0, 1.0), 2, log=False, unit="", form="percent")][-1] == "100 %"


def test_a_range_holds_all_values_with_air() -> None:
    span = span_of([np.array([10.0, 1000.0]), np.array([100.0])], log=True)
    assert span.low < 1.0
    assert span.high > 3.0
    assert span_of([np.array([5.0])], log=False).contains(Span(5.0, 5.0))
    assert span_of([], log=True).size > 0


def test_a_plot_takes_its_series_in_its_order_and_what_its_axes_can_show() -> None:
    series = {"b": measured([10, 1, 0], [1e-3, 1e-6, 1]), "a": measured([1, 2], [np.nan, 3])}
    (plot,) = measured_plots([SeriesPlot(id="p", title="P", series=("a", "b", "none"), log_x=True)], series)
    assert [line.name for line in plot.lines] == ["a", "b"]
    assert [line.x.tolist() for line in plot.lines] == [[2.0], [1.0, 10.0]], "sorted; no NaN, no 0 where logarithmic"
    assert (plot.x.title, plot.y.title) == ("Size", "Time per call")


def test_a_card_without_plots_gets_one_for_each_quantity() -> None:
    series = {
        "loop": measured([10, 10_000], [1e-6, 1e-3]),
        "numpy": measured([10, 10_000], [1e-6, 2e-6]),
        "error": measured([10, 10_000], [0, 1], "Error", ""),
    }
    time, error = measured_plots((), series)
    assert (time.spec.title, time.spec.series) == ("Time per call", ("loop", "numpy"))
    assert (time.spec.log_x, time.spec.log_y, error.spec.log_y) == (True, True, False)


def test_a_table_has_a_row_for_each_size() -> None:
    series = {"loop": measured([10, 100], [1e-6, 12e-6]), "numpy": measured([10], [2e-6])}
    assert text_tables(measured_plots([TIME], series)) == [
        "Size     loop    numpy",
        "  10  1.00 µs  2.00 µs",
        " 100  12.0 µs        –",
    ]
    assert text_tables(measured_plots([TIME], {})) == []
    alone = {"loop": measured([10, 100], [1e-6, 12e-6]), "numpy": measured([20], [2e-6])}
    assert text_tables(measured_plots([TIME], alone)) == [
        "Size     loop",
        "  10  1.00 µs",
        " 100  12.0 µs",
        "numpy: 2.00 µs (size 20)",
    ], "no column of dashes"


def test_of_a_size_that_was_measured_twice_the_last_time_counts() -> None:
    (plot,) = measured_plots([TIME], {"loop": measured([10, 10], [1e-6, 2e-6])})
    assert plot.lines[0].at(10) == 2e-6
    assert plot.lines[0].at(11) is None


def test_a_series_without_points_and_one_as_wide_as_numbers_go_have_axes() -> None:
    assert measured_plots((), {"none": measured([], [])})[0].spec.log_x is False
    span = span_of([np.array([-1.7e308, 1.7e308])], log=False)
    assert np.isfinite(span.size)
    assert len(axis_ticks(span, 5, log=False, unit="")) > 1


def test_a_point_alone_is_seen_in_other_runs_as_well() -> None:
    spec = SeriesPlot(id="roof", title="Roofline", series=("Roof", "CNN"))
    series = {"Roof": measured([1.0, 2.0], [1.0, 2.0]), "CNN": measured([1.5], [1.2])}
    runs = [
        MeasuredRun(RunStyle(name, name, 0, selected=name == "this"), measured_plots([spec], series))
        for name in ("this", "other")
    ]
    sizes = UsualSizes()
    items = drawn(MeasuredChart(runs, Box(0, 0, 600, 300), sizes), LIGHT, sizes)
    marks = [(len(one.x), one.opacity) for one in items if isinstance(one, Marks)]
    assert sorted(marks) == [(1, 0.4), (1, 1.0), (2, 1.0)]


# --- Timelines --------------------------------------------------------------------------------------------------------

TIMELINE = SeriesPlot(id="t", title="One step", series=("Device 1", "Device 2", "Device 3"), form="timeline")
TASKS = {"Device 1": ([0, 1, 2, 4, 8], [1, 2, 0, -1, 0]), "Device 2": ([1, 2, 4], [1, -1, 0])}


def tasks() -> dict[str, Measured]:
    last = Series(name="", x=b"", y=b"", x_label="Time", x_unit="s")
    return {name: Measured(np.array(x, "f8"), np.array(y, "f8"), last) for name, (x, y) in TASKS.items()}


def test_a_bar_is_from_one_point_to_the_next() -> None:
    (plot,) = measured_plots([TIMELINE], tasks())
    one, two = plot.lines
    assert one.bars() == [Bar(0, 1, 1, False), Bar(1, 2, 2, False), Bar(4, 8, 1, True)]
    assert [bar.text() for bar in two.bars()] == ["forward 1", "backward 1"]
    assert plot.end == 8
    assert (one.busy_share(8), two.busy_share(8)) == (6 / 8, 3 / 8)


@pytest.mark.parametrize(
    ("moment", "text"), [(0, "forward 1"), (1.5, "forward 2"), (2, ""), (4, "backward 1"), (8, ""), (-1, "")]
)
def test_at_a_moment_a_row_works_or_waits(moment: float, text: str) -> None:
    (plot,) = measured_plots([TIMELINE], tasks())
    bar = plot.lines[0].bar_at(moment)
    assert (bar.text() if bar else "") == text


def test_a_terminal_shows_a_row_of_letters_and_no_table() -> None:
    (plot,) = measured_plots([TIMELINE], tasks())
    assert timeline_text(plot) == [
        "One step, 8.00 s: F forward, B backward, · waits",
        "Device 1  " + 16 * "F" + 16 * "·" + 32 * "B" + "  works 75%",
        "Device 2  " + 8 * "·" + 8 * "F" + 16 * "B" + 32 * "·" + "  works 38%",
    ]
    assert text_tables([plot]) == []


def test_bars_may_have_names() -> None:
    spec = SeriesPlot(id="t", title="One step", series=("Device 2",), form="timeline", bars=("Trains", "Waits for it"))
    (plot,) = measured_plots([spec], tasks())
    assert [bar.text(spec.bars) for bar in plot.lines[0].bars()] == ["Trains", "Waits for it"]
    assert timeline_text(plot) == [
        "One step, 4.00 s: T trains, W waits for it",
        "Device 2  " + 16 * "·" + 16 * "T" + 32 * "W" + "  4.00 s",
    ]


def test_a_timeline_without_points_has_no_text() -> None:
    assert timeline_text(*measured_plots([TIMELINE], {})) == []
