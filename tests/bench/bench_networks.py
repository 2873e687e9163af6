"""The networks to look into, in their presets on the real MNIST: what each reaches, and what its guide states."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import find_search, locate
from clew_shared import params
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.spec import read_spec
from tests.bench.measure import machine, table

if TYPE_CHECKING:
    from clew_agent.training.exercise import Model

Array = npt.NDArray[np.floating[Any]]
SURE, ENOUGH = 0.9, 0.02
"""A class is there when such a share of images is read as that class with such a probability."""

METHOD = f"""`clew run EXERCISE --preset PRESET --seed 1` as a student types it, on the real MNIST. `least` and `most`
bound the value after the last step: they are what the guides state, with room for another processor's rounding.
Seconds are from the start of the run to its end. *Classes read* judges what a network draws by the network of the first
row, which has seen none of it: a class counts when at least {ENOUGH:.0%} of the images are read as that class with a
probability of {SURE} or more. Of `vae` these are the 400 images of its manifold, of `gan` 1,000 samples."""
_LIMIT_S = 3600
_READER = ("cnn", "99-percent")
_WANTED: tuple[tuple[str, str, str, float, float], ...] = (
    (*_READER, "test_accuracy", 0.99, 1.0),
    ("activations", "sigmoid", "test_accuracy", 0.0, 0.2),
    ("activations", "relu", "test_accuracy", 0.95, 1.0),
    ("rnn", "simple", "test_accuracy", 0.85, 0.93),
    ("rnn", "gru", "test_accuracy", 0.93, 1.0),
    ("rnn", "lstm", "test_accuracy", 0.94, 1.0),
    ("autoencoder", "undercomplete", "test_gain", 1.6, 2.0),
    ("autoencoder", "denoising", "test_gain", 2.2, 3.0),
    ("autoencoder", "sparse", "active", 0.2, 0.4),
    ("anomaly", "twos", "test_f_score", 0.65, 0.85),
    ("vae", "both", "test_loss", 135.0, 150.0),
    ("gan", "course", "samples_classes", 7.0, 10.0),
    ("gan", "mode-collapse", "samples_classes", 0.0, 5.0),
    ("gan", "vanishing-gradient", "generator_gradient", 0.0, 1e-3),
)
"""Exercise, preset, metric, and between which values it must end."""
_READ = (
    ("vae", "both", 8, 10),
    ("gan", "course", 7, 10),
    ("gan", "mode-collapse", 0, 6),
)
"""Exercise, preset, and how many classes must be read in what it draws."""


def row(exercise: str, preset: str, metric: str, least: float, most: float, folder: Path) -> tuple[str, ...]:
    """One run as a row of the table. Raises ``AssertionError`` when it ends elsewhere."""
    command = [sys.executable, "-m", "clew_gui", "run", exercise, "--preset", preset, "--seed", "1"]
    command += ["--data", "mnist", "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    value = float(summary["metrics"][metric])
    assert least <= value <= most, f"{exercise}, {preset}: {metric} ended at {value}, not between {least} and {most}"
    bounds = (f"{least:g}", f"{most:g}")
    return exercise, preset, metric, f"{value:.4g}", *bounds, f"{summary['steps']}", f"{summary['seconds']:.0f}"


def judged(folders: Mapping[tuple[str, str], Path]) -> list[tuple[str, ...]]:
    """What the reader finds in each network's images. Raises ``AssertionError`` when it finds too few or too many."""
    data = load("mnist", find_search(find_places()))
    found: list[tuple[str, ...]] = []
    for exercise, preset, least, most in _READ:
        count = classes_read(folders[_READER], folders[exercise, preset], data)
        assert least <= count <= most, f"{exercise}, {preset}: {count} classes were read, not {least} to {most}"
        found.append((exercise, preset, "classes read", f"{count}", f"{least}", f"{most}", "", ""))
    return found


def classes_read(reader: Path, drawn: Path, data: DataSet) -> int:
    """How many classes the network of the run ``reader`` finds in what that of the run ``drawn`` draws."""
    sure = read(reader, images_of(drawn, data), data) >= SURE
    return int((sure.mean(0) >= ENOUGH).sum())


def read(run: Path, x: Array, data: DataSet) -> Array:
    """The probability of each class [images, classes] that the ``cnn`` of a finished run gives the rows ``x``.

    The exercise evaluates the cross-entropy with a label, which is minus the logarithm of that class's probability.
    """
    import tensorflow as tf

    from clew_agent.training.exercise import Batch

    evaluate, count = finished(run, data).evaluate, len(x)
    assert evaluate is not None
    places, weight = tf.range(count), tf.ones(count)
    answers = [
        evaluate(Batch(tf.constant(x), tf.fill([count], label), places, weight))["loss"]
        for label in range(data.classes)
    ]
    probabilities: Array = np.exp(-np.stack(answers, 1))
    return probabilities


def images_of(run: Path, data: DataSet) -> Array:
    """What a finished run of ``vae`` or ``gan`` draws, as rows of pixels: its manifold, or its 1,000 samples."""
    import tensorflow as tf

    from clew_agent.training.layers import leaky_relu

    model = finished(run, data)
    if "manifold" in model.pictures:
        return np.reshape(model.pictures["manifold"](), [-1, data.train.x.shape[1]])
    weights = next(part.variables for part in model.parts if part.name == "generator")
    hidden = leaky_relu(model.evaluation_sets["samples"].x @ weights["generator1"] + weights["generator1_offset"])
    return np.asarray(tf.sigmoid(hidden @ weights["generator2"] + weights["generator2_offset"]))


def finished(run: Path, data: DataSet) -> Model:
    """The model of a finished run, with the weights of its last checkpoint."""
    import tensorflow as tf

    from clew_agent.training.exercise import Setup
    from clew_agent.training.state import FILE, named_state

    spec, checkpoint = read_spec(run / "spec.toml"), max((run / "checkpoints").iterdir())
    exercise = import_module(f"clew_agent.exercises.{spec.exercise}").EXERCISE
    model: Model = exercise.build(Setup(params.build(exercise.Settings, spec.params), spec.seed, data))
    tf.train.Checkpoint(**named_state(model)).read(str(checkpoint / FILE)).expect_partial()
    return model


def report(rounds: int, quick: bool) -> str:
    """Run each once, however many ``rounds`` are asked for; a quick report is of the first two."""
    try:
        locate("mnist", find_search(find_places()))
    except ProblemError as error:
        return f"Left out: {error}"
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as place:
        folders = {one[:2]: Path(place) / "-".join(one[:2]) for one in _WANTED}
        found = [row(*one, folders[one[:2]]) for one in (_WANTED[1:3] if quick else _WANTED)]
        found += [] if quick else judged(folders)
    text = table(("exercise", "preset", "metric", "value", "least", "most", "steps", "seconds"), found)
    print(text, flush=True)
    return f"Machine: {machine()}.\n\n{text}\n\n{METHOD}"


if __name__ == "__main__":
    report(1, "--quick" in sys.argv)
