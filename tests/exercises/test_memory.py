"""Memory: its tasks are what the guide says, its networks are what NumPy computes, and gates keep the gradient."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from clew_agent.exercises.memory import ASK, BLANK, COPIED, EXERCISE, ROWS, SYMBOLS, MemorySettings, Task, make_task
from clew_agent.training.exercise import Batch, Model, Samples, Setup
from clew_shared.params import Value, build
from tests.exercises.training import make_engine, train

Array = npt.NDArray[np.float64]
SHORT: dict[str, Value] = {"length": 20, "units": 8, "batch_size": 50}


def task_of(**values: Value) -> Task:
    return make_task(build(MemorySettings, values), 1)


def numbers(samples: Samples | None, count: int | None = None) -> tuple[Array, Array]:
    """The first sequences and their answers in float64."""
    assert samples is not None
    return samples.x[:count].astype(np.float64), samples.y[:count].astype(np.float64)


def shaken(**values: Value) -> tuple[Model, dict[str, Array]]:
    """The model with variables that all have values of their own, and these in float64 by name."""
    draw, model = np.random.default_rng(1), EXERCISE.build(Setup(build(MemorySettings, SHORT | values), 1))
    found = {}
    for name, variable in model.parts[0].variables.items():
        variable.assign_add(draw.normal(0, 0.1, variable.shape).astype(np.float32))
        found[name] = variable.numpy().astype(np.float64)
    return model, found


# --- Tasks ------------------------------------------------------------------------------------------------------------


def test_one_number_is_marked_in_each_half_and_their_sum_is_asked_for() -> None:
    x, y = numbers(task_of(length=31).sets["test"])
    values, marks = x[:, :, 0], x[:, :, 1]
    assert set(np.unique(marks)) == {0.0, 1.0}
    assert (marks[:, :15].sum(1) == 1).all()
    assert (marks[:, 15:].sum(1) == 1).all()
    np.testing.assert_allclose(y[:, 0], values[marks > 0].reshape(-1, 2).sum(1), rtol=1e-6)


def test_a_sequence_to_copy_begins_with_symbols_and_ends_with_questions() -> None:
    test = task_of(task="copying", length=20).sets["test"]
    np.testing.assert_array_equal(test.x[:, :COPIED], test.y)
    assert set(np.unique(test.y)) == set(range(SYMBOLS))
    assert (test.x[:, COPIED:-COPIED] == BLANK).all()
    assert (test.x[:, -COPIED:] == ASK).all()


def test_without_noise_a_wave_goes_on_as_its_last_three_values_say() -> None:
    """sin(a + d) = 2 cos(d) sin(a) - sin(a - d)."""
    x, y = numbers(task_of(task="sine", noise=0).sets["test"])
    before, last_but_one, last = (x[:, place, 0] for place in (-3, -2, -1))
    clear = np.abs(last_but_one) > 0.2  # where dividing by it is exact enough
    twice_cosine = (last[clear] + before[clear]) / last_but_one[clear]
    np.testing.assert_allclose(y[clear, 0], twice_cosine * last[clear] - last_but_one[clear], atol=1e-4)


@pytest.mark.parametrize(("task", "expected"), [("adding", 1 / 6), ("copying", np.log(8)), ("sine", 1 / 2)])
def test_the_loss_without_memory_is_that_of_the_best_constant_answer(task: str, expected: float) -> None:
    """The variance of two numbers from 0 to 1, of a wave; the entropy of a symbol."""
    made = task_of(task=task)
    y = made.sets["train"].y
    loss = float(np.mean(made.guess(y)))
    assert loss == pytest.approx(expected, rel=0.02)
    if task != "copying":
        assert loss == pytest.approx(y.var(), rel=1e-3)


def test_another_seed_makes_other_sequences_and_the_sets_have_none_in_common() -> None:
    one, other = (make_task(build(MemorySettings, {}), seed).sets for seed in (1, 2))
    assert not np.array_equal(one["test"].x, other["test"].x)
    assert not {row.tobytes() for row in one["train"].x} & {row.tobytes() for row in one["test"].x}


# --- Networks ---------------------------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def by_hand(cell: str, w: dict[str, Array], x: Array, keep: float) -> list[Array]:
    """The state after each step, one formula after the other as the papers have them."""
    units = len(w["state"])
    state = np.tile(w["start"], (len(x), 1))
    found = []
    for t in range(x.shape[1]):
        seen, own = x[:, t] @ w["input"] + w["offset"], state[:, :units] @ w["state"]
        a, b = (np.split(one, one.shape[1] // units, axis=1) for one in (seen, own))
        if cell == "simple":
            state = np.tanh(seen + own)
        elif cell == "gru":
            z, r = sigmoid(a[0] + b[0] + keep), sigmoid(a[1] + b[1])
            state = z * state + (1 - z) * np.tanh(a[2] + r * b[2])
        else:
            f, i, g, o = sigmoid(a[0] + b[0] + keep), sigmoid(a[1] + b[1]), np.tanh(a[2] + b[2]), sigmoid(a[3] + b[3])
            c = f * state[:, units:] + i * g
            state = np.concatenate([o * np.tanh(c), c], 1)
        found.append(state)
    return found


@pytest.mark.parametrize("cell", ["simple", "gru", "lstm"])
def test_a_cell_answers_as_its_formulas_say(cell: str) -> None:
    model, w = shaken(cell=cell, keep=2.0)
    test = model.evaluation_sets["test"]
    assert model.evaluate is not None
    found = model.evaluate(Batch(test.x[:100], test.y[:100], np.arange(100)))["loss"]
    x, y = numbers(test, 100)
    answer = by_hand(cell, w, x, 2.0)[-1][:, :8] @ w["output"] + w["output_offset"]
    np.testing.assert_allclose(found, np.square(answer - y)[:, 0], rtol=1e-3, atol=1e-5)


def back(w: dict[str, Array], x: Array, y: Array) -> list[Array]:
    """The gradient of each sequence's squared error for the state before the first step, after it, and so on."""
    states = by_hand("simple", w, x, 0)
    slope = 2 * (states[-1] @ w["output"] + w["output_offset"] - y) @ w["output"].T
    found = [slope]
    for state in states[::-1]:
        slope = slope * (1 - state**2) @ w["state"].T
        found.append(slope)
    return found[::-1]


def test_the_gradient_at_each_step_is_that_of_backpropagation_by_hand() -> None:
    model, w = shaken(cell="simple")
    expected = [np.linalg.norm(one, axis=1).mean() for one in back(w, *numbers(model.evaluation_sets["test"], 500))]
    np.testing.assert_allclose(model.pictures["gradients"](), expected[1:], rtol=1e-3)


def test_the_curve_is_the_gradient_of_a_batch_before_its_first_step() -> None:
    engine = make_engine(EXERCISE, SHORT | {"steps": 1, "order": "file"})
    w = {name.split("/")[-1]: one.astype(np.float64) for name, one in engine.variables.items()}
    expected = back(w, *numbers(engine.model.train, 50))[0].mean(0)
    assert train(engine)["start_gradient"][0] == pytest.approx(np.linalg.norm(expected), rel=1e-3)


def test_the_attention_of_an_answer_is_shared_out_among_the_steps() -> None:
    """As a softmax in NumPy shares it, in the order of the first marks."""
    model, w = shaken(cell="attention")
    x = np.array(sorted(numbers(model.evaluation_sets["test"], ROWS)[0], key=lambda one: one[:, 1].argmax()))
    seen = np.tanh(x @ w["input"] + np.concatenate([w["start"], w["places"]]))
    scores = np.einsum("nu,ntu->nt", seen[:, -1] @ w["query"], seen @ w["key"]) / np.sqrt(8)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(model.pictures["attention"](), shares, atol=1e-5)


def test_a_picture_has_a_row_for_each_answer_to_copy() -> None:
    model, _ = shaken(task="copying", cell="attention")
    shares = model.pictures["attention"]().numpy()
    assert shares.shape == (ROWS, 20)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)


def test_attention_finds_the_marks() -> None:
    engine = make_engine(EXERCISE, {"cell": "attention", "length": 20, "steps": 300, "learning_rate": 0.01})
    train(engine)
    marks = numbers(engine.model.evaluation_sets["test"])[0][task_of(length=20).shown, :, 1]
    assert (engine.model.pictures["attention"]().numpy() * marks).sum(1).mean() > 0.8
    found = engine.evaluate()
    assert found["test_loss"] < 0.1 * found["test_guess"]


def test_gates_that_begin_open_keep_the_gradient_that_a_simple_cell_loses() -> None:
    left = {}
    for cell in ("simple", "gru", "lstm"):
        norms = EXERCISE.build(Setup(build(MemorySettings, {"cell": cell, "keep": 4.0}), 1)).pictures["gradients"]()
        left[cell] = float(norms[0] / norms[-1])
    assert left["simple"] < 1e-4
    assert min(left["gru"], left["lstm"]) > 1e-2
