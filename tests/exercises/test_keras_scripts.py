"""The Keras scripts are the exercises' models: the same answers with the same weights, the same result after a run."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises import cnn, softmax
from clew_agent.training.exercise import Setup
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.params import Value, build
from clew_shared.study.keras_script import keras_script
from tests.exercises.training import make_engine, train

CARDS = load_builtin().exercises


def script(tmp_path: Path, exercise: str, **values: Value) -> dict[str, Any]:
    """The names of the script with these values, as it is when somebody imports it."""
    file = tmp_path / f"{exercise}_keras.py"
    file.write_text(keras_script(find_card(CARDS, exercise), values), encoding="utf-8")
    return runpy.run_path(str(file))


def images(data: DataSet, folder: Path) -> Path:
    """The digits as an npz: its first five sixths train."""
    parts = (data.train, data.validation)
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    count = len(data.train.x) * 6 // 5
    as_bytes = [np.rint(255 * one).astype(np.uint8).reshape(-1, 28, 28) for one in (x[:count], data.test.x)]
    file = folder / "digits.npz"
    np.savez(file, x_train=as_bytes[0], y_train=y[:count], x_test=as_bytes[1], y_test=data.test.y)
    return file


def test_softmax_ends_with_the_result_of_the_exercise(
    tmp_path: Path, small_digits: DataSet, capsys: pytest.CaptureFixture[str]
) -> None:
    values: dict[str, Value] = {"steps": 30, "batch_size": 50, "learning_rate": 0.1}
    engine = make_engine(softmax.EXERCISE, values, small_digits)
    train(engine)
    expected = engine.evaluate()
    names = script(tmp_path, "softmax", **values, data=str(images(small_digits, tmp_path)))
    loss, accuracy = names["main"]()
    assert loss == pytest.approx(expected["test_loss"], rel=2e-3)
    assert accuracy == pytest.approx(expected["test_accuracy"], abs=0.01)
    assert "Test loss" in capsys.readouterr().out


@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_cnns_answers_are_those_of_the_exercise(tmp_path: Path, small_digits: DataSet, batch_norm: bool) -> None:
    setup = Setup(build(cnn.CnnSettings, {"batch_norm": batch_norm}), 1, small_digits)
    model = cnn.EXERCISE.build(setup)
    keras_model = script(tmp_path, "cnn", batch_norm=batch_norm)["make_model"](28)
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


def test_the_cnns_script_runs_with_any_optimizer_order_and_a_note_on_what_it_leaves_out(
    tmp_path: Path, small_digits: DataSet
) -> None:
    values: dict[str, Value] = {"steps": 2, "optimizer": "nesterov", "order": "balanced", "schedule": "cosine"}
    names = script(tmp_path, "cnn", **values, data=str(images(small_digits, tmp_path)))
    assert len(names["main"]()) == 2
    first, *_ = (tmp_path / "cnn_keras.py").read_text(encoding="utf-8").splitlines()
    assert first == ("# Not in this script: Schedule Cosine to zero; Order Balanced classes, which it shuffles.")


@pytest.mark.parametrize(
    "optimizer", ["sgd", "adagrad", "adadelta", "rmsprop", "adam", "adamw", "nadam", "ftrl", "lion"]
)
def test_each_optimizer_is_kerass(tmp_path: Path, optimizer: str) -> None:
    found = script(tmp_path, "softmax", optimizer=optimizer, learning_rate=0.25)["make_optimizer"]()
    assert type(found).__name__.lower() == optimizer
    assert float(found.learning_rate) == 0.25


def test_an_exercise_without_a_script_has_none() -> None:
    assert keras_script(find_card(CARDS, "gan"), {}) == ""
