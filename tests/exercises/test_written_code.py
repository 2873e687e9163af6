"""The scripts are the exercises' models: the same answers with the same weights, the same result after a run."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator, Mapping
from functools import partialmethod
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises import (
    activations,
    anomaly,
    autoencoder,
    cnn,
    gan,
    generalisation,
    linear_regression,
    memory,
    perceptron,
    rnn,
    softmax,
    transfer,
    vae,
)
from clew_agent.exercises.devices import minibatch
from clew_agent.training import random
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Setup
from clew_agent.training.layers import initial_deviation
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.params import Value, build
from clew_shared.spec import RunSpec
from clew_shared.study.written_code import FORMS, written_code, written_forms
from tests.exercises.training import make_engine, train

CARDS = load_builtin().exercises
LINE: dict[str, Value] = {"steps": 40, "learning_rate": 0.02}


def script(
    tmp_path: Path, exercise: str, values: Mapping[str, Value] = {}, form: str = "keras", data: str = ""
) -> dict[str, Any]:
    """The names of the script with these values, as it is when somebody imports it."""
    file = tmp_path / f"{exercise}_{form}.py"
    spec = RunSpec(exercise=exercise, params=dict(values), data=data)
    file.write_text(written_code(find_card(CARDS, exercise), form, spec), encoding="utf-8")
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


@pytest.mark.parametrize("form", ["keras", "session"])
def test_softmax_ends_with_the_result_of_the_exercise(
    tmp_path: Path, small_digits: DataSet, images: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values: dict[str, Value] = {"steps": 30, "batch_size": 50, "learning_rate": 0.1}
    engine = make_engine(softmax.EXERCISE, values, small_digits)
    train(engine)
    expected = engine.evaluate()
    loss, accuracy = script(tmp_path, "softmax", values, form, images)["main"]()
    assert loss == pytest.approx(expected["test_loss"], rel=2e-3)
    assert accuracy == pytest.approx(expected["test_accuracy"], abs=0.01)
    assert "Test loss" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["keras", "session"])
def test_the_line_ends_where_that_of_the_exercise_ends(tmp_path: Path, form: str) -> None:
    values = LINE | {"optimizer": "momentum"}
    engine = make_engine(linear_regression.EXERCISE, values)
    train(engine)
    expected = [float(one.numpy()) for one in engine.model.parts[0].variables.values()]
    np.testing.assert_allclose(script(tmp_path, "linear-regression", values, form)["main"](), expected, rtol=1e-6)


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


def trained(engine: Engine, part: int = 0) -> dict[str, Any]:
    """The values of the trained variables by name."""
    return {name: one.numpy() for name, one in engine.model.parts[part].variables.items()}


def assert_ends_alike(model: Any, values: list[Any], before: list[Any]) -> None:
    """The Keras model ended with these weights: each is 50 times as near to them as to where it began."""
    for variable, value, old in zip(model.trainable_weights, values, before, strict=True):
        moved = np.abs(value - old).max()
        assert moved > 1e-4
        assert np.abs(np.asarray(variable) - value).max() < 0.02 * moved


def test_few_images_are_those_of_the_exercise_and_train_as_there(
    tmp_path: Path, small_digits: DataSet, images: str
) -> None:
    values: dict[str, Value] = {"images": 200, "units": 16, "l2": 0.01, "batch_norm": True, "order": "file"}
    values |= {"steps": 10, "evaluate_every": 4}
    for folds in (0, 3):
        names = script(tmp_path, "generalisation", values | {"folds": folds}, data=images)
        settings = build(generalisation.GeneralisationSettings, values | {"folds": folds})
        given = names["few_images"](names["read_data"](images))
        expected = generalisation.few_images(small_digits, settings, 1)
        for (x, y), samples in list(zip(given, expected, strict=True))[: 2 if folds else 1]:
            np.testing.assert_array_equal(x.reshape(len(x), -1), samples.x)
            np.testing.assert_array_equal(y, samples.y)
    engine = make_engine(generalisation.EXERCISE, values, small_digits)
    order = [f"{kind}{layer}{own}" for layer in (1, 2) for kind, own in NORMALISED] + ["layer3", "layer3_offset"]
    names = script(tmp_path, "generalisation", values, data=images)
    model = names["make_model"]((28, 28, 1))
    before = [trained(engine)[name] for name in order]
    take_weights(model, before)
    train(engine)
    found = names["train"](model, names["read_data"](images))
    after = engine.evaluate()
    moved = [place for place, name in enumerate(order) if name not in ("layer1_offset", "layer2_offset")]
    kept = [model.trainable_weights[place] for place in moved]
    model_of = type("Weights", (), {"trainable_weights": kept})
    assert_ends_alike(model_of, [trained(engine)[order[place]] for place in moved], [before[place] for place in moved])
    assert found["training"] == pytest.approx(after["train_error"], abs=0.01)
    assert found["test"] == pytest.approx(after["test_error"], abs=0.01)


NORMALISED = (("layer", ""), ("layer", "_offset"), ("norm", "_gamma"), ("norm", "_beta"))
"""What batch normalisation has beside a layer. It takes the mean away, so the layer's own offset does nothing."""


def test_early_stopping_ends_the_script_too(tmp_path: Path, images: str, capsys: pytest.CaptureFixture[str]) -> None:
    values: dict[str, Value] = {"images": 50, "units": 2, "learning_rate": 1e-9, "patience": 2, "evaluate_every": 1}
    script(tmp_path, "generalisation", values, data=images)["main"]()
    assert [line for line in capsys.readouterr().out.splitlines() if "Epoch" in line][-1] == "Epoch 3/2000"


@pytest.mark.parametrize("shape", [*perceptron.MADE, "own"])
def test_points_are_those_of_the_exercise(tmp_path: Path, shape: str) -> None:
    values: dict[str, Value] = {"shape": shape, "points": 30, "noise": 0.1, "own": "0.5,-0.2,1 -0.4,0.1,0"}
    expected = perceptron.make_sets(build(perceptron.PerceptronSettings, values), 1)
    given = script(tmp_path, "perceptron", values)["make_sets"]()
    assert list(given) == list(expected)
    for name, samples in expected.items():
        np.testing.assert_allclose(given[name][0], samples.x.astype(np.float64), rtol=1e-6)
        np.testing.assert_array_equal(given[name][1], samples.y)


def test_the_perceptron_ends_where_that_of_the_exercise_ends(tmp_path: Path) -> None:
    values: dict[str, Value] = {"shape": "spirals", "layers": 2, "activation": "leaky-relu", "l2": 0.01, "steps": 20}
    engine = make_engine(perceptron.EXERCISE, values | {"order": "file"})
    names = script(tmp_path, "perceptron", values | {"order": "file"})
    model, before = names["make_model"](), weights(engine)
    take_weights(model, before)
    train(engine)
    loss, accuracy = names["train"](model, names["make_sets"]())
    assert_ends_alike(model, weights(engine), before)
    expected = engine.evaluate()
    assert loss == pytest.approx(expected["test_loss"], rel=1e-3)
    assert accuracy == pytest.approx(expected["test_accuracy"], abs=0.005)


@pytest.mark.parametrize(
    ("task", "cell"),
    [("adding", "simple"), ("copying", "lstm"), ("sine", "attention"), ("copying", "attention"), ("sine", "gru")],
)
def test_memory_ends_with_the_result_of_the_exercise(
    tmp_path: Path, task: str, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Value] = {"task": task, "cell": cell, "length": 20, "units": 6, "steps": 8, "order": "file"}
    values |= {"learning_rate": 0.01, "keep": 2.0}
    names = script(tmp_path, "memory", values)
    assert names["SIZES"] == memory.SIZES
    for sizes in (names["SIZES"], memory.SIZES):
        for name in sizes:
            monkeypatch.setitem(sizes, name, 200)
    engine = make_engine(memory.EXERCISE, values)
    model = names["make_model"]()
    before = of_memory(trained(engine), cell, model)
    for variable, value in zip(model.trainable_weights, before, strict=True):
        if variable.name == "bias":  # KEEP is in the offsets of the right gate
            np.testing.assert_array_equal(np.asarray(variable), value)
    take_weights(model, before)
    begun = engine.evaluate()["test_loss"]
    train(engine)
    loss, share = names["train"](model, names["make_sets"]())
    expected = engine.evaluate()
    if cell != "gru":  # Keras has a second offset for each of its gates
        assert_ends_alike(model, of_memory(trained(engine), cell, model), before)
    tolerance = 0.05 if cell == "gru" else 1e-3
    assert loss == pytest.approx(expected["test_loss"], rel=tolerance)
    assert share == pytest.approx(expected["test_accuracy"], abs=max(tolerance, 0.006))
    assert abs(begun - expected["test_loss"]) > 2 * tolerance * expected["test_loss"]


def of_memory(values: dict[str, Any], cell: str, model: Any) -> list[Any]:
    """The exercise's variables as Keras has them: LSTM with its gates in another order, KEEP in the offsets."""
    found, units = dict(values), 6
    if cell == "attention":
        found["places"] = np.concatenate([found.pop("start"), found["places"]])
        owners = [one.path.split("/")[0] for one in model.trainable_weights[:-2]]
        offset = owners.index("hidden") + 1  # behind its kernel
        layers = [f"{name}_offset" if place == offset else name for place, name in enumerate(owners)]
        return [found[name] for name in (*layers, "output", "output_offset")]
    if cell == "lstm":
        forget, *others = np.split(np.arange(4 * units), 4)
        order = np.concatenate([others[0], forget, *others[1:]])
        kept = found["offset"] + np.repeat([2, 0, 0, 0], units).astype(np.float32)
        found |= {"input": found["input"][:, order], "state": found["state"][:, order], "offset": kept[order]}
        return [*np.split(found.pop("start"), 2), *found.values()]
    if cell == "gru":
        kept = found["offset"] + np.repeat([2, 0, 0], units).astype(np.float32)
        found["offset"] = np.stack([kept, np.zeros_like(kept)])
    return list(found.values())


@pytest.mark.parametrize("loss", ["saturating", "non-saturating"])
def test_with_the_same_noise_the_game_goes_as_in_the_exercise(
    tmp_path: Path, small_digits: DataSet, images: str, loss: str
) -> None:
    values: dict[str, Value] = {"generator_loss": loss, "discriminator_steps": 2, "generator_steps": 2, "noise": 5}
    values |= {"dropout": 0.0, "batch_size": 40, "steps": 3, "order": "file"}
    engine = make_engine(gan.EXERCISE, values, small_digits)
    names = script(tmp_path, "gan", values, data=images)
    game = names["Gan"](28 * 28)
    networks = (game.discriminator, game.generator, game.classifier)
    before = [list(trained(engine, part).values()) for part in range(3)]
    for network, given in zip(networks, before, strict=True):
        take_weights(network, given)
    drawn = [
        random.normal([40, 5], 1, f"{part}/{repetition}/noise", step)
        for step in range(3)
        for part in ("discriminator", "generator")
        for repetition in range(2)
    ]
    rest = iter([*drawn, random.normal([1000, 5], 1, "noise of the evaluation")])
    names["train"].__globals__["draw_noise"] = lambda _count: next(rest)
    train(engine)
    classes, clear = names["train"](game, names["read_data"](images))
    for part, network in enumerate(networks):
        assert_ends_alike(network, list(trained(engine, part).values()), before[part])
    expected = engine.evaluate()
    assert classes == expected["samples_classes"]
    assert clear == pytest.approx(expected["samples_clear"], abs=0.005)
    assert next(rest, None) is None


def test_anomalies_are_found_as_in_the_exercise(tmp_path: Path, small_digits: DataSet, images: str) -> None:
    values: dict[str, Value] = {"anomaly": 0, "hidden": 32, "learning_rate": 0.01, "deviations": 1.0, "order": "file"}
    values |= {"steps": 15, "batch_size": 50}
    engine = make_engine(anomaly.EXERCISE, values, small_digits)
    names = script(tmp_path, "anomaly", values, data=images)
    model, before = names["make_model"](28 * 28), weights(engine)
    take_weights(model, before)
    train(engine)
    found = names["train"](model, names["read_data"](images))
    assert_ends_alike(model, weights(engine), before)
    expected = engine.evaluate()
    assert 0 < expected["test_recall"] < 1
    np.testing.assert_allclose(
        found, [expected[f"test_{name}"] for name in ("precision", "recall", "f_score")], atol=0.01
    )
    coder = engine.model.coder
    assert coder is not None
    assert coder.threshold is not None
    assert model.get_layer("threshold").value() == pytest.approx(float(coder.threshold()), rel=1e-3)


@pytest.mark.parametrize("retrained", ["dense", "all"])
def test_transfer_takes_over_the_layers_of_a_run(tmp_path: Path, small_digits: DataSet, retrained: str) -> None:
    earlier = make_engine(cnn.EXERCISE, {"steps": 1, "batch_size": 10}, small_digits)
    train(earlier)
    earlier.save(tmp_path / "run" / "checkpoints" / "0000000001")
    values: dict[str, Value] = {"weights": str(tmp_path / "run"), "retrained": retrained, "confidence": 0.3}
    values |= {"steps": 2, "batch_size": 10, "images": 20, "order": "file"}
    engine = make_engine(transfer.EXERCISE, values, small_digits)
    names = script(tmp_path, "transfer", values)
    data = names["read_digits"]()
    for (x, y), part in zip(data, (small_digits.train, small_digits.validation, small_digits.test), strict=True):
        np.testing.assert_array_equal(x.reshape(len(x), -1), part.x)
        np.testing.assert_array_equal(y, part.y)
    model = names["make_model"]((28, 28, 1))
    names["take_weights"](model, str(tmp_path / "run"))
    given = trained(engine)
    model.get_layer("output").set_weights([given["output"].T, given["output_offset"]])
    assert len(model.trainable_weights) == len(given)
    train(engine)
    found, expected = names["train"](model, data), engine.evaluate()
    assert found.pop("loss") == pytest.approx(expected["test_loss"], rel=5e-3)
    for name, value in found.items():
        assert value == pytest.approx(expected[f"test_{name}"], abs=0.02)


def test_transfer_takes_arrays_too_and_refuses_batch_normalisation(tmp_path: Path) -> None:
    names = script(tmp_path, "transfer")
    model = names["make_model"]((28, 28, 1))
    arrays: dict[str, Any] = {name: np.asarray(one) for name, one in zip(*arrays_of(model), strict=True)}
    np.savez(tmp_path / "some.npz", **arrays)
    names["take_weights"](names["make_model"]((28, 28, 1)), str(tmp_path / "some.npz"))
    np.savez(tmp_path / "some.npz", conv1_gamma=1, **arrays)
    with pytest.raises(SystemExit, match="batch normalisation"):
        names["take_weights"](model, str(tmp_path / "some.npz"))


def arrays_of(model: Any) -> tuple[list[str], list[Any]]:
    """The names and values of the arrays that a file of weights has, as the exercise writes them."""
    kept = [model.get_layer(name).get_weights() for name in ("conv1", "conv2", "dense")]
    kept[2][0] = kept[2][0].T
    names = [f"{name}{own}" for name in ("conv1", "conv2", "dense") for own in ("", "_offset")]
    return names, [one for pair in kept for one in pair]


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
        (activations.EXERCISE, {"activation": "leaky-relu", "layers": 3, "units": 8, "skip": True}),
        (rnn.EXERCISE, {"cell": "simple", "units": 8}),
        (rnn.EXERCISE, {"cell": "gru", "units": 8}),
        (rnn.EXERCISE, {"cell": "lstm", "units": 8}),
    ],
    ids=["activations", "simple", "gru", "lstm"],
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


def test_initial_weights_have_the_deviations_of_the_exercise(tmp_path: Path) -> None:
    for initial in ("he", "large", "small"):
        names = script(tmp_path, "activations", {"initial": initial, "units": 200, "layers": 1})
        drawn = np.std(names["make_model"]((28, 28, 1)).get_weights()[0])
        assert drawn == pytest.approx(initial_deviation(initial, 784, 200), rel=0.02)


def test_batch_sizes_are_measured_one_after_the_other(tmp_path: Path, images: str) -> None:
    names = script(tmp_path, "minibatch", {"hidden": 8, "samples": 1000, "largest": 512}, data=images)
    names["main"].__globals__["SIZES"] = (128, 512, 2048)
    found = names["main"]()
    assert list(found) == [128, 512]
    assert all(seconds > 0 and accuracy > 0 for seconds, accuracy in found.values())
    assert names["SIZES"] == minibatch.BATCH_SIZES


def test_a_script_says_what_it_leaves_out(tmp_path: Path) -> None:
    values: dict[str, Value] = {"optimizer": "nesterov", "order": "balanced", "schedule": "cosine"}
    names = script(tmp_path, "cnn", values)
    assert (names["ORDER"], names["OPTIMIZER"]) == ("file", "nesterov")
    first, *_ = (tmp_path / "cnn_keras.py").read_text(encoding="utf-8").splitlines()
    assert first == "# Not in this script: Schedule Cosine to zero; Order Balanced classes."
    spread = RunSpec(exercise="cnn", data="digits", strategy="mirrored", devices=2, precision="mixed_float16")
    note, *_ = written_code(find_card(CARDS, "cnn"), "keras", spread).splitlines()
    assert note == ("# Not in this script: the data digits; strategy mirrored; devices 2; precision mixed_float16.")


@pytest.mark.parametrize(
    ("exercise", "data", "line"),
    [
        ("cnn", "", '"mnist.npz"'),
        ("cnn", "mnist", '"mnist.npz"'),
        ("cnn", "other.npz", '"other.npz"'),
        ("transfer", "", '"digits"  # or "mnist.npz"'),
        ("transfer", "mnist", '"mnist.npz"  # or "digits"'),
    ],
)
def test_a_script_takes_the_data_of_the_run(exercise: str, data: str, line: str) -> None:
    text = written_code(find_card(CARDS, exercise), "keras", RunSpec(exercise=exercise, data=data))
    assert f"\nDATA = {line}\n" in text
    assert not text.startswith("#")


@pytest.mark.parametrize(
    "optimizer", ["sgd", "adagrad", "adadelta", "rmsprop", "adam", "adamw", "nadam", "ftrl", "lion"]
)
def test_each_optimizer_is_kerass(tmp_path: Path, optimizer: str) -> None:
    found = script(tmp_path, "softmax")["make_optimizer"](optimizer, 0.25)
    assert type(found).__name__.lower() == optimizer
    assert float(found.learning_rate) == 0.25


def scripts() -> Iterator[tuple[str, str]]:
    for card in CARDS:
        for form in written_forms(card):
            yield f"{card.id}-{form.name}", written_code(card, form.name, RunSpec(exercise=card.id, seed=3))


def test_every_script_runs_by_itself_and_has_only_what_it_uses() -> None:
    found = dict(scripts())
    assert {"softmax-keras", "softmax-session", "vae-keras", "minibatch-keras"} <= set(found)
    for text in found.values():
        tree = ast.parse(text)
        assert "clew" not in text
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imported = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)][1:]
        given = [one.asname or one.name for node in imported for one in node.names]
        given += [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert set(given) <= used
        assert len(set(given)) == len(given)


def test_an_exercise_without_a_script_has_none() -> None:
    assert [
        form.name
        for form in FORMS
        if written_code(find_card(CARDS, "ps-lab"), form.name, RunSpec(exercise="ps-lab", data="digits"))
    ] == []
