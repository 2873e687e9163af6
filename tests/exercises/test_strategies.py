"""The strategies: whatever the number of devices, the same samples, the same random numbers and the same losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.exercises.spread import Case, Outcome, Spread, outcome

SOFTMAX = Case(exercise="softmax", values={"steps": 10, "batch_size": 50, "learning_rate": 0.1})
CNN = Case(exercise="cnn", values={"steps": 10, "batch_size": 50})
FULL = Case(
    exercise="cnn",
    values={
        "steps": 10,
        "batch_size": 22,
        "batch_norm": True,
        "augmentation": True,
        "order": "shuffle",
        "optimizer": "adamw",
        "schedule": "warmup",
        "checkpoint_every": 3,
    },
)
NETWORKS = [
    Case(exercise="autoencoder", values={"kind": "denoising", "steps": 10, "batch_size": 51}),
    Case(exercise="vae", values={"steps": 10, "hidden": 64}),
    Case(exercise="gan", values={"steps": 10, "discriminator_steps": 2}),
    Case(exercise="memory", data="", values={"steps": 10, "length": 20, "cell": "lstm"}),
    Case(exercise="activations", values={"steps": 10, "layers": 2, "activation": "relu"}, column=2),
]
"""Losses, and of the last one the norm of a gradient."""
SPREAD = [
    pytest.param(2, [SOFTMAX, FULL], id="2"),
    pytest.param(4, [SOFTMAX], id="4"),
    pytest.param(2, [SOFTMAX, CNN, *NETWORKS], id="2, each network", marks=pytest.mark.nightly),
]
EVERY_STEP = {"average_every": 1}

Alone = Callable[[Case], Outcome]
SpreadOut = Callable[[int, list[Case]], list[Outcome]]


@pytest.fixture(scope="module")
def spread() -> Iterator[SpreadOut]:
    """Trains cases on two or on four devices, each once. A process has one number of them for good, so there is one for
    each."""
    known: dict[tuple[int, bytes], Outcome] = {}

    def train(devices: int, cases: list[Case]) -> list[Outcome]:
        keys = [(devices, msgspec.json.encode(case)) for case in cases]
        new = [case for key, case in zip(keys, cases, strict=True) if key not in known]
        known.update(zip([key for key in keys if key not in known], processes[devices](new), strict=True))
        return [known[key] for key in keys]

    with Spread(2) as two, Spread(4) as four:
        processes = {2: two, 4: four}
        yield train


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one device saves its checkpoints, a folder for each exercise."""
    return tmp_path_factory.mktemp("alone")


@pytest.fixture(scope="module")
def alone(checkpoints: Path) -> Alone:
    """What one device makes of a case. Several tests compare with it, so each case is trained once."""
    known: dict[bytes, Outcome] = {}

    def train(case: Case) -> Outcome:
        single = msgspec.structs.replace(case, strategy="single", save=str(checkpoints / case.exercise))
        key = msgspec.json.encode(single)
        if key not in known:
            known[key] = outcome(single, 1)
        return known[key]

    return train


def differ(one: Outcome, other: Outcome) -> float:
    """The largest relative difference of two losses of one step."""
    ours, theirs = np.array(one.losses), np.array(other.losses)
    return float(np.max(np.abs(ours - theirs) / np.abs(theirs)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("devices", "cases"), SPREAD)
def test_several_devices_train_as_one_does(devices: int, cases: list[Case], alone: Alone, spread: SpreadOut) -> None:
    """A batch of 50 on 4 devices is filled up; dropout, augmentation and batch normalisation are the same."""
    outcomes = spread(devices, cases)
    for case, spread_out in zip(cases, outcomes, strict=True):
        single = alone(case)
        assert len(spread_out.losses) == len(single.losses) == 10
        assert differ(spread_out, single) < 1e-5, (case.exercise, devices)
        assert spread_out.evaluation == pytest.approx(single.evaluation, rel=1e-3, abs=5e-3)
        assert (spread_out.replicas, spread_out.logical, spread_out.traces) == (devices, True, 1)
        assert spread_out.reduced_bytes > single.reduced_bytes == 0
    weights = 784 * 10 + 10
    assert outcomes[0].reduced_bytes == 4 * weights


def test_sixteen_bits_halve_what_is_reduced_and_hardly_change_the_loss(spread: SpreadOut) -> None:
    whole, half = spread(2, [SOFTMAX, Case(exercise="softmax", values=SOFTMAX.values, options={"reduce": "float16"})])
    assert half.reduced_bytes * 2 == whole.reduced_bytes
    assert 0 < differ(half, whole) < 2e-3


def test_averaging_after_every_step_is_synchronous_training(tmp_path: Path, alone: Alone, spread: SpreadOut) -> None:
    """And what is saved between two averages is an average: the run goes on from there as it would have gone. To
    evaluate the average between two averages changes no weight."""
    rare = {"average_every": 4}
    values = SOFTMAX.values | {"checkpoint_every": 6}
    often = values | {"evaluate_every": 1}
    save, again = (str(tmp_path / name) for name in ("once", "again"))
    cases = [
        Case(exercise="softmax", values=SOFTMAX.values, strategy="local-sgd", options=EVERY_STEP),
        Case(exercise="softmax", values=values, strategy="local-sgd", options=rare, save=save),
        Case(exercise="softmax", values=values, strategy="local-sgd", options=rare, restore=f"{save}/6"),
        Case(exercise="softmax", values=often, strategy="local-sgd", options=rare, save=again),
    ]
    each, saved, resumed, evaluated = spread(2, cases)
    single = alone(SOFTMAX)
    assert differ(each, single) < 1e-5
    assert each.reduced_bytes == 4 * saved.reduced_bytes > 0
    assert saved.losses[0] == pytest.approx(single.losses[0], rel=1e-6)
    assert differ(saved, single) > 1e-2  # between two averages each replica goes a way of its own
    assert resumed.losses == saved.losses[6:]
    assert (evaluated.losses, evaluated.evaluation) == (saved.losses, saved.evaluation)


def test_a_run_goes_on_under_another_strategy_and_number_of_devices(
    tmp_path: Path, checkpoints: Path, alone: Alone, spread: SpreadOut
) -> None:
    """The state has names of its own: no strategy and no number of devices is in it."""
    whole, third = alone(FULL), str(checkpoints / "cnn" / "3")
    (second,) = spread(4, [msgspec.structs.replace(FULL, restore=third, until=6, save=str(tmp_path))])
    last = outcome(msgspec.structs.replace(FULL, strategy="single", restore=str(tmp_path)), 1)
    together = msgspec.structs.replace(whole, losses=whole.losses[:3] + second.losses + last.losses)
    assert len(together.losses) == 10
    assert differ(together, whole) < 1e-5
