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
    pytest.param(4, [SOFTMAX, FULL], id="4"),
    pytest.param(2, [SOFTMAX, CNN, *NETWORKS], id="2, each network", marks=pytest.mark.nightly),
]
EVERY_STEP = {"average_every": 1}

Alone = Callable[[Case], Outcome]
SpreadOut = Callable[[int, list[Case]], list[Outcome]]


@pytest.fixture(scope="module")
def spread() -> Iterator[SpreadOut]:
    """Trains cases on two or on four devices. A process has one number of them for good, so there is one for each."""
    with Spread(2) as two, Spread(4) as four:
        yield lambda devices, cases: {2: two, 4: four}[devices](cases)


@pytest.fixture(scope="module")
def alone() -> Alone:
    """What one device makes of a case. Several tests compare with it, so each case is trained once."""
    known: dict[bytes, Outcome] = {}

    def train(case: Case) -> Outcome:
        single = msgspec.structs.replace(case, strategy="single")
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
    """Batches of 50 and 22 on 4 devices are filled up; dropout, augmentation and batch normalisation are the same."""
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
    cases = [
        Case(exercise="softmax", values=SOFTMAX.values, strategy="local-sgd", options=EVERY_STEP),
        Case(exercise="softmax", values=values, strategy="local-sgd", options=rare, save=str(tmp_path)),
        Case(exercise="softmax", values=values, strategy="local-sgd", options=rare, restore=str(tmp_path / "6")),
        Case(exercise="softmax", values=SOFTMAX.values, strategy="local-sgd", options=rare),
        Case(exercise="softmax", values=SOFTMAX.values | {"evaluate_every": 1}, strategy="local-sgd", options=rare),
    ]
    each, saved, resumed, unsaved, evaluated = spread(2, cases)
    single = alone(SOFTMAX)
    assert differ(each, single) < 1e-5
    assert each.reduced_bytes == 4 * unsaved.reduced_bytes > 0
    assert unsaved.losses[0] == pytest.approx(single.losses[0], rel=1e-6)
    assert differ(unsaved, single) > 1e-2  # between two averages each replica goes a way of its own
    assert resumed.losses == saved.losses[6:]
    assert saved.losses[:6] == unsaved.losses[:6]
    assert (evaluated.losses, evaluated.evaluation) == (unsaved.losses, unsaved.evaluation)


def test_a_run_goes_on_under_another_strategy_and_number_of_devices(
    tmp_path: Path, alone: Alone, spread: SpreadOut
) -> None:
    """The state has names of its own: no strategy and no number of devices is in it."""
    one, four = (str(tmp_path / name) for name in ("one", "four"))
    first = outcome(Case(exercise="cnn", values=FULL.values, strategy="single", until=3, save=one), 1)
    (second,) = spread(4, [Case(exercise="cnn", values=FULL.values, restore=one, until=6, save=four)])
    last = outcome(Case(exercise="cnn", values=FULL.values, strategy="single", restore=four), 1)
    together = Outcome(
        losses=first.losses + second.losses + last.losses,
        evaluation={},
        reduced_bytes=0,
        replicas=1,
        logical=False,
        traces=1,
    )
    assert len(together.losses) == 10
    assert differ(together, alone(FULL)) < 1e-5
