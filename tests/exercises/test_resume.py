"""Stopped and resumed, or cut into other blocks: the same bits of every weight, slot, average and metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises import cnn, linear_regression, softmax
from clew_agent.training.exercise import Exercise
from clew_shared.base.problem import ProblemError
from tests.exercises.training import assert_same_bits, make_engine, sizes, train

SMALL_CNN: dict[str, Any] = {"batch_size": 8, "steps": 9, "learning_rate": 1e-3}
CASES: dict[str, tuple[Exercise[Any], dict[str, Any]]] = {
    "line, Nadam": (linear_regression.EXERCISE, {"optimizer": "nadam", "steps": 60, "schedule": "exponential"}),
    "softmax, padded epochs": (
        softmax.EXERCISE,
        {"steps": 40, "batch_size": 77, "order": "shuffle", "optimizer": "lion", "weight_decay": 0.01},
    ),
    "softmax, balanced": (
        softmax.EXERCISE,
        {"steps": 30, "order": "balanced", "schedule": "warmup-cosine", "optimizer": "ftrl"},
    ),
    "cnn, dropout": (cnn.EXERCISE, SMALL_CNN),
    "cnn, everything": (
        cnn.EXERCISE,
        {
            **SMALL_CNN,
            "batch_norm": True,
            "augmentation": True,
            "schedule": "cosine",
            "order": "shuffle",
            "optimizer": "adamw",
            "evaluate_every": 4,
            "patience": 3,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_ends_with_the_same_bits(name: str, tmp_path: Path, small_digits: DataSet) -> None:
    exercise, values = CASES[name]
    rng = np.random.default_rng(len(name))
    whole = make_engine(exercise, values, small_digits, block_steps=lambda room: int(rng.integers(1, room + 1)))
    train(whole, until=int(rng.integers(1, whole.steps)))
    whole.save(tmp_path / "checkpoint")
    second = make_engine(exercise, values, small_digits)
    second.restore(tmp_path / "checkpoint")
    assert 0 < second.step == whole.step < whole.steps
    assert_same_bits(train(second), train(whole))
    assert_same_bits(second.variables, whole.variables)


@pytest.mark.parametrize("jit", [True, False])
def test_other_block_sizes_give_the_same_bits(jit: bool, small_digits: DataSet) -> None:
    exercise = softmax.EXERCISE if jit else cnn.EXERCISE
    values: dict[str, Any] = {"steps": 50} if jit else SMALL_CNN
    rng = np.random.default_rng(1)
    cuts = [rng.integers(1, 8, 50).tolist(), [1] * 50]
    engines = [make_engine(exercise, values, small_digits, block_steps=sizes(cut)) for cut in cuts]
    records = [train(engine) for engine in engines]
    assert_same_bits(engines[0].variables, engines[1].variables)
    assert_same_bits(records[0], records[1])


def test_another_seed_gives_other_bits(small_digits: DataSet) -> None:
    records = [train(make_engine(cnn.EXERCISE, SMALL_CNN, small_digits, seed=seed)) for seed in (1, 2)]
    assert not np.array_equal(records[0]["loss"], records[1]["loss"])


def test_a_changed_rate_is_resumed_with_the_run(tmp_path: Path) -> None:
    engine = make_engine(linear_regression.EXERCISE, {}, block_steps=sizes([10]))
    engine.run_block()
    engine.course.set_live("learning_rate", 0.002)
    engine.save(tmp_path / "checkpoint")
    resumed = make_engine(linear_regression.EXERCISE, {})
    resumed.restore(tmp_path / "checkpoint")
    assert resumed.course.live == {"learning_rate": 0.002}
    assert_same_bits(train(resumed), train(engine))


@pytest.mark.parametrize("other", [{"optimizer": "adam"}, {"optimizer": "nadam"}])
def test_a_checkpoint_of_other_settings_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    make_engine(linear_regression.EXERCISE, {"optimizer": "momentum"}).save(tmp_path / "checkpoint")
    with pytest.raises(ProblemError, match=r"checkpoint .* does not fit this run"):
        make_engine(linear_regression.EXERCISE, other).restore(tmp_path / "checkpoint")


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path, small_digits: DataSet) -> None:
    make_engine(softmax.EXERCISE, {}, small_digits).save(tmp_path / "checkpoint")
    import msgspec

    from clew_agent.datasets.dataset import Split

    half = Split(small_digits.train.x[:, :392], small_digits.train.y)
    narrow = msgspec.structs.replace(small_digits, train=half, validation=half, test=half)
    with pytest.raises(ProblemError, match="does not fit this run"):
        make_engine(softmax.EXERCISE, {}, narrow).restore(tmp_path / "checkpoint")


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_damaged_checkpoint_is_refused(damage: str, tmp_path: Path, small_digits: DataSet) -> None:
    engine = make_engine(softmax.EXERCISE, {"steps": 5}, small_digits)
    engine.save(tmp_path)
    (data,) = tmp_path.glob("state.data-*")
    content = data.read_bytes()
    if damage == "missing":
        data.unlink()
    elif damage == "cut":
        data.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        data.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(ProblemError, match="does not fit this run"):
        engine.restore(tmp_path)
