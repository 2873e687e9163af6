"""Numbers in the guides are those of the models that are trained."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from clew_agent.catalogue.examine import find_exercise
from clew_agent.datasets.dataset import DataSet, Split
from clew_agent.exercises import softmax
from clew_agent.exercises.devices import minibatch
from clew_agent.training.exercise import Model, Setup
from clew_shared.catalogue import load_builtin
from clew_shared.params import Value, build
from tests.exercises.training import make_engine, train

CARDS = {card.id: card for card in load_builtin().exercises}
SAID = re.compile(r"(\d[\d,]*(?:\.\d+)?)( million)?(?= weights)")
NETWORKS = ("alexnet", "alexnet-it4i", "resnet50")
CELLS = ("simple", "gru", "lstm")


def flat(exercise: str) -> str:
    """The guide without line breaks."""
    return " ".join(CARDS[exercise].guide.replace("\n> ", " ").split())


@cache
def blank() -> DataSet:
    """Images of MNIST's size, with its classes: weights are counted, nothing is trained."""
    split = Split(np.zeros([20, 784], np.float32), np.arange(20, dtype=np.int32) % 10)
    return DataSet(
        name="mnist",
        source="",
        sha256="",
        train=split,
        validation=split,
        test=split,
        image_shape=(28, 28, 1),
        classes=10,
    )


def model(exercise: str, **values: Value) -> Model:
    found = find_exercise(exercise, None)[0]
    data = blank() if found.datasets else None
    return found.build(Setup(build(found.Settings, values), 1, data))


@cache
def count(exercise: str, only: str = "", **values: Value) -> int:
    """The trained weights of an exercise's model; ``only`` those whose names begin so."""
    sizes = {
        name: int(np.prod(variable.shape))
        for part in model(exercise, **values).parts
        for name, variable in part.variables.items()
    }
    return sum(size for name, size in sizes.items() if name.startswith(only))


def counted(exercise: str) -> set[int]:
    """What the guide of an exercise may say: whole networks, and their parts."""
    match exercise:
        case "imagenet-bench" | "model-parallel":
            networks = {count("imagenet-bench", model=name) for name in NETWORKS}
            return networks | {count("imagenet-bench", "conv", model="alexnet")}
        case "inception-ps":
            return {count(exercise)}
        case "rnn":
            return {count(exercise, cell=cell, units=units) for cell in CELLS for units in (16, 64)}
        case "generalisation":
            return {count(exercise, images=20)}
        case "cnn":
            variables = model(exercise).parts[0].variables
            kernels = [int(np.prod(variables[name].shape)) for name in ("conv1", "conv2")]
            return {count(exercise), sum(kernels), int(np.prod(variables["dense"].shape))}
        case _:
            return set()


def fits(number: str, million: bool, counts: set[int]) -> bool:
    """Whether a number in words is one of ``counts``, to as many digits as it has."""
    if not million:
        return int(number.replace(",", "")) in counts
    digits = len(number.partition(".")[2])
    return any(f"{one / 1e6:.{digits}f}" == number for one in counts)


@pytest.mark.parametrize("exercise", CARDS)
def test_each_number_of_weights_in_a_guide_is_that_of_a_model(exercise: str) -> None:
    card = CARDS[exercise]
    said = SAID.findall(" ".join(f"{card.subtitle} {card.summary} {card.guide}".split()))
    if said:
        counts = counted(exercise)
        assert [number for number, million in said if not fits(number, bool(million), counts)] == []


def test_the_guides_say_what_was_counted() -> None:
    alexnet, course, resnet = (count("imagenet-bench", model=name) for name in NETWORKS)
    assert (alexnet, count("imagenet-bench", "conv", model="alexnet")) == (76_009_832, 3_747_200)
    guide = " ".join(CARDS["imagenet-bench"].guide.split())
    for weights in (alexnet, course, resnet):
        assert f"{weights:,}" in guide
        assert f"{4 * weights / 1e6:.0f} MB" in guide, "gradients in float32"
    assert "3,747,200 are in convolutions" in CARDS["model-parallel"].guide
    megabytes = 4 * count("inception-ps") / 1e6
    assert f"reads {megabytes:.0f} MB from the server" in " ".join(CARDS["inception-ps"].guide.split())


def test_the_cells_have_as_many_weights_as_the_guide_says() -> None:
    small, usual = ([count("rnn", cell=cell, units=units) for cell in CELLS] for units in (16, 64))
    assert small == [890, 2330, 3050]
    guide = " ".join(CARDS["rnn"].guide.split())
    assert all(f"{weights:,}" in guide for weights in (*small, *usual))


def test_the_course_variant_of_alexnet_has_the_slides_filters_and_does_not_pad() -> None:
    variables = model("imagenet-bench", model="alexnet-it4i").parts[0].variables
    filters = [variables[f"conv{number}"].shape[-1] for number in range(1, 6)]
    assert filters == [64, 192, 384, 256, 256]
    assert variables["dense1"].shape[0] == 256, "without padding one place is left of 224 × 224 pixels"


def test_as_many_updates_are_made_with_each_batch_size_as_the_guide_says() -> None:
    updates = {size: minibatch.network_settings(minibatch.MinibatchSettings(), size).steps for size in (1, 2048)}
    said = re.search(r"are ([\d,]+) updates with a batch of 1, and (\d+) with a batch of 2,048", flat("minibatch"))
    assert said is not None
    assert [int(one.replace(",", "")) for one in said.groups()] == list(updates.values())


@pytest.mark.parametrize("exercise", CARDS)
def test_a_hint_says_with_which_seeds_or_on_which_machine_its_shares_were_measured(exercise: str) -> None:
    source = re.compile(r"\bseeds? \d|whatever the seed|\bthree runs\b|\bcores\b|slides'")
    hints = flat(exercise).split("**Hint: ")[1:]
    assert [hint for hint in hints if re.search(r"\d %", hint) and not source.search(hint)] == []


@pytest.mark.needs("real-mnist")
def test_the_longer_run_ends_where_the_guide_says(real_mnist: DataSet) -> None:
    (long,) = (one for one in CARDS["softmax"].presets if one.name == "long")
    engine = make_engine(softmax.EXERCISE, dict(long.values), real_mnist)
    train(engine)
    said = re.search(r"with its falling rate, at ([\d.]+) to ([\d.]+) %", flat("softmax"))
    assert said is not None
    least, most = map(float, said.groups())
    assert least - 0.02 <= 100 * engine.evaluate()["test_accuracy"] <= most + 0.02
