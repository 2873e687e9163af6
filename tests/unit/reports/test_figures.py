"""The figures of a report: curves, and what a run took pictures of."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from clew_gui.reports.figures import LabelledRun, figures_of
from clew_shared.cards import Bars, ConfusionMatrix, ExerciseCard, Gallery, ImageGrid, MetricSpec, PlotSpec
from clew_shared.journal.events import Attempt, Evaluation, Image, Matrix, Points, Schema
from clew_shared.journal.history import History
from clew_shared.spec import RunSpec
from tests.unit.reports.test_figures_of_devices import words

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
