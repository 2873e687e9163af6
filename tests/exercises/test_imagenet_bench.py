"""The ImageNet benchmark: each network trains, alone and on two devices, on made-up images and on those of a folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.exercises.devices.imagenet_bench import EXERCISE, ImagenetSettings, samples_of
from clew_agent.strategies.base import Rows
from clew_agent.training.exercise import Batch, Setup
from clew_agent.training.random import StepContext
from clew_shared.base.problem import ProblemError
from tests.exercises.spread import Case, outcome, spread

TINY = {"model": "alexnet", "image_size": 32, "classes": 4, "batch_size": 6, "steps": 4}


def image_folder(root: Path) -> Path:
    """Two classes of small images that differ in colour, in two file formats."""
    for name, colour in (("cats", 40), ("dogs", 200)):
        (root / name).mkdir(parents=True)
        for number in range(4):
            image = tf.constant(np.full((20 + number, 30, 3), colour + number, np.uint8))
            data, kind = (tf.io.encode_png(image), "png") if number % 2 else (tf.io.encode_jpeg(image), "jpg")
            (root / name / f"{number}.{kind}").write_bytes(data.numpy())
    (root / "notes.txt").write_text("no image")
    return root


@pytest.mark.nightly
def test_two_devices_train_alexnet_as_one_does() -> None:
    case = Case(exercise="imagenet-bench", values=TINY, data="")
    (two,) = spread(2, [case])
    one = outcome(Case(exercise="imagenet-bench", values=TINY, strategy="single", data=""), 1)
    assert two.losses == pytest.approx(one.losses, rel=1e-5)
    assert two.reduced_bytes > 80_000_000, "AlexNet sends nearly all of its dense weights"


def test_alexnet_without_padding_gives_scores_for_its_smallest_images() -> None:
    built = EXERCISE.build(Setup(ImagenetSettings(model="alexnet-it4i", image_size=195, classes=4), 1))
    assert built.train is not None
    batch = Batch(tf.constant(built.train.x[:2]), tf.constant(built.train.y[:2]), tf.range(2))
    context = StepContext(1, tf.constant(0, tf.int64), {}, Rows(2, 2))
    assert np.isfinite(built.parts[0].loss(batch, context).value.numpy())


def test_images_of_a_folder_are_read_in_the_step_and_can_be_told_apart(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images")
    values = TINY | {"folder": str(folder), "batch_size": 8, "steps": 40, "optimizer": "adam", "learning_rate": 3e-4}
    done = outcome(Case(exercise="imagenet-bench", values=values, strategy="single", data=""), 1)
    assert min(done.losses) < 0.25 < 0.5 < done.losses[0]


def test_hidden_folders_are_no_classes_and_other_files_no_images(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images")
    first = next(path for path in sorted(folder.iterdir()) if path.is_dir())
    shutil.copytree(first, folder / ".ipynb_checkpoints")
    (folder / "notes").mkdir()
    os.mkfifo(first / "a.png")
    samples, classes, _ = samples_of(ImagenetSettings(folder=str(folder)), 32, 1)
    assert classes == len([path for path in folder.iterdir() if path.is_dir()]) - 2
    assert not [name for name in samples.x.tolist() if b"checkpoints" in name or name.endswith(b"a.png")]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"model": "inception3", "image_size": 64}, "exercise.size"),
        ({"model": "alexnet-it4i", "image_size": 194}, "exercise.size"),
        ({"folder": "/nowhere"}, "exercise.folder"),
    ],
)
def test_what_cannot_be_trained_is_refused(changes: dict[str, object], code: str) -> None:
    with pytest.raises(ProblemError) as refused:
        EXERCISE.build(Setup(ImagenetSettings(**changes), 1))  # type: ignore[arg-type]
    assert refused.value.problems[0].code == code


def test_both_larger_networks_have_names_for_all_that_a_checkpoint_needs() -> None:
    """Building one takes seconds, compiling it a minute: what they record on a device is for a real run."""
    for model, weights in (("resnet50", 23.6e6), ("inception3", 21.8e6)):
        settings = ImagenetSettings(model=model, image_size=96, classes=4)
        built = EXERCISE.build(Setup(settings, 1))
        (part,) = built.parts
        count = sum(int(np.prod(variable.shape)) for variable in part.variables.values())
        assert count == pytest.approx(weights, rel=0.02)
        assert built.state, "moving averages"
        assert len(set(part.variables) | set(built.state)) == len(part.variables) + len(built.state)
