"""Stages and micro-batches: the losses of one device, and a schedule with the formula's bubble for equal tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.devices import model_parallel
from clew_agent.exercises.devices.model_parallel import (
    EXERCISE,
    TOLERANCE,
    Array,
    ModelParallelSettings,
    Samples,
    TimedRun,
    bubble,
    bubble_formula,
    compare,
    initial_weights,
    make_batches,
    make_stages,
    micro_batch_counts,
    schedule,
    schedule_hybrid,
    step_seconds,
    timeline,
    train_stages,
)
from clew_agent.training import hybrid
from clew_agent.training.exercise import Setup
from clew_gui.study.goals import check_goal
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Attempt, Event, Schema
from clew_shared.journal.history import History
from clew_shared.params import build

VALUES = {"stages": 3, "micro_batches": 4, "batch_size": 32, "layers": 1, "width": 32, "steps": 10}
CPU = "/device:CPU:0"


def events(data: DataSet) -> Iterator[Event | None]:
    return EXERCISE.measure(Setup(build(ModelParallelSettings, VALUES), 1, data))


@pytest.fixture(scope="module")
def history(small_digits: DataSet) -> History:
    found = History()
    found.feed(1, Attempt(format=1, run="r", attempt=1, exercise=EXERCISE.id, spec_sha256=""))
    for event in events(small_digits):
        found.feed(1, event)
    return found


def trained(stages: list[hybrid.Part], batches: list[Samples], micro_batches: int) -> TimedRun:
    running = train_stages(stages, batches, micro_batches, 0.05)
    while True:
        try:
            next(running)
        except StopIteration as end:
            assert isinstance(end.value, TimedRun)
            return end.value


# The losses


@pytest.mark.parametrize("micro_batches", [1, 2, 16])
@pytest.mark.parametrize("layers", [1, 3])
def test_micro_batches_give_the_losses_and_weights_of_whole_batches(
    small_digits: DataSet, micro_batches: int, layers: int
) -> None:
    """Compared with one network that is not cut, in NumPy and float64."""
    setup = Setup(build(ModelParallelSettings, VALUES | {"layers": layers}), 1, small_digits)
    weights, batches = initial_weights(3, setup), make_batches(setup)
    stages = make_stages([CPU] * 3, weights, 10)
    losses, final = reference([value.astype("f8") for own in weights for value in own], batches)
    run = trained(stages, batches, micro_batches)
    np.testing.assert_allclose(run.losses, losses, rtol=TOLERANCE)
    assert losses[-1] < 0.97 * losses[0], "it learns"
    own = [variable.numpy() for stage in stages for variable in stage.variables]
    for one, other in zip(own, final, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert run.durations.shape == (3, micro_batches, 2)
    assert (run.durations > 0).all()
    assert run.updates.shape == (3,)


def reference(weights: list[Array], batches: list[Samples]) -> tuple[list[float], list[Array]]:
    """The loss of each step of plain gradient descent, and the weights after it. Of 32 outputs 10 are used."""
    losses = []
    for x_given, labels in batches:
        inputs = [x_given.astype("f8")]
        for W, b in zip(weights[::2], weights[1::2], strict=True):
            inputs.append(np.tanh(inputs[-1] @ W + b))
        scores = inputs[-2] @ weights[-2][:, :10] + weights[-1][:10]
        chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        rows = np.arange(len(labels))
        losses.append(-float(np.log(chances[rows, labels]).mean()))
        chances[rows, labels] -= 1
        gradient = np.pad(chances / len(labels), ((0, 0), (0, 22)))
        for k in reversed(range(len(weights) // 2)):
            W, b, x = weights[2 * k], weights[2 * k + 1], inputs[k]
            weights[2 * k], weights[2 * k + 1] = W - 0.05 * x.T @ gradient, b - 0.05 * gradient.sum(0)
            gradient = gradient @ W.T * (1 - x**2)
    return losses, weights


def test_losses_that_differ_end_the_run(small_digits: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update by the sum and not the mean gradient is found with the first two micro-batches."""
    right = hybrid.Part.update
    factors = iter([1] * 2 * 3 * 11 + [2] * 3 * 11)  # of each update: one device, 1 micro-batch, 2 micro-batches
    monkeypatch.setattr(hybrid.Part, "update", lambda self, rate, sums: right(self, rate * next(factors), sums))
    with pytest.raises(ProblemError, match=r"With 2 micro-batches the loss of step 2 is .*, on one device "):
        list(events(small_digits))


def test_only_rounding_is_no_difference() -> None:
    losses = np.linspace(3, 1, 12)
    compare(losses, losses * (1 + 0.9 * TOLERANCE), 4)
    compare(losses, np.append(losses[:10], [7, 8]), 4)
    compare(np.array([1, np.nan]), np.array([1, np.nan]), 4)
    with pytest.raises(ProblemError):
        compare(losses, losses * (1 + 2 * TOLERANCE), 4)
    with pytest.raises(ProblemError):
        compare(losses, np.append(np.nan, losses[1:]), 4)


# The schedule


@pytest.mark.parametrize("stages", [1, 2, 4, 7])
@pytest.mark.parametrize("micro_batches", [1, 2, 5, 16])
@pytest.mark.parametrize("backward", [1.0, 2.5])
def test_equal_tasks_have_the_bubble_of_the_formula(stages: int, micro_batches: int, backward: float) -> None:
    durations = np.ones([stages, micro_batches, 2]) * [1.0, backward]
    tasks = schedule(durations)
    assert max(task.end for task in tasks) == pytest.approx((micro_batches + stages - 1) * (1 + backward))
    assert bubble(tasks, stages) == pytest.approx((stages - 1) / (micro_batches + stages - 1))
    assert bubble(tasks, stages) == pytest.approx(bubble_formula(stages, micro_batches))


def test_a_slow_stage_is_waited_for() -> None:
    forward, backward = [[1, 1], [3, 3]], [[2, 2], [1, 1]]
    tasks = schedule(np.stack([forward, backward], 2))
    found = {(task.stage, task.micro_batch, task.backward): (task.start, task.end) for task in tasks}
    assert found == {
        (0, 0, False): (0, 1),
        (0, 1, False): (1, 2),
        (1, 0, False): (1, 4),
        (1, 1, False): (4, 7),
        (1, 0, True): (7, 8),
        (1, 1, True): (8, 9),
        (0, 0, True): (8, 10),
        (0, 1, True): (10, 12),
    }
    assert bubble(tasks, 2) == pytest.approx(1 - 14 / 24)
    assert step_seconds(tasks, np.array([1.0, 2.0])) == 13
    assert step_seconds(tasks, np.array([1.0, 5.0])) == 14, "the update of the last stage may end last"


@pytest.mark.parametrize("seed", range(5))
def test_each_task_begins_when_its_device_and_what_it_needs_are_there(seed: int) -> None:
    durations = np.random.default_rng(seed).random([4, 6, 2])
    tasks = schedule(durations)
    ends = {(task.stage, task.micro_batch, task.backward): task.end for task in tasks}
    assert len(ends) == durations.size
    previous = dict.fromkeys(range(4), 0.0)
    for task in tasks:
        source = task.stage + (1 if task.backward else -1)
        assert task.start == max(previous[task.stage], ends.get((source, task.micro_batch, task.backward), 0.0))
        assert task.end - task.start == pytest.approx(durations[task.stage, task.micro_batch, int(task.backward)])
        previous[task.stage] = task.end


def test_a_device_is_a_row_of_bars_with_gaps_where_it_waits() -> None:
    rows = list(timeline(schedule(np.ones([2, 2, 2]))))
    points = {row.name: (np.frombuffer(row.x).tolist(), np.frombuffer(row.y).tolist()) for row in rows}
    assert points == {
        "Device 1": ([0, 1, 2, 4, 5, 6], [1, 2, 0, -1, -2, 0]),
        "Device 2": ([1, 2, 3, 4, 5], [1, 2, -1, -2, 0]),
    }
    assert {(row.x_label, row.x_unit) for row in rows} == {("Time", "s")}


# The run


def test_each_number_of_micro_batches_has_its_bubble_and_time(history: History) -> None:
    counts = [1, 2, 4]
    for name in ("Measured", "Formula", "One device", "Pipeline"):
        assert history.series[name].x.tolist() == counts
    assert history.series["Formula"].y == pytest.approx([2 / (m + 2) for m in counts])
    measured = history.series["Measured"].y
    assert ((measured > 0) & (measured < 1)).all()
    assert len(set(history.series["One device"].y)) == 1, "measured once, without micro-batches"
    assert "In turn" not in history.series, "there is one device only"
    assert (history.fold.step, history.fold.steps) == (3, 3)
    known = {name for plot in EXERCISE.measured for name in plot.series}
    assert set(history.series) <= known, "each is in a plot of the card"


def test_the_timeline_is_that_of_the_most_micro_batches(history: History) -> None:
    rows = [history.series[f"Device {number}"] for number in (1, 2, 3)]
    end = max(row.x[-1] for row in rows)
    busy = 0.0
    for row in rows:
        assert [y for y in row.y if y] == [1, 2, 3, 4, -1, -2, -3, -4]
        busy += float(np.diff(row.x)[row.y[:-1] != 0].sum())
    assert 1 - busy / (3 * end) == pytest.approx(history.series["Measured"].y[-1])


def test_the_goals_are_judged_by_what_was_measured(history: History) -> None:
    share, gain = (check_goal(goal, history, EXERCISE.card()) for goal in EXERCISE.goals)
    assert share.value == pytest.approx(history.series["Measured"].y[-1])
    assert gain.value == pytest.approx(history.series["One device"].y[-1] / history.series["Pipeline"].y[-1])


def test_one_device_computes_nothing_twice() -> None:
    """Four equal stages, 1 s forward and 3 s backward, of which 1 s computes the way forward again."""
    durations = np.broadcast_to(np.array([1.0, 3.0]), [4, 8, 2]) / 8
    alone = model_parallel.TimedRun(np.zeros(1), durations, np.zeros(4)).alone_seconds
    pipeline = step_seconds(schedule(durations), np.zeros(4))
    assert alone == pytest.approx(4 * 3)
    assert pipeline == pytest.approx(4 * (8 + 3) / 8)
    assert alone / pipeline == pytest.approx(3 / 4 * 4 * (1 - bubble_formula(4, 8)))


def test_a_run_says_that_its_timeline_is_computed(history: History) -> None:
    (text,) = [log.text for log in history.logs if "timeline" in log.text]
    assert text == (
        "All 3 stages are on CPU:0: the timeline is computed from the time of each task alone, "
        "as if each stage had a device of its own."
    )
    several = model_parallel.placement_in_words(["/device:CPU:0", "/device:CPU:1"], 2)
    assert several == (
        "One stage on each of CPU:0, CPU:1, parts of one processor: "
        "the timeline is computed from the time of each task alone."
    )


def test_the_hybrid_trains_as_one_device_does_and_sends_less(small_digits: DataSet) -> None:
    """Its run compares ten losses; 3 devices divide neither the batch of 32 nor the width of 32 evenly."""
    values = {"cut": "hybrid", "layers": 2, "width": 32, "batch_size": 32, "stages": 3, "steps": 10}
    setup = Setup(build(ModelParallelSettings, values), 1, small_digits)
    found = History()
    found.feed(1, Attempt(format=1, run="r", attempt=1, exercise=EXERCISE.id, spec_sha256=""))
    for event in EXERCISE.measure(setup):
        found.feed(1, event)
    assert found.series["Hybrid"].x.tolist() == [1, 3]
    assert (found.fold.step, found.fold.steps) == (2, 2)
    rows = [found.series[f"Device {number}"].y for number in (1, 2, 3)]
    # its own convolutions, then forward and backward through three dense layers for each piece, then its own again
    dense = [sign * piece for piece in (1, 2, 3) for sign in (1, 1, 1, -1, -1, -1)]
    assert [[y for y in row if y] for row in rows] == [[own, *dense, -own] for own in (1, 2, 3)]
    assert re.fullmatch(r"In a step each device sends .* MB\. If it were all data-parallel, .*", found.logs[-1].text)
    assert set(found.series) <= {name for plot in EXERCISE.measured for name in plot.series}


def test_the_hybrid_sends_less_where_dense_layers_have_most_weights() -> None:
    """Two devices, 28 by 28 pixels: 13,248 weights in convolutions, 7 * 7 * 32 features into 100 columns."""
    network = hybrid.HybridNetwork([CPU] * 2, hybrid.initial_weights((28, 28, 1), 100, 1, 10, 1))
    convolutions, dense = 25 * 16 + 16 + 25 * 16 * 32 + 32, 1568 * 100 + 100 + 100 * 10 + 10
    assert network.sent_bytes(8) == (4 * (convolutions + 8 * (1568 + 10)), 4 * (convolutions + dense))


def test_a_wrong_gradient_of_the_hybrid_ends_the_run(small_digits: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions that take the gradient of their own share only."""
    right = hybrid.Part.update

    def update(part: hybrid.Part, rate: float, sums: Sequence[tf.Tensor]) -> None:
        right(part, rate, part.sums)

    monkeypatch.setattr(hybrid.Part, "update", update)
    values = {"cut": "hybrid", "width": 32, "batch_size": 8, "stages": 2, "steps": 3}
    with pytest.raises(ProblemError, match=r"With 1 piece the loss of step 2 is .*, on one device "):
        list(EXERCISE.measure(Setup(build(ModelParallelSettings, values), 1, small_digits)))


def test_a_dense_layer_waits_for_all_devices() -> None:
    dense = np.array([[[1.0, 2.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    tasks = schedule_hybrid(np.array([[1.0, 3.0], [2.0, 1.0]]), dense)
    found = {(task.stage, task.micro_batch, task.backward): (task.start, task.end) for task in tasks[2:-2]}
    assert found == {
        (0, 0, False): (1, 2),
        (1, 0, False): (2, 4),
        (0, 0, True): (4, 5),
        (1, 0, True): (4, 5),
        (0, 1, False): (5, 6),
        (1, 1, False): (5, 6),
        (0, 1, True): (6, 7),
        (1, 1, True): (6, 7),
    }
    assert [(task.start, task.end) for task in tasks[-2:]] == [(7, 10), (7, 8)]


def test_a_run_may_be_stopped_between_any_two_steps(small_digits: DataSet) -> None:
    running = events(small_digits)
    assert isinstance(next(running), Schema)
    next(running)  # where the stages are
    assert next(running) is None
    running.close()  # type: ignore[attr-defined]  # it is a generator


def test_micro_batches_divide_the_batch() -> None:
    assert micro_batch_counts(8, 256) == [1, 2, 4, 8]
    assert micro_batch_counts(32, 100) == [1, 2, 4]
    assert micro_batch_counts(1, 7) == [1]
