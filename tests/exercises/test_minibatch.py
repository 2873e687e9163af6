"""The same network over the batch size: the same number of samples each, and points that mean what they say."""

from __future__ import annotations

import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.devices.minibatch import (
    EXERCISE,
    MinibatchSettings,
    Network,
    batch_sizes,
    counted_bytes,
    network_settings,
    peak_bytes,
    restart_peak,
)
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Setup
from clew_gui.study.goals import check_goal
from clew_shared.journal.events import Attempt, Schema
from clew_shared.journal.history import History
from clew_shared.params import build

VALUES = {"samples": 1000, "hidden": 8, "largest": 32}


@pytest.fixture(scope="module")
def history(small_digits: DataSet) -> History:
    found = History()
    found.feed(1, Attempt(format=1, run="r", attempt=1, exercise=EXERCISE.id, spec_sha256=""))
    for event in EXERCISE.measure(Setup(build(MinibatchSettings, VALUES), 1, small_digits)):
        found.feed(1, event)
    return found


def test_each_batch_size_has_its_time_accuracy_and_memory(history: History) -> None:
    assert set(history.series) == {"Time per sample", "Test accuracy", "Measured", "Counted"}
    assert all(one.x.tolist() == [1, 8, 32] for one in history.series.values())
    assert (history.series["Time per sample"].y > 0).all()
    assert (history.fold.step, history.fold.steps) == (3, 3)
    drawn = [name for plot in EXERCISE.measured for name in plot.series]
    assert sorted(drawn) == sorted(history.series), "each is in a plot of the card"


def test_the_accuracy_is_that_of_the_same_training_alone(history: History, small_digits: DataSet) -> None:
    settings = network_settings(build(MinibatchSettings, VALUES), 8)
    assert settings.steps * settings.batch_size == VALUES["samples"]
    engine = Engine(Network(), settings, 1, small_digits)
    engine.compile()
    while not engine.done:
        engine.run_block()
    assert history.series["Test accuracy"].y[1] == pytest.approx(engine.evaluate()["test_accuracy"])


def test_the_goals_are_judged_by_what_was_measured(history: History) -> None:
    faster, accurate, _ = (check_goal(goal, history, EXERCISE.card()) for goal in EXERCISE.goals)
    times = history.series["Time per sample"].y
    assert faster.value == pytest.approx(times[0] / times.min())
    assert accurate.value == pytest.approx(history.series["Test accuracy"].y[-1])


def test_a_run_may_be_stopped_between_any_two_blocks(small_digits: DataSet) -> None:
    running = EXERCISE.measure(Setup(build(MinibatchSettings, VALUES), 1, small_digits))
    assert isinstance(next(running), Schema)
    assert next(running) is None, "a block of the first training, of which there is nothing to record yet"
    running.close()  # type: ignore[attr-defined]  # it is a generator


def test_the_rate_may_grow_with_the_batch() -> None:
    plain, scaled = (build(MinibatchSettings, {"learning_rate": 0.2, "scale_rate": on}) for on in (False, True))
    assert [network_settings(plain, size).learning_rate for size in (8, 64)] == [0.2, 0.2]
    assert [network_settings(scaled, size).learning_rate for size in (8, 64)] == [0.05, 0.4]


def test_batches_are_not_larger_than_the_training_set() -> None:
    assert batch_sizes(2048, 60_000) == [1, 8, 32, 128, 512, 2048]
    assert batch_sizes(2048, 1200) == [1, 8, 32, 128, 512]


def test_memory_is_counted_in_proportion_to_the_batch() -> None:
    one, two, three = (counted_bytes(784, 256, 10, batch) for batch in (1, 2, 3))
    assert two - one == three - two == 4 * (784 + 2 * 256 + 2 * 10)


def test_the_peak_is_that_since_it_was_restarted() -> None:
    held = restart_peak()
    block = bytearray(64_000_000)
    block[::4096] = b"x" * len(block[::4096])
    del block
    assert peak_bytes() - held > 50_000_000, "although it is given back"
    again = restart_peak()
    assert peak_bytes() - again < 50_000_000
