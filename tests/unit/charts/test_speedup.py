"""The Speed-up tab's plots and table, from measurements whose answers are known."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence

import numpy as np
import pytest

from clew_gui.charts.kit.lines import LinesPlot, PlotLine
from clew_gui.charts.kit.ticks import Span
from clew_gui.charts.speedup import (
    CSV_HEADS,
    ScalingRun,
    as_csv,
    efficiency_plot,
    speedup_plot,
    speedup_scene,
    table,
)
from clew_gui.study.scaling import JURECA, NetworkSpeed, RunTiming, Scaling, forecast, measure
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Points, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec


def amdahl(serial: float, counts: Sequence[int] = (1, 2, 4, 8)) -> Scaling:
    """Two repeats of each count that follow the law, 1 % apart."""
    rates = {n: 100 / (serial + (1 - serial) / n) for n in counts}
    timings = [RunTiming(n, 100, (1000.0,), (1000.0 / (rates[n] * off),)) for n in counts for off in (0.995, 1.005)]
    return measure(timings, warm_up=20)


def scaling_run(card: ExerciseCard, devices: int, seconds: float, batch: int = 100) -> ScalingRun:
    """A finished run of six blocks of ten steps."""
    history = History()
    metrics = tuple(metric for metric in card.metrics if metric.per_step)[:1]
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise=card.id, spec_sha256=""))
    history.feed(1, Schema(id=1, metrics=metrics, batch_size=batch))
    for first in range(0, 60, 10):
        values = (np.zeros(10, "<f4").tobytes(),)
        history.feed(1, Points(schema=1, first=first, count=10, seconds=seconds, clock=0.0, values=values))
    history.feed(1, State(state=RunState.FINISHED, step=60))
    spec = RunSpec(exercise=card.id, strategy="mirrored", devices=devices, params={"steps": 60})
    return ScalingRun(spec, RunState.FINISHED, history)


def line(plot: LinesPlot, name: str) -> PlotLine:
    (found,) = [one for one in plot.lines if one.name == name]
    return found


def test_a_law_that_fits_is_drawn_through_the_measurements() -> None:
    plot = speedup_plot(amdahl(0.1), "GPUs", JURECA)
    measured = line(plot, "Measured")
    assert plot.caption == "by GPUs, log scales, line: Amdahl fit"
    assert measured.x.tolist() == [0, 1, 2, 3]
    assert 2**measured.y == pytest.approx([1, 1 / 0.55, 1 / 0.325, 1 / 0.2125])
    assert measured.path is not None
    assert len(measured.path[0]) > 20
    assert [one[-1] for one in measured.path] == pytest.approx([3, math.log2(1 / 0.2125)], rel=1e-3)
    assert measured.value == "4.7×"
    assert measured.ranges is not None
    assert measured.ranges[1, 0] < measured.y[1] < measured.ranges[1, 1]
    assert measured.point(0) == "Measured: 1 device, 1.00×"
    assert measured.point(1).startswith("Measured: 2 devices, 1.82×, between 1.76× and ")
    assert (line(plot, "Ideal").x.tolist(), line(plot, "Ideal").y.tolist()) == ([0, 3], [0, 3])
    assert 2 ** line(plot, "Slides' table").y == pytest.approx([1, 178 / 55, 357 / 55])
    assert [tick.text for tick in plot.x.ticks] == ["1", "2", "4", "8"]
    assert [tick.text for tick in plot.y.ticks] == ["1×", "2×", "4×", "8×"]


def test_without_a_law_the_measurements_are_joined_and_a_slow_down_is_in_sight() -> None:
    slow = measure([RunTiming(n, 100, (100.0,), (seconds,)) for n, seconds in ((1, 1.0), (2, 2.0), (4, 4.0))])
    plot = speedup_plot(slow)
    assert line(plot, "Measured").y.tolist() == [0, -1, -2]
    assert plot.caption == "by devices, log scales"
    assert plot.y.span.low < -2
    assert [tick.text for tick in plot.y.ticks] == ["0.25×", "0.5×", "1×", "2×", "4×"]


def test_efficiency_is_the_share_of_each_device() -> None:
    plot = efficiency_plot(amdahl(0.1), "GPUs", JURECA)
    measured = line(plot, "Measured")
    assert measured.y == pytest.approx([1, 1 / 1.1, 1 / 1.3, 1 / 1.7])
    assert measured.value == "59 %"
    assert plot.caption == "speed-up per GPU"
    assert plot.y.ticks[-1].text == "100 %"
    assert measured.ranges is not None
    assert plot.y.span.contains(Span(measured.ranges.min(), measured.ranges.max()))


def test_a_single_number_of_devices_leaves_room_for_the_next() -> None:
    plot = speedup_plot(amdahl(0.1, (4,)))
    assert [tick.text for tick in plot.x.ticks] == ["4", "8"]
    assert (line(plot, "Measured").x.tolist(), line(plot, "Measured").path) == ([2], None)
    assert all(one.name != "Slides' table" for one in speedup_plot(amdahl(0.1, (4, 8)), reference=JURECA).lines)


def test_a_forecast_reaches_beyond_what_was_measured() -> None:
    predicted = forecast(1.0, 100, 1e8, NetworkSpeed(1e9), counts=(2, 4, 8, 16))
    plot = speedup_plot(amdahl(0.1, (1, 2)), predicted=predicted)
    assert [tick.text for tick in plot.x.ticks] == ["1", "2", "16"]
    assert len(line(plot, "Forecast").x) == 5
    assert line(plot, "Forecast").y[-1] == pytest.approx(math.log2(predicted[-1].speedup))


def test_the_table_and_the_csv_say_the_same() -> None:
    scaling = amdahl(0.0, (1, 2))
    heads, one, two = table(scaling, 50, "Devices", "images", JURECA)
    assert heads == ("Devices", "50 steps", "Images/s", "95 % interval", "Speed-up", "Efficiency", "Slides")
    assert one[:3] == ("1", "50.0 s", "100.0")
    assert two[4:] == ("2.00×", "100 %", "–")
    lines = list(csv.DictReader(as_csv(scaling.rows).splitlines()))
    assert tuple(lines[0]) == CSV_HEADS
    assert float(lines[1]["speedup"]) == pytest.approx(2.0)
    assert float(lines[1]["speedup_low"]) < 2.0 < float(lines[1]["speedup_high"])
    bare = measure([RunTiming(1, 100, (100.0,), (1.0,))])
    assert next(csv.DictReader(as_csv(bare.rows).splitlines()))["images_per_second_low"] == ""


def test_a_run_that_was_continued_is_not_shown() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    runs = [scaling_run(card, devices, seconds) for devices, seconds in ((1, 1.0), (2, 0.6), (4, 0.4))]
    again = Attempt(format=1, run="r", attempt=2, exercise="softmax", spec_sha256="", start_step=60, resumes=1)
    runs[2].history.feed(2, again)
    runs[2].history.feed(2, State(state=RunState.FINISHED, step=60))
    assert [row.replicas for row in speedup_scene(runs, card, weak=False).scaling.rows] == [1, 2]


@pytest.mark.parametrize(("batch", "counts", "words"), [(200, (2, 4), "100"), (100, (3, 6), "33.3")])
def test_the_title_of_weak_scaling_names_the_batch_of_one_device(
    batch: int, counts: tuple[int, int], words: str
) -> None:
    card = find_card(load_builtin().exercises, "softmax")
    runs = [scaling_run(card, n, 1.0, batch * n // counts[0]) for n in counts]
    assert speedup_scene(runs, card, weak=True).title == f"Weak scaling, batch {words} on each device"
    assert speedup_scene(runs[:1], card, weak=False).title == f"Strong scaling, batch {batch}"


def test_a_study_without_a_finished_run_is_a_sentence() -> None:
    scene = speedup_scene((), find_card(load_builtin().exercises, "softmax"), weak=False)
    assert scene.plots == ()
    assert scene.conclusion.sentence == "Nothing has been measured yet."
    assert len(scene.table) == 1
