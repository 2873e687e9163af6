"""The figures of a report: curves, and what a run took pictures of."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pytest

from clew_gui.base.tokens import LIGHT
from clew_gui.reports.figures import LabelledRun, figures_of
from clew_shared.cards import Bars, ConfusionMatrix, ExerciseCard, Gallery, ImageGrid, MetricSpec, PlotSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Attempt, Evaluation, Event, Image, Matrix, Points, Schema, Series, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.study.study import axis_words
from tests.simulated_cluster import SCHEMA, SimulatedCluster
from tests.unit.charts.test_speedup import scaling_run

LOSS = MetricSpec(name="loss", label="Training loss")
TEST = MetricSpec(name="test_loss", label="Test loss", per_step=False)
CARD = ExerciseCard(
    id="e",
    title="E",
    metrics=(LOSS, TEST),
    plots=(PlotSpec(id="loss", title="Loss", metrics=("loss", "test_loss")),),
    pictures=(ImageGrid("weights"), Gallery("wrong", labels=("cat", "dog")), ConfusionMatrix("confusion")),
)


def a_run() -> LabelledRun:
    history = History()
    values = np.linspace(2, 1, 10, dtype="<f4").tobytes()
    classes, answers = (np.array(found, "<i4").tobytes() for found in ([0, 1], [1, 0]))
    grid = Image(name="weights", step=10, width=2, height=2, channels=1, count=2, data=bytes(8))
    cells = np.array([[5, 1], [2, 7]], "<f8").tobytes()
    for event in (
        Attempt(format=1, run="r", attempt=1, exercise="e", spec_sha256=""),
        Schema(id=1, metrics=(LOSS, TEST), steps=10),
        Points(schema=1, first=0, count=10, seconds=1.0, clock=1.0, values=(values,)),
        Evaluation(step=5, values={"test_loss": 1.5}),
        Evaluation(step=10, values={"test_loss": 1.2}),
        grid,
        Image(
            name="wrong",
            step=10,
            width=1,
            height=1,
            channels=1,
            count=2,
            data=bytes(2),
            classes=classes,
            answers=answers,
        ),
        Matrix(name="confusion", step=10, rows=2, columns=2, data=cells),
    ):
        history.feed(1, event)
    return LabelledRun("Run", history, RunSpec(exercise="e"))


def test_curves_are_drawn_and_named_as_in_the_window() -> None:
    curves = figures_of(CARD, [a_run()])[0]
    said = words(curves.svg)
    assert {"Loss", "Run", "line: Training loss", "points: Test loss"} <= set(said)
    assert curves.caption == "Training loss, Test loss over steps."
    assert "<desc>Loss: Run last 1.00 at step 9.</desc>" in curves.svg
    assert len(re.findall(r"<circle", curves.svg)) == 2, "an evaluation each"


def test_what_each_run_was_expected_to_do_is_a_curve_of_its_own() -> None:
    drawn = [("loss", np.array([0.0, 10.0]), np.array([2.0, last])) for last in (1.0, 0.5)]
    curves = figures_of(CARD, [a_run()._replace(expected=one) for one in drawn])[0]
    assert curves.caption.endswith("The dashed curve is what was expected before the run.")
    assert len(re.findall(r'stroke-dasharray="5 5"', curves.svg)) == 2
    assert "Your prediction" in words(curves.svg)


def test_an_expected_curve_is_in_sight_however_far_it_is_from_the_values() -> None:
    drawn = [("loss", np.array([0.0, 10.0]), np.array([high, 40.0])) for high in (3.0, 5.0)]
    said = words(figures_of(CARD, [a_run()._replace(expected=one) for one in drawn])[0].svg)
    assert "40" in said, "on the axis of values"


def test_an_expected_curve_that_a_logarithmic_axis_cannot_show_is_left_out() -> None:
    card = msgspec.structs.replace(CARD, plots=(msgspec.structs.replace(CARD.plots[0], log=True),))
    nothing, some = (("loss", np.array([0.0, 10.0]), np.array([value, value])) for value in (0.0, 0.5))
    for drawn, named in (([nothing], False), ([nothing, some], True)):
        said = words(figures_of(card, [a_run()._replace(expected=one) for one in drawn])[0].svg)
        assert ("Your prediction" in said) is named


def test_pictures_of_a_run_are_one_figure_in_which_wrong_answers_are_named() -> None:
    (found,) = figures_of(CARD, [a_run()])[1:]
    assert (found.title, found.caption) == ("Weights, wrong, confusion", "After 10 steps.")
    said = words(found.svg)
    assert {"Weights", "Wrong", "Confusion", "cat → dog", "dog → cat"} <= set(said)
    assert {"5", "1", "2", "7"} <= set(said), "the confusion matrix"
    titles = [re.search(rf'<text x="([\d.]+)"[^>]*>{one}<', found.svg) for one in ("Weights", "Wrong", "Confusion")]
    assert len({title[1] for title in titles if title}) == 2, "two columns"


@pytest.mark.parametrize("log", [False, True])
def test_bars_without_values_and_with_values_as_large_as_a_number_can_be_are_drawn(log: bool) -> None:
    card = msgspec.structs.replace(CARD, pictures=(msgspec.structs.replace(Bars("norms"), log_y=log),))
    for rows, data in ((0, []), (1, [1e308, -1e308])):
        run = a_run()
        cells = np.array(data, "<f8").tobytes()
        run.history.feed(1, Matrix(name="norms", step=10, rows=rows, columns=2, data=cells))
        found = figures_of(card, [run])[-1]
        assert found.title == "Norms"
        assert "nan" not in found.svg


# --- A report shows of runs on several devices what the tabs show -----------------------------------------------------


def fed(exercise: str, *events: Event) -> History:
    history = History()
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise=exercise, spec_sha256="", host="node1"))
    for event in events:
        history.feed(1, event)
    return history


def words(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_parameter_servers_have_a_histogram_and_a_table_of_workers() -> None:
    cluster = SimulatedCluster(workers=3)
    history = fed("ps-lab", SCHEMA, *cluster.join(), *cluster.train(4, 20), State(state=RunState.FINISHED))
    spec = RunSpec(exercise="ps-lab", strategy="parameter-server", options={"workers": 3})
    card = find_card(load_builtin().exercises, "ps-lab")
    (figure,) = [one for one in figures_of(card, [LabelledRun("Run", history, spec)]) if one.title == "Staleness"]
    counts = history.updates.counts
    assert "Asynchronous: 1 coordinator, 1 server, 3 workers on 4 nodes." in figure.caption
    assert f"{counts.mean_staleness:.1f} updates old on average" in figure.caption
    assert f"median {counts.median_staleness()}" in words(figure.svg)
    heads, *rows = figure.table
    assert heads[:4] == ("Worker", "Node", "Gradients", "Applied")
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (str(worker), f"node{worker + 2}", f"{counts.workers[1, worker]:,}") for worker in range(3)
    ]


def test_a_pipeline_has_a_row_of_tasks_for_each_device() -> None:
    card = find_card(load_builtin().exercises, "model-parallel")

    def device(number: int, x: list[float], y: list[float]) -> Series:
        points: dict[str, Any] = {"x": np.array(x, "<f8").tobytes(), "y": np.array(y, "<f8").tobytes()}
        return Series(name=f"Device {number}", x_label="Time", y_label="Micro-batch", x_unit="s", **points)

    first, second = device(1, [0, 1, 2, 4, 5, 6], [1, 2, 0, -1, -2, 0]), device(2, [1, 2, 3, 4, 5], [1, 2, -1, -2, 0])
    history = fed("model-parallel", first, second)
    (figure,) = figures_of(card, [LabelledRun("Run", history, RunSpec(exercise="model-parallel"))])
    assert figure.caption.endswith("On average a device waits 33 % of the time.")
    assert figure.table[1:] == (("Device 1", "4", "67 %"), ("Device 2", "4", "67 %"))
    found = re.findall(r'<rect[^>]*width="([^"]*)"[^>]*fill="([^"]*)"', figure.svg)
    bars = [colour for width, colour in found if colour in LIGHT.curves[:2] and float(width) > 10]
    assert [bars.count(colour) for colour in LIGHT.curves[:2]] == [4, 4], "forward and backward"
    numbers = [word for word in words(figure.svg) if word in ("1", "2")]
    assert numbers == ["1", "2"] * 4


def test_the_runs_of_a_scaling_study_have_their_speed_up() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    found = [scaling_run(card, devices, seconds) for devices, seconds in ((1, 0.04), (2, 0.02), (4, 0.02))]
    names = [axis_words("devices", run.spec.devices) for run in found]
    specs = [
        msgspec.structs.replace(run.spec, study="scaling-a", name=name, timed=True)
        for name, run in zip(names, found, strict=True)
    ]
    runs = [LabelledRun(spec.name, run.history, spec) for spec, run in zip(specs, found, strict=True)]
    speedup, efficiency = [one for one in figures_of(card, runs) if "scaling" in one.title]
    assert [row[-2:] for row in speedup.table] == [
        ("Speed-up", "Efficiency"),
        ("1.00×", "100 %"),
        ("2.00×", "100 %"),
        ("2.00×", "50 %"),
    ]
    assert {"Measured", "2.0×"} <= set(words(speedup.svg))
    assert {"Measured", "50 %"} <= set(words(efficiency.svg))
    assert not [one for one in figures_of(card, runs[:1]) if "scaling" in one.title], "one is no comparison"
