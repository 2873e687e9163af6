"""The scripts are the exercises' models: the same answers with the same weights, the same result after a run."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Mapping
from functools import partialmethod
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises import (
    autoencoder,
    cnn,
    linear_regression,
    rnn,
    softmax,
    vae,
)
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Setup
from clew_gui.study.written_code import written_code
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.params import Value, build
from clew_shared.spec import RunSpec
from tests.exercises.training import make_engine, train

CARDS = load_builtin().exercises
LINE: dict[str, Value] = {"steps": 40, "learning_rate": 0.02}


def script(tmp_path: Path, exercise: str, values: Mapping[str, Value] = {}, data: str = "") -> dict[str, Any]:
    """The names of the script with these values, as it is when somebody imports it."""
    file = tmp_path / f"{exercise}_keras.py"
    spec = RunSpec(exercise=exercise, params=dict(values), data=data)
    file.write_text(written_code(find_card(CARDS, exercise), spec), encoding="utf-8")
    return runpy.run_path(str(file))


@pytest.fixture(autouse=True)
def without_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keras takes its steps one by one: to trace and compile each of so many models takes longer than these steps."""
    monkeypatch.setattr(keras.Model, "compile", partialmethod(keras.Model.compile, run_eagerly=True))


@pytest.fixture
def images(small_digits: DataSet, tmp_path: Path) -> str:
    """The digits as an npz: its first five sixths train."""
    parts = (small_digits.train, small_digits.validation)
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    count = len(small_digits.train.x) * 6 // 5
    as_bytes = [(256 * one).astype(np.uint8).reshape(-1, 28, 28) for one in (x[:count], small_digits.test.x)]
    file = tmp_path / "digits.npz"
    np.savez(file, x_train=as_bytes[0], y_train=y[:count], x_test=as_bytes[1], y_test=small_digits.test.y)
    return str(file)


def test_softmax_ends_with_the_result_of_the_exercise(
    tmp_path: Path, small_digits: DataSet, images: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values: dict[str, Value] = {"steps": 30, "batch_size": 50, "learning_rate": 0.1}
    engine = make_engine(softmax.EXERCISE, values, small_digits)
    train(engine)
    expected = engine.evaluate()
    loss, accuracy = script(tmp_path, "softmax", values, images)["main"]()
    assert loss == pytest.approx(expected["test_loss"], rel=2e-3)
    assert accuracy == pytest.approx(expected["test_accuracy"], abs=0.01)
    assert "Test loss" in capsys.readouterr().out


def test_the_line_ends_where_that_of_the_exercise_ends(tmp_path: Path) -> None:
    values = LINE | {"optimizer": "momentum"}
    engine = make_engine(linear_regression.EXERCISE, values)
    train(engine)
    expected = [float(one.numpy()) for one in engine.model.parts[0].variables.values()]
    np.testing.assert_allclose(script(tmp_path, "linear-regression", values)["main"](), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("exercise", "values", "tolerance"),
    [
        (autoencoder.EXERCISE, {"kind": "sparse", "code": 8, "penalty": 0.5, "learning_rate": 0.01}, 1e-3),
        # Each draws codes of its own.
        (vae.EXERCISE, {"hidden": 16, "kl_weight": 2.0, "learning_rate": 0.005, "schedule": "constant"}, 0.015),
    ],
    ids=["autoencoder", "vae"],
)
def test_from_the_same_weights_the_same_steps_lead_to_the_same_test_result(
    tmp_path: Path, small_digits: DataSet, images: str, exercise: Any, values: dict[str, Value], tolerance: float
) -> None:
    values = values | {"steps": 5, "batch_size": 50, "order": "file"}
    engine = make_engine(exercise, values, small_digits)
    names = script(tmp_path, exercise.id, values, data=images)
    keras.utils.set_random_seed(1)
    model = names["make_model"](28 * 28)
    take_weights(model, weights(engine))
    before = engine.evaluate()
    train(engine)
    after = engine.evaluate()
    metric = "test_error" if exercise is autoencoder.EXERCISE else "test_bound"
    found = names["train"](model, names["read_data"](images))
    assert found == pytest.approx(after[metric], rel=tolerance)
    assert abs(before[metric] - after[metric]) > 3 * tolerance * after[metric]


def weights(engine: Engine) -> list[Any]:
    """The values of all trained variables, in their order."""
    return [one.numpy() for one in engine.model.parts[0].variables.values()]


def take_weights(model: Any, values: list[Any]) -> None:
    """Puts the values into a Keras model."""
    for variable, value in zip(model.trainable_weights, values, strict=True):
        variable.assign(value)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_cnns_answers_are_those_of_the_exercise(tmp_path: Path, small_digits: DataSet, batch_norm: bool) -> None:
    setup = Setup(build(cnn.CnnSettings, {"batch_norm": batch_norm}), 1, small_digits)
    model = cnn.EXERCISE.build(setup)
    keras_model = script(tmp_path, "cnn", {"batch_norm": batch_norm})["make_model"]((28, 28, 1))
    known = {name: one.numpy() for name, one in model.parts[0].variables.items()}
    averages = {name: one.numpy() for name, one in model.state.items()}
    ordered = []
    for layer in ("conv1", "conv2", "dense", "output"):
        ordered += [known[layer] if layer.startswith("conv") else known[layer].T, known[f"{layer}_offset"]]
        if batch_norm and layer != "output":
            ordered += [known[f"{layer}_gamma"], known[f"{layer}_beta"]]
            ordered += [averages[f"{layer}_mean"], averages[f"{layer}_variance"]]
    keras_model.set_weights(ordered)
    x = small_digits.test.x[:8]
    assert model.scores is not None
    np.testing.assert_allclose(keras_model(x.reshape(-1, 28, 28, 1)), model.scores(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("exercise", "values"),
    [
        (rnn.EXERCISE, {"cell": "simple", "units": 8}),
        (rnn.EXERCISE, {"cell": "gru", "units": 8}),
        (rnn.EXERCISE, {"cell": "lstm", "units": 8}),
    ],
    ids=["simple", "gru", "lstm"],
)
def test_with_the_same_weights_a_model_gives_the_same_answers(
    tmp_path: Path, small_digits: DataSet, exercise: Any, values: dict[str, Value]
) -> None:
    model = exercise.build(Setup(build(exercise.Settings, values), 1, small_digits))
    keras_model = script(tmp_path, exercise.id, values)["make_model"]((28, 28, 1))
    given = [one.numpy() for one in model.parts[0].variables.values()]
    if values.get("cell") == "gru":  # Keras has an offset for the row and one for the state
        given[2] = np.stack([given[2], np.zeros_like(given[2])])
    if values.get("cell") == "lstm":  # Keras has the gates in another order, and the forget gate's 1 in the offset
        forget, *others = np.split(np.arange(32), 4)
        order = np.concatenate([others[0], forget, *others[1:]])
        given[:3] = [one[..., order] for one in (given[0], given[1], given[2] + np.repeat([1, 0, 0, 0], 8))]
    take_weights(keras_model, given)
    x = small_digits.test.x[:8]
    np.testing.assert_allclose(keras_model(x.reshape(-1, 28, 28, 1)), model.scores(x), rtol=1e-4, atol=1e-5)


def test_a_script_says_what_it_leaves_out(tmp_path: Path) -> None:
    values: dict[str, Value] = {"optimizer": "nesterov", "order": "balanced", "schedule": "cosine"}
    names = script(tmp_path, "cnn", values)
    assert (names["ORDER"], names["OPTIMIZER"]) == ("file", "nesterov")
    first, *_ = (tmp_path / "cnn_keras.py").read_text(encoding="utf-8").splitlines()
    assert first == "# Not in this script: Schedule Cosine to zero; Order Balanced classes."
    spread = RunSpec(exercise="cnn", data="digits", strategy="mirrored", devices=2, precision="mixed_float16")
    note, *_ = written_code(find_card(CARDS, "cnn"), spread).splitlines()
    assert note == ("# Not in this script: the data digits; strategy mirrored; devices 2; precision mixed_float16.")


@pytest.mark.parametrize(
    ("exercise", "data", "line"),
    [
        ("cnn", "", '"mnist.npz"'),
        ("cnn", "mnist", '"mnist.npz"'),
        ("cnn", "other.npz", '"other.npz"'),
    ],
)
def test_a_script_takes_the_data_of_the_run(exercise: str, data: str, line: str) -> None:
    text = written_code(find_card(CARDS, exercise), RunSpec(exercise=exercise, data=data))
    assert f"\nDATA = {line}\n" in text
    assert not text.startswith("#")


@pytest.mark.parametrize(
    "optimizer", ["sgd", "adagrad", "adadelta", "rmsprop", "adam", "adamw", "nadam", "ftrl", "lion"]
)
def test_each_optimizer_is_kerass(tmp_path: Path, optimizer: str) -> None:
    found = script(tmp_path, "softmax")["make_optimizer"](optimizer, 0.25)
    assert type(found).__name__.lower() == optimizer
    assert float(found.learning_rate) == 0.25


def test_every_script_runs_by_itself_and_has_only_what_it_uses() -> None:
    written = {card.id: written_code(card, RunSpec(exercise=card.id, seed=3)) for card in CARDS}
    found = {name: text for name, text in written.items() if text}
    assert found.keys() == {"linear-regression", "softmax", "cnn", "rnn", "autoencoder", "vae"}
    for text in found.values():
        tree = ast.parse(text)
        assert "clew" not in text
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imported = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)][1:]
        given = [one.asname or one.name for node in imported for one in node.names]
        given += [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert set(given) <= used
        assert len(set(given)) == len(given)
