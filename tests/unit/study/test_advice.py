"""Advice on histories that show what it is about, and none on histories that do not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import clew_gui
from clew_gui.study.advice import advise
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Attempt, Evaluation, Points, Schema, State
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from clew_shared.spec import RateRange, RunSpec, to_toml

STEPS = 400
AT = np.arange(STEPS)
NOISE = np.random.default_rng(7).normal(0, 0.05, STEPS)
FALLS = 2.3 * np.exp(-AT / 60) + 0.1
PLAIN = RunSpec(exercise="e")
Curve = NDArray[np.floating[Any]]


def run(
    columns: Mapping[str, Curve],
    held_out: Mapping[str, list[float]] | None = None,
    batch: int = 50,
    state: RunState = RunState.FINISHED,
    spec: RunSpec = PLAIN,
) -> History:
    """A run that recorded these columns, and these values at equal distances."""
    later = held_out or {}
    metrics = [MetricSpec(name=name, label=name.capitalize()) for name in columns]
    metrics += [MetricSpec(name=name, label=name.replace("_", " ").capitalize(), per_step=False) for name in later]
    history = History()
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="e", spec_sha256="", spec=to_toml(spec)))
    history.feed(1, Schema(id=1, metrics=tuple(metrics), batch_size=batch, samples_per_epoch=1000, steps=STEPS))
    values = tuple(np.asarray(column, "<f4").tobytes() for column in columns.values())
    history.feed(1, State(state=RunState.RUNNING))
    history.feed(1, Points(schema=1, first=0, count=STEPS, seconds=1.0, clock=1.0, values=values))
    for name, found in later.items():
        for number, value in enumerate(found, 1):
            history.feed(1, Evaluation(step=number * STEPS // len(found), values={name: value}))
    if state is not RunState.RUNNING:
        history.feed(1, State(state=state, step=STEPS))
    return history


SHOWS = {
    "divergence": (run({"loss": np.where(AT < 120, FALLS, np.nan)}), 120, "step 120"),
    "rate-large": (run({"loss": 2.3 + AT / 20 + NOISE}), 0, "smaller learning rate"),
    "rate-small": (run({"loss": 2.3 - AT / 2000 + NOISE / 10}), 300, "fell by 7.5 %"),
    "plateau": (run({"loss": 2.3 + NOISE / 10}), 0, "has hardly come down from where it began"),
    "plateau, later": (run({"loss": 1.0 + 1.3 * np.exp(-AT / 15) + NOISE / 10}), 100, "since step 100"),
    "overfitting": (
        run({"loss": FALLS}, {"validation_loss": [1.0, 0.6, 0.5, 0.6, 0.7, 0.8]}),
        200,
        "On the validation data the loss was lowest at step 200",
    ),
    "overfitting, by accuracy": (
        run({"loss": FALLS, "accuracy": 1 - FALLS / 4}, {"test_accuracy": [0.7, 0.8]}),
        400,
        "17 points below",
    ),
    "batch-large": (
        run({"loss": FALLS, "accuracy": 1 - FALLS / 4}, {"validation_accuracy": [0.8, 0.88]}, batch=500),
        400,
        "50 % of the training set",
    ),
    "chance": (
        run({"loss": np.where(AT < 8, 90.0, np.log(10) + NOISE / 20), "accuracy": np.full(STEPS, 0.1)}),
        200,
        "stays at 2.3, the logarithm of 10: the network guesses",
    ),
    "noise": (run({"loss": 400 * NOISE**2}), 200, "From batch to batch the loss changes by"),
    "accuracy-fell": (
        run({"loss": FALLS, "accuracy": 0.6 + AT / 2000}, {"validation_accuracy": [0.5, 0.8, 0.7, 0.65, 0.6]}),
        160,
        "The validation accuracy was highest at step 160 and has fallen by 15 points since",
    ),
    "dead-units": (
        run({"loss": FALLS, "layer1_gradient": np.where(AT < 100, 1.0, 0.0)}),
        100,
        "Layer1_gradient is 0 from step 100 on",
    ),
}


@pytest.mark.parametrize("name", SHOWS)
def test_what_a_history_shows_is_said_with_its_step(name: str) -> None:
    history, step, words = SHOWS[name]
    (found,) = advise(history)
    assert (found.kind, found.step) == (name.partition(",")[0], step)
    assert words in found.text
    assert found.text.endswith(".")
    assert found.text.count(". ") == 0, "one sentence"


HEALTHY = {
    "falls": run({"loss": FALLS + NOISE}),
    "has learned what there is": run({"loss": 2.3 * np.exp(-AT / 20)}),
    "batches differ much": run({"loss": FALLS + 6 * np.abs(NOISE)}),
    "falls slowly in noise": run({"loss": 2.3 - AT / 20000 + 10 * NOISE}),
    "one bad step": run({"loss": np.where(AT == 350, 30.0, FALLS)}),
    "one bad evaluation": run({"loss": FALLS}, {"validation_loss": [1.0, 0.5, 0.4, 0.8, 0.4]}),
    "test near training": run({"loss": FALLS, "accuracy": 1 - FALLS / 4}, {"test_accuracy": [0.8, 0.93]}),
    "a large batch that does no harm": run(
        {"loss": FALLS, "accuracy": 1 - FALLS / 4}, {"test_accuracy": [0.8, 0.96]}, batch=500
    ),
    "many local steps": run(
        {"loss": FALLS, "accuracy": 1 - FALLS / 4},
        {"validation_accuracy": [0.8, 0.88]},
        batch=500,
        spec=RunSpec(exercise="e", strategy="parameter-server", options={"local_steps": 10}),
    ),
    "a gradient that comes back": run({"loss": FALLS, "w_gradient": np.where(AT % 7 == 0, 1.0, 0.0)}),
    "falls, and answers are still wrong": run({"loss": FALLS, "accuracy": np.full(STEPS, 0.1)}),
    "one bad evaluation of accuracy": run({"loss": FALLS}, {"validation_accuracy": [0.5, 0.8, 0.5, 0.79]}),
    "not trained to the end": run({"loss": FALLS, "accuracy": 0.6 + AT / 2000}, {"test_accuracy": [0.5, 0.6]}),
    "no loss": run({"accuracy": 1 - FALLS / 4}),
    "a range test": run({"loss": 2.3 + AT / 20 + NOISE}, spec=RunSpec(exercise="e", rate_range=RateRange(0.1, 10.0))),
    "still training": run({"loss": 2.3 + NOISE / 10}, state=RunState.RUNNING),
}


def test_the_recorded_demonstrations_get_no_advice() -> None:
    folders = [path.parent for path in Path(clew_gui.__file__).with_name("demonstrations").rglob("journal.0001")]
    assert len(folders) >= 2
    assert [advise(read_run(folder)) for folder in folders] == [()] * len(folders)


def test_a_loss_that_creeps_is_no_plateau_as_well() -> None:
    (found,) = advise(run({"loss": 2.3 - AT / 100_000}))
    assert found.kind == "rate-small"


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_history_gets_no_advice(name: str) -> None:
    assert advise(HEALTHY[name]) == ()
