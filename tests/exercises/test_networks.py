"""The networks to look into: each learns the digits in its tiny preset, takes its pictures and shows what it is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, precision_recall_fscore_support
from sklearn.neighbors import KNeighborsClassifier

from clew_agent.catalogue.examine import find_exercise
from clew_agent.datasets.dataset import DataSet, Split
from clew_agent.datasets.table import read as read_table
from clew_agent.exercises import autoencoder, cnn
from clew_agent.exercises.autoencoder import principal_components
from clew_agent.exercises.vae import with_attributes
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Batch, Exercise, Setup
from clew_agent.training.judging import answers, flags, summarize_answers, summarize_flags
from clew_agent.training.weights import read_weights
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Image, Log
from clew_shared.params import Value, build
from tests.exercises.training import Record, make_engine, train

NETWORKS = (
    "perceptron",
    "generalisation",
    "activations",
    "rnn",
    "memory",
    "autoencoder",
    "anomaly",
    "vae",
    "gan",
    "transfer",
)
Tiny = Callable[[str], tuple[Record, dict[str, float], Engine]]


def exercise(name: str) -> Exercise[Any]:
    return find_exercise(name, None)[0]


def preset(name: str, of: str) -> dict[str, Value]:
    return next(one.values for one in exercise(name).presets if one.name == of)


def trained(name: str, values: dict[str, Value], data: DataSet) -> tuple[Record, dict[str, float], Engine]:
    """What a run records, and what its last evaluation says."""
    engine = make_engine(exercise(name), values, data)
    record = train(engine)
    return record, engine.evaluate(), engine


@pytest.fixture(scope="module")
def tiny(small_digits: DataSet) -> Tiny:
    """The tiny preset of an exercise, trained once, evaluated at its end only."""

    @cache
    def once(name: str) -> tuple[Record, dict[str, float], Engine]:
        values = preset(name, "tiny")
        return trained(name, values | {"evaluate_every": values["steps"]}, small_digits)

    return once


@pytest.mark.parametrize("name", NETWORKS)
def test_the_tiny_preset_learns_and_takes_every_picture(name: str, tiny: Tiny) -> None:
    record, evaluation, engine = tiny(name)
    assert all(np.isfinite(values).all() for values in record.values())
    assert set(evaluation) == {spec.name for spec in exercise(name).metrics if not spec.per_step}
    loss = record.get("loss", record.get("generator_loss"))
    assert loss is not None
    assert loss[-5:].mean() < loss[0]
    taken = [event for event in engine.take_pictures(last=True) if not isinstance(event, Log)]
    assert [event.name for event in taken] == [spec.id for spec in exercise(name).pictures]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["cnn", "autoencoder", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("softmax", "transfer"))]
)
def test_colour_images_of_ones_own_train_and_are_shown_in_colour(name: str) -> None:
    """Three classes of 8×6 pixels, each of a colour of its own."""
    draw = np.random.default_rng(5)
    y = np.arange(30, dtype=np.int32) % 3
    x = draw.uniform(0, 0.2, (30, 8, 6, 3)).astype(np.float32)
    x[np.arange(30), :, :, y] += 0.7
    part = Split(x.reshape(30, -1), y)
    shape = (8, 6, 3)
    data = DataSet(
        name="flowers", source="", sha256="", train=part, validation=part, test=part, image_shape=shape, classes=3
    )
    values: dict[str, Value] = {"steps": 3, "batch_size": 10}
    values |= {"code": 4} if name == "autoencoder" else {}
    record, evaluation, engine = trained(name, values, data)
    assert all(np.isfinite(values).all() for values in record.values())
    assert np.isfinite(list(evaluation.values())).all()
    taken = list(engine.take_pictures(last=True))
    assert not [event for event in taken if isinstance(event, Log)]
    images = [event for event in taken if isinstance(event, Image)]
    assert {event.channels for event in images} <= {3}
    assert bool(images) == any(spec.form == "images" for spec in exercise(name).pictures)


@pytest.mark.nightly
def test_an_autoencoder_beats_principal_components(small_digits: DataSet) -> None:
    values: dict[str, Value] = {"steps": 2000, "code": 4, "learning_rate": 0.005, "evaluate_every": 2000}
    _, evaluation, _ = trained("autoencoder", values, small_digits)
    assert evaluation["test_gain"] > 1


def test_the_baseline_of_an_autoencoder_is_scikit_learns(tiny: Tiny, small_digits: DataSet) -> None:
    _, evaluation, _ = tiny("autoencoder")
    assert evaluation["test_gain"] == pytest.approx(evaluation["test_pca"] / evaluation["test_error"])
    theirs = PCA(4, svd_solver="full").fit(small_digits.train.x.astype(np.float64))
    expected = theirs.inverse_transform(theirs.transform(small_digits.test.x))
    ours = principal_components(small_digits.train.x, 4)(tf.constant(small_digits.test.x))
    np.testing.assert_allclose(ours, expected, atol=1e-4)


def test_the_first_point_of_an_autoencoder_does_not_wait_for_its_baseline(
    small_digits: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def components(x: npt.NDArray[np.float32], size: int) -> Callable[[tf.Tensor], tf.Tensor]:
        found.append(size)
        return principal_components(x, size)

    monkeypatch.setattr(autoencoder, "principal_components", components)
    engine = make_engine(exercise("autoencoder"), {"steps": 4, "code": 4, "evaluate_every": 2}, small_digits)
    engine.run_block()
    assert not found
    engine.evaluate()
    assert found == [4]


def test_the_contractive_penalty_is_the_squared_norm_of_the_codes_derivative(small_digits: DataSet) -> None:
    """Which is what the slope is measured for: noise of deviation 1 moves the code by the norm, on average."""
    values: dict[str, Value] = {"kind": "contractive", "code": 6, "penalty": 0.5, "steps": 3, "batch_size": 40}
    record, evaluation, engine = trained("autoencoder", values | {"order": "file", "optimizer": "sgd"}, small_digits)
    assert not any(name.endswith("/decoder1") for name in engine.variables), "the way back has the encoder's weights"
    start = make_engine(exercise("autoencoder"), values, small_digits)
    coder, x = start.model.coder, tf.constant(small_digits.train.x[:40])
    assert coder is not None
    assert coder.encode is not None
    with tf.GradientTape() as tape:
        tape.watch(x)
        code = coder.encode(x)
    norms = tf.reduce_sum(tf.square(tape.batch_jacobian(code, x)), [1, 2]).numpy()
    errors = np.square(coder.decode(code).numpy() - x.numpy()).mean(1)
    assert record["loss"][0] == pytest.approx(errors.mean() + 0.5 * norms.mean(), rel=1e-4)
    assert evaluation["test_slope"] == pytest.approx(np.sqrt(norms).mean(), rel=0.2)


def test_attribute_vectors_are_the_mean_codes_of_classes_minus_that_of_all(small_digits: DataSet) -> None:
    engine = make_engine(exercise("vae"), {"hidden": 8, "code": 3}, small_digits)
    coder, test = engine.model.coder, small_digits.test
    assert coder is not None
    assert coder.encode is not None
    codes = coder.encode(tf.constant(test.x)).numpy()
    vector = codes[test.y == 4].mean(0) - codes.mean(0)
    wanted = coder.decode(tf.constant((codes[0] + 1.5 * vector)[np.newaxis])).numpy()[0]
    shown = engine.model.pictures["attributes"]().numpy()
    assert len(shown) == 10 * 7
    np.testing.assert_allclose(shown[4 * 7 + 6].reshape(-1), wanted, atol=1e-5)
    rare = with_attributes(tf.constant(codes), tf.constant(test.y), 11).numpy().reshape(11, 7, 3)
    np.testing.assert_allclose(rare[10], np.tile(codes[0], (7, 1)), err_msg="a class of which no image is there")


def test_greedy_pre_training_moves_one_pair_of_layers_after_the_other(small_digits: DataSet) -> None:
    values: dict[str, Value] = {"kind": "deep", "pretraining": 2, "steps": 8, "optimizer": "sgd"}
    engine = make_engine(exercise("autoencoder"), values, small_digits)
    moved = []
    for stage in range(4):
        before = engine.variables
        engine.run_block(2 * stage + 1)
        after = engine.variables
        engine.run_block(2 * stage + 2)
        names = {name for name in before if not np.array_equal(before[name], after[name])}
        moved.append({name.split("/")[-1] for name in names if name.startswith("weights/") and "offset" not in name})
    assert moved[:3] == [{"encoder1", "decoder3"}, {"encoder2", "decoder2"}, {"encoder3", "decoder1"}]
    assert len(moved[3]) == 6


def test_the_gradient_vanishes_on_its_way_through_sigmoids_unless_there_are_skip_connections(
    tiny: Tiny, small_digits: DataSet
) -> None:
    """The tiny preset has rectifiers instead. NumPy goes the same way past the layers."""
    relu, _, _ = tiny("activations")
    sigmoid: dict[str, Value] = {"activation": "sigmoid", "steps": 3}
    first = {}
    for skip in (False, True):
        engine = make_engine(exercise("activations"), sigmoid | {"skip": skip}, small_digits)
        first[skip] = train(engine)["layer1_gradient"].mean()
    assert relu["layer1_gradient"][:3].mean() > 100 * first[False]
    assert first[True] > 100 * first[False]
    w = {name.removeprefix("weights/network/"): value.astype(np.float64) for name, value in engine.variables.items()}
    x = small_digits.test.x.astype(np.float64)
    for number in range(1, 7):
        made = 1 / (1 + np.exp(-x @ w[f"layer{number}"] - w[f"layer{number}_offset"]))
        x = made if number == 1 else x + made
    answers = (x @ w["output1"] + w["output1_offset"]).argmax(1)
    assert engine.evaluate()["test_accuracy"] == pytest.approx((answers == small_digits.test.y).mean(), abs=0.01)


def test_the_recorded_norm_is_that_of_the_whole_gradient(small_digits: DataSet) -> None:
    """With plain gradient descent a step is the gradient times the rate."""
    values: dict[str, Value] = {"cell": "simple", "optimizer": "sgd", "learning_rate": 0.5, "steps": 1}
    engine = make_engine(exercise("rnn"), values, small_digits)
    before = engine.variables
    (norm,) = train(engine)["rnn_gradient"]
    moves = [engine.variables[name] - value for name, value in before.items() if name.startswith("weights/")]
    assert norm == pytest.approx(np.sqrt(sum(np.square(move).sum() for move in moves)) / 0.5, rel=1e-4)


@pytest.mark.nightly
def test_gates_read_better_than_a_simple_cell(small_digits: DataSet) -> None:
    values: dict[str, Value] = {"steps": 120, "units": 32, "learning_rate": 0.005, "evaluate_every": 120}
    found = {cell: trained("rnn", values | {"cell": cell}, small_digits)[1] for cell in ("simple", "gru", "lstm")}
    for gated in ("gru", "lstm"):
        assert found[gated]["test_accuracy"] > found["simple"]["test_accuracy"] + 0.05


def jumps(values: npt.NDArray[np.floating[Any]]) -> float:
    """How far a curve moves from step to step, as a mean over its last 60."""
    return float(np.abs(np.diff(values[-60:])).mean())


@pytest.mark.nightly
def test_the_failures_of_a_gan_are_what_they_are_named_after(tiny: Tiny, small_digits: DataSet) -> None:
    """Also as a classifier of scikit-learn reads the samples, which has seen neither network."""
    reader = KNeighborsClassifier(10).fit(small_digits.train.x, small_digits.train.y)
    assert reader.score(small_digits.test.x, small_digits.test.y) > 0.9

    def read(engine: Engine) -> int:
        """Classes among 1,000 samples, with 20 or more each of which the reader is sure."""
        w = {name.removeprefix("weights/generator/"): value for name, value in engine.variables.items()}
        hidden = np.random.default_rng(1).normal(size=(1000, 64)) @ w["generator1"] + w["generator1_offset"]
        sums = np.maximum(hidden, 0.2 * hidden) @ w["generator2"] + w["generator2_offset"]
        return int(((reader.predict_proba(1 / (1 + np.exp(-sums))) >= 0.9).sum(0) >= 20).sum())

    good, classes, engine = tiny("gan")
    short: dict[str, Value] = {"steps": 200, "evaluate_every": 200}
    _, collapsed, collapsed_engine = trained("gan", preset("gan", "mode-collapse") | short, small_digits)
    assert classes["samples_classes"] >= 7
    assert collapsed["samples_classes"] <= 4
    found = read(engine), read(collapsed_engine)
    assert found[0] >= 6
    assert found[1] <= 4
    short = {"steps": 120, "evaluate_every": 120}
    swinging, _, _ = trained("gan", preset("gan", "oscillation") | short, small_digits)
    assert jumps(swinging["drawn"]) > 2 * jumps(good["drawn"][:120])
    assert jumps(swinging["generator_gradient"]) > 3 * jumps(good["generator_gradient"][:120])
    short = {"steps": 60, "evaluate_every": 60}
    vanished, _, _ = trained("gan", preset("gan", "vanishing-gradient") | short, small_digits)
    assert vanished["generator_gradient"][-20:].mean() < 1e-3 * good["generator_gradient"].mean()


def test_an_anomaly_is_judged_as_scikit_learn_judges_it(tiny: Tiny, small_digits: DataSet) -> None:
    record, evaluation, engine = tiny("anomaly")
    weights = engine.variables
    x = drawn = small_digits.test.x.astype(np.float64)
    for name in ("encoder1", "encoder2", "decoder1", "decoder2"):
        sums = drawn @ weights[f"weights/autoencoder/{name}"] + weights[f"weights/autoencoder/{name}_offset"]
        drawn = {"encoder2": sums, "decoder2": 1 / (1 + np.exp(-sums))}.get(name, np.maximum(sums, 0))
    flagged = np.square(drawn - x).mean(1) > record["threshold"][-1]
    expected = precision_recall_fscore_support(small_digits.test.y == 2, flagged, average="binary", zero_division=0.0)
    names = ("test_precision", "test_recall", "test_f_score")
    assert [evaluation[name] for name in names] == pytest.approx(expected[:3])
    assert evaluation["test_recall"] > 0.1


def test_an_anomaly_of_no_class_is_refused(small_digits: DataSet) -> None:
    with pytest.raises(ProblemError, match="has the classes 0 to 9, and no class 10"):
        make_engine(exercise("anomaly"), {"anomaly": 10}, small_digits)


def test_answers_are_judged_as_scikit_learn_judges_them() -> None:
    """With a class that is never answered and one that never occurs."""
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 4, 200).astype(np.int32)
    logits = draw.normal(size=(200, 6)).astype(np.float32) * 2
    logits[:, 3] = -9
    values = answers(tf.constant(logits), tf.constant(labels), 0.7)
    found = summarize_answers({name: value.numpy().astype(np.float64).mean(0) for name, value in values.items()})
    given = logits.argmax(1)
    expected = precision_recall_fscore_support(labels, given, average="macro", zero_division=0.0)
    assert [found[name] for name in ("precision", "recall", "f_score")] == pytest.approx(expected[:3])
    assert found["accuracy"] == pytest.approx(accuracy_score(labels, given))
    sure = tf.nn.softmax(logits).numpy().max(1) >= 0.7
    assert found["coverage"] == pytest.approx(sure.mean())
    assert found["given_accuracy"] == pytest.approx(accuracy_score(labels[sure], given[sure]))


def test_where_nothing_is_flagged_precision_is_nothing() -> None:
    no = tf.zeros([4], tf.bool)
    means = {name: value.numpy().astype(np.float64).mean(0) for name, value in flags(no, no).items()}
    assert summarize_flags(means) == {"precision": 0.0, "recall": 0.0, "f_score": 0.0}


def table_of(path: Path, classes: list[int]) -> DataSet:
    """A table of one's own with these classes, row by row."""
    rows = [f"{number % 7},{number % 5},{label}" for number, label in enumerate(classes)]
    path.write_text("\n".join(["a,b,class", *rows]))
    return read_table(path)


def test_anomalies_that_are_all_among_the_training_rows_are_refused(tmp_path: Path) -> None:
    """Of six rows the first four train: training leaves anomalies out, so none could ever be found."""
    data = table_of(tmp_path / "fraud.csv", [1, 0, 0, 0, 0, 0] * 10)
    words = "No sample of class 1 is among the validation and test samples of fraud.csv: there are 10 in training, 0 in"
    with pytest.raises(ProblemError, match=words):
        make_engine(exercise("anomaly"), {"anomaly": 1}, data)
    data = table_of(tmp_path / "half.csv", [1, 0, 0, 0, 1, 0] * 10)
    with pytest.raises(ProblemError, match=r"among the test samples of half\.csv"):
        make_engine(exercise("anomaly"), {"anomaly": 1}, data)
    data = table_of(tmp_path / "bare.csv", [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1])
    with pytest.raises(ProblemError, match="none is left to train with"):
        make_engine(exercise("anomaly"), {"anomaly": 1}, data)


def test_the_anomaly_of_a_table_is_named_by_its_label(tmp_path: Path) -> None:
    data = table_of(tmp_path / "wine.csv", [3, 3, 3, 3, 8, 8, 8, 3, 3, 3, 3, 3] * 10)
    model = exercise("anomaly").build(Setup(build(exercise("anomaly").Settings, {"anomaly": 8}), 1, data))
    assert model.train is not None
    assert len(model.train.y) == 70
    with pytest.raises(ProblemError, match="has the classes 3, 8, and no class 1"):
        make_engine(exercise("anomaly"), {"anomaly": 1}, data)


def transferred(small_digits: DataSet, folder: Path, steps: int) -> tuple[Engine, Engine, dict[str, Value]]:
    """A CNN, a network that took its layers, and the few images and steps with which that was trained."""
    source = make_engine(cnn.EXERCISE, {"steps": 4 * steps, "learning_rate": 0.001}, small_digits)
    train(source)
    source.save(folder / "checkpoints" / f"{4 * steps:08}")
    budget: dict[str, Value] = {"steps": steps, "images": 50, "batch_size": 25}
    taken = make_engine(exercise("transfer"), {**budget, "weights": str(folder), "retrained": "dense"}, small_digits)
    train(taken)
    return source, taken, budget


@pytest.mark.nightly
def test_layers_of_an_earlier_run_beat_new_ones(small_digits: DataSet, tmp_path: Path) -> None:
    _, taken, budget = transferred(small_digits, tmp_path, steps=15)
    _, scratch, _ = trained("transfer", budget, small_digits)
    assert taken.evaluate()["test_accuracy"] > scratch["test_accuracy"] + 0.1


def test_layers_that_are_not_retrained_stay_as_they_came(small_digits: DataSet, tmp_path: Path) -> None:
    source, taken, _ = transferred(small_digits, tmp_path, steps=1)
    old, new = source.variables, taken.variables
    np.testing.assert_array_equal(new["state/conv2"], old["weights/cnn/conv2"])
    assert not np.array_equal(new["weights/cnn/dense"], old["weights/cnn/dense"])


def test_layers_with_batch_normalisation_answer_as_they_did(small_digits: DataSet, tmp_path: Path) -> None:
    """The network of ``transfer`` has no batch normalisation: what it would do is in the weights that it takes."""
    source = make_engine(cnn.EXERCISE, {"steps": 10, "learning_rate": 0.01, "batch_norm": True}, small_digits)
    train(source)
    source.save(tmp_path / "checkpoints" / "00000010")
    transfer, test = exercise("transfer"), small_digits.test
    settings = build(transfer.Settings, {"weights": str(tmp_path)})
    taken = transfer.build(Setup(settings, 1, small_digits))
    for name in ("output", "output_offset"):
        taken.parts[0].variables[name].assign(source.variables[f"weights/cnn/{name}"])
    assert taken.evaluate is not None
    means = taken.evaluate(Batch(tf.constant(test.x), tf.constant(test.y), tf.range(len(test))))
    found = summarize_answers({name: value.numpy().astype(np.float64).mean(0) for name, value in means.items()})
    before = source.evaluate()["test_accuracy"]
    assert found["accuracy"] == pytest.approx(before, abs=1e-6), before


def test_batch_normalisation_without_its_averages_is_refused(small_digits: DataSet, tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    kernel, offset = np.zeros([5, 5, 1, 32], np.float32), np.zeros([32], np.float32)
    np.savez(path, conv1=kernel, conv1_offset=offset, conv1_gamma=offset, conv1_beta=offset)
    with pytest.raises(ProblemError, match="the batch normalisation of 'conv1' without its moving averages"):
        make_engine(exercise("transfer"), {"weights": str(path)}, small_digits)


def test_weights_that_do_not_fit_are_refused(
    small_digits: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(ProblemError) as caught:
            make_engine(exercise("transfer"), {"weights": str(path)}, small_digits)
        return str(caught.value)

    other = tmp_path / "other.npz"
    assert "does not exist here" in refusal(other)
    assert "There are no weights in" in refusal(tmp_path)
    np.savez(other, conv1=np.zeros([3, 3, 1, 32], np.float32))
    assert "have the shape (3, 3, 1, 32); this network needs (5, 5, 1, 32)" in refusal(other)
    assert set(read_weights(str(other), "cnn")) == {"conv1"}
    other.write_bytes(b"no zip")
    assert "cannot be read as an .npz file" in refusal(other)
    np.savez_compressed(other, conv1=np.zeros(100_000))
    monkeypatch.setattr("clew_agent.training.weights._MOST_BYTES", 500_000)
    assert "its arrays unpack to 800,128 bytes, more than the 500,000" in refusal(other)
