"""Generalisation: which images train and validate, the folds are scikit-learn's, each remedy does what it says."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn.model_selection import KFold

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.generalisation import EXERCISE, GeneralisationSettings, few_images, fold, voted
from clew_agent.training.exercise import Batch, Model, Samples, Setup
from clew_shared.base.problem import ProblemError
from clew_shared.params import Value, build
from tests.exercises.training import make_engine, race_records, train


def drawn(data: DataSet, seed: int = 1, **values: Value) -> tuple[Samples, Samples]:
    return few_images(data, build(GeneralisationSettings, values), seed)


def model(data: DataSet, **values: Value) -> Model:
    small: dict[str, Value] = {"units": 16, "images": 200}
    return EXERCISE.build(Setup(build(GeneralisationSettings, small | values), 1, data))


def rows(samples: Samples) -> list[bytes]:
    return [row.tobytes() for row in samples.x]


@pytest.mark.parametrize(("count", "folds"), [(20, 5), (103, 10), (50, 2), (20, 20)])
def test_the_folds_are_those_of_scikit_learn(count: int, folds: int) -> None:
    theirs = KFold(folds).split(np.arange(count))
    for number, (kept, held_out) in enumerate(theirs):
        ours = fold(count, folds, number)
        np.testing.assert_array_equal(ours[0], kept)
        np.testing.assert_array_equal(ours[1], held_out)


def test_each_seed_holds_out_another_fold_of_the_same_images(small_digits: DataSet) -> None:
    found = [drawn(small_digits, seed, images=200, folds=5) for seed in range(1, 7)]
    held_out = [rows(validation) for _, validation in found]
    everything = sorted(row for one in held_out[:5] for row in one)
    assert len(everything) == 200
    assert held_out[5] == held_out[0], "seed 6 begins again"
    for train_set, validation in found:
        assert sorted([*rows(train_set), *rows(validation)]) == everything


def test_a_fold_is_judged_by_the_right_labels(small_digits: DataSet) -> None:
    known = dict(zip(rows(Samples(small_digits.train.x, small_digits.train.y)), small_digits.train.y, strict=True))
    train_set, validation = drawn(small_digits, images=200, folds=4, wrong_labels=0.5)
    assert [known[row] for row in rows(validation)] == validation.y.tolist()
    wrong = np.mean([known[row] != label for row, label in zip(rows(train_set), train_set.y, strict=True)])
    assert wrong == pytest.approx(0.5, abs=0.12)


def test_without_folds_each_seed_trains_with_other_images_and_fewer_are_some_of_more(small_digits: DataSet) -> None:
    few, more, other = (
        rows(drawn(small_digits, seed, images=count)[0]) for seed, count in ((1, 50), (1, 300), (2, 50))
    )
    assert few == more[:50]
    assert set(few) != set(other)
    _, validation = drawn(small_digits, images=50)
    np.testing.assert_array_equal(validation.x, small_digits.validation.x)


def test_more_images_than_there_are_are_refused(small_digits: DataSet) -> None:
    with pytest.raises(ProblemError, match="training images in digits, fewer than the 5,000 asked for"):
        drawn(small_digits, images=5000)


def test_the_penalty_is_the_sum_of_all_squared_weights(small_digits: DataSet) -> None:
    """Of the weights, not of the offsets: NumPy adds them up."""
    plain, costly = (
        make_engine(EXERCISE, {"units": 16, "images": 200, "l2": l2, "steps": 1}, small_digits) for l2 in (0.0, 0.01)
    )
    weights = [value for name, value in costly.variables.items() if "weights/" in name and "offset" not in name]
    (without,), (with_it,) = train(plain)["loss"], train(costly)["loss"]
    assert len(weights) == 3
    squares = sum(np.square(one.astype(np.float64)).sum() for one in weights)
    assert with_it - without == pytest.approx(0.01 * squares, rel=1e-4)


def test_no_remedy_changes_how_images_are_judged(small_digits: DataSet) -> None:
    """Dropout, augmentation and the penalty act in training alone."""
    found = []
    test = small_digits.test
    batch = Batch(tf.constant(test.x), tf.constant(test.y), tf.range(len(test)))
    remedies: tuple[dict[str, Value], ...] = ({}, {"dropout": 0.5}, {"augmentation": True}, {"l2": 0.1})
    for values in remedies:
        evaluate = model(small_digits, **values).evaluate
        assert evaluate is not None
        found.append(evaluate(batch)["loss"].numpy())
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


def test_the_lanes_of_the_race_train_with_the_same_images(small_digits: DataSet) -> None:
    """At a rate of 0 the first lane and those with a penalty or fewer images differ only by what they say."""
    plain, penalty, _, augmented, _, few = race_records(EXERCISE, {"steps": 3}, small_digits)
    assert (penalty["loss"] > plain["loss"]).all()
    assert not np.array_equal(augmented["loss"], plain["loss"])
    assert not np.array_equal(few["loss"], plain["loss"])


@pytest.mark.nightly
def test_wrong_labels_are_learned_by_heart_unless_something_is_done_about_it(small_digits: DataSet) -> None:
    error = {}
    values: dict[str, Value] = {"images": 300, "wrong_labels": 0.2, "learning_rate": 0.003, "steps": 500}
    remedies: dict[str, Value] = {"dropout": 0.5, "augmentation": True, "l2": 1e-3}
    tried: dict[str, dict[str, Value]] = {"nothing": {}, "remedies": remedies}
    for name, more in tried.items():
        engine = make_engine(EXERCISE, values | more, small_digits)
        train(engine)
        error[name] = engine.evaluate()
    assert error["nothing"]["train_error"] < 0.05
    assert error["remedies"]["train_error"] > 0.1
    assert error["remedies"]["test_error"] < error["nothing"]["test_error"] - 0.05


# --- Several networks -------------------------------------------------------------------------------------------------

SMALL: dict[str, Value] = {"units": 8, "images": 100, "steps": 30, "dropout": 0.2, "augmentation": True}


def test_each_of_several_networks_learns_as_it_would_alone(small_digits: DataSet) -> None:
    """The first to the bit; the others have the images, labels and weights of the next seeds, but this run's order."""
    alone = make_engine(EXERCISE, SMALL, small_digits)
    three = make_engine(EXERCISE, SMALL | {"networks": 3}, small_digits)
    losses = train(alone)["loss"], train(three)["loss"]
    assert {name: value.tobytes() for name, value in alone.variables.items()}.items() <= {
        name: value.tobytes() for name, value in three.variables.items()
    }.items()
    assert (losses[1][:3] != losses[0][:3]).all(), "the mean over three"
    assert losses[1][0] < 2 * losses[0][0], "not the sum"
    error = three.evaluate()["train_error"]
    weights = three.variables
    own = [drawn(small_digits, seed, **SMALL)[0] for seed in (1, 2, 3)]
    wrong = [np.mean(answers(weights, k, one.x) != one.y) for k, one in enumerate(own)]
    assert error == pytest.approx(np.mean(wrong))
    assert make_engine(EXERCISE, SMALL | {"networks": 3, "folds": 5}, small_digits).variables.keys() == (
        alone.variables.keys()
    ), "the networks would validate with what others train with"


def answers(variables: dict[str, np.ndarray], number: int, x: np.ndarray) -> np.ndarray:
    """What the network with this number (from 0) says, by NumPy."""
    own = f"network{number + 1}_" if number else ""
    layers = [
        [name for name in variables if name.endswith(f"/{own}layer{k}{end}")]
        for k in (1, 2, 3)
        for end in ("", "_offset")
    ]
    values = [variables[name] for (name,) in layers]
    for w, b in zip(values[:-2:2], values[1:-2:2], strict=True):
        x = np.maximum(x @ w + b, 0)
    found: np.ndarray = (x @ values[-2] + values[-1]).argmax(1)
    return found


def test_the_vote_and_the_disagreement_are_those_of_the_answers(small_digits: DataSet) -> None:
    engine = make_engine(EXERCISE, SMALL | {"networks": 3}, small_digits)
    train(engine)
    found, validation = engine.evaluate(), small_digits.validation
    given = np.stack([answers(engine.variables, k, validation.x) for k in range(3)])
    counts = np.stack([np.bincount(column, minlength=10) for column in given.T])
    clear = counts.max(1) > 1  # where all three differ, their probabilities decide
    vote = counts.argmax(1)
    wrong = (vote != validation.y)[clear].sum()
    assert wrong <= round(found["validation_vote"] * len(vote)) <= wrong + (~clear).sum()
    unlike = (given != vote).mean(0)
    least = (unlike[clear].sum() + 2 / 3 * (~clear).sum()) / len(vote)
    assert found["validation_disagreement"] == pytest.approx(least)
    assert found["validation_error"] == pytest.approx((given != validation.y).mean())
    bars = engine.model.pictures["votes"]().numpy()
    error, wrong_vote = found["validation_error"], found["validation_vote"]
    assert bars == pytest.approx([error, wrong_vote, error - wrong_vote, least], rel=1e-5)


def test_one_network_agrees_with_itself(small_digits: DataSet) -> None:
    engine = make_engine(EXERCISE, SMALL, small_digits)
    found = engine.evaluate()
    assert (found["validation_vote"], found["validation_disagreement"]) == (found["validation_error"], 0)
    assert "votes" not in engine.model.pictures


def test_most_answers_win_and_of_as_many_the_more_probable() -> None:
    scores = [
        tf.constant(rows, tf.float32)
        for rows in ([[9, 0, 0], [5, 0, 0]], [[0, 1, 0], [0, 2, 0]], [[0, 1, 0], [0, 0, 9]])
    ]
    assert voted(scores).numpy().tolist() == [1, 2]
    assert voted(scores[:1]).numpy().tolist() == [0, 0]
