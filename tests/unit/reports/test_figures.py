"""The figures of a report: curves, and what a run took pictures of."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.chart import drawn
from clew_gui.charts.convergence import ConvergenceChart, ConvergenceLine
from clew_gui.charts.drawing import UsualSizes, Words
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.reports.figures import LabelledRun, figures_of
from clew_shared.cards import ConfusionMatrix, ExerciseCard, Gallery, ImageGrid, MetricSpec, PlotSpec
from clew_shared.journal.events import Attempt, Evaluation, Image, Matrix, Points, Schema
from clew_shared.journal.history import History
from clew_shared.spec import RunSpec
from tests.unit.reports.test_parallel_figures import words

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


def test_the_curve_of_the_batches_is_pale_beside_the_one_of_held_out_data() -> None:
    curves = figures_of(CARD, [a_run()])[0]
    assert re.findall(r'<path[^>]*stroke-opacity="0.3"', curves.svg)
    assert len(re.findall(r'<path[^>]*stroke-width="1.6"', curves.svg)) == 1
    assert "pale lines are the training batches" in curves.caption
    plain = msgspec.structs.replace(CARD, plots=(PlotSpec(id="loss", title="Loss", metrics=("loss",)),))
    assert 'stroke-opacity="0.3"' not in figures_of(plain, [a_run()])[0].svg


def test_pictures_of_a_run_are_one_figure_in_which_wrong_answers_are_named() -> None:
    (found,) = figures_of(CARD, [a_run()])[1:]
    assert (found.title, found.caption) == ("Weights, wrong, confusion", "After 10 steps.")
    said = words(found.svg)
    assert {"Weights", "Wrong", "Confusion", "cat → dog", "dog → cat"} <= set(said)
    assert {"5", "1", "2", "7"} <= set(said), "the confusion matrix"
    titles = [re.search(rf'<text x="([\d.]+)"[^>]*>{one}<', found.svg) for one in ("Weights", "Wrong", "Confusion")]
    assert len({title[1] for title in titles if title}) == 2, "two columns"


def test_goals_that_are_as_high_have_their_words_beside_each_other() -> None:
    goals = [(goal, f"goal {goal}") for goal in (0.9, 0.91, 0.2)]
    x = np.array([0.0, 1.0])
    line = ConvergenceLine(RunStyle("1", "Run", 0), x, x, x, x, 1.0, evaluated=False)
    box, sizes = Box(0, 0, 760, 270), UsualSizes()
    items = drawn(ConvergenceChart("Accuracy", [line], Span(0, 1), box, sizes, goals=goals), LIGHT, sizes)
    ends = [item.x for item in items if isinstance(item, Words) and item.text.startswith("goal")]
    assert ends[0] == ends[2]
    assert ends[1] < ends[0] - 40
