"""Weights that an earlier run has learnt, or a file brings: read by name, and taken over where the shapes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.formats import parse_npz
from clew_agent.training.layers import BatchNorm
from clew_agent.training.state import FILE
from clew_shared.base.foreign import read_file
from clew_shared.base.problem import problem

_MOST_BYTES = 1 << 30
"""Largest size of a file of weights, and of what it unpacks to: the largest network of the exercises has 304 MB."""
Arrays = Mapping[str, npt.NDArray[np.generic]]
_HINT = "Give the folder of a finished run, one of its checkpoints, or an .npz file."


def read_weights(path: str, part: str) -> Arrays:
    """The weights of ``part`` by name from a run's folder (its last checkpoint), a checkpoint or an ``.npz`` file, and
    what that run kept without training it: moving averages, layers that were frozen.

    Raises ``ProblemError`` when there are none.
    """
    place = Path(path).expanduser()
    if place.is_file():
        return _from_npz(place)
    folder = next((one for one in (place, *_checkpoints(place)) if (one / f"{FILE}.index").is_file()), None)
    if folder is None:
        text = f"There are no weights in {place}." if place.exists() else f"The path {place} does not exist here."
        raise problem("weights.missing", text, _HINT, "weights")
    try:
        return _from_checkpoint(folder, part)
    except tf.errors.OpError as error:
        text = f"The checkpoint in {folder} cannot be read: {str(error).splitlines()[0]}"
        raise problem("weights.read", text, _HINT, "weights") from None


def fit(variables: Mapping[str, tf.Variable], arrays: Arrays, path: str) -> None:
    """Give each of ``variables`` the array of its name. Raises ``ProblemError`` that says which one does not fit."""
    for name, variable in variables.items():
        shape = tuple(variable.shape)
        if name not in arrays:
            known = ", ".join(sorted(arrays)) or "none"
            raise problem("weights.name", f"{path} has no weights {name!r}; it has {known}.", _HINT, "weights")
        if arrays[name].shape != shape:
            text = f"The weights {name!r} in {path} have the shape {arrays[name].shape}; this network needs {shape}."
            raise problem("weights.shape", text, "Train with images of the same size and the same network.", "weights")
        variable.assign(tf.cast(tf.constant(arrays[name]), variable.dtype))


def without_norms(arrays: Arrays, layers: Sequence[str], path: str) -> Arrays:
    """The weights of a network without batch normalisation that gives the same answers as one with it.

    Each unit's scale and shift become part of its weights and offset. A matrix has a row for each unit, a kernel has
    the units last. Raises ``ProblemError`` where the moving averages are missing that this takes.
    """
    found = dict(arrays)
    for name in (one for one in layers if f"{one}_gamma" in arrays):
        own = [arrays.get(f"{name}_{key}") for key in ("gamma", "beta", "mean", "variance")]
        if any(one is None for one in own):
            text = f"{path} has the batch normalisation of {name!r} without its moving averages."
            raise problem("weights.norm", text, "Train the network without batch normalisation.", "weights")
        gamma, beta, mean, variance = (np.asarray(one, np.float64) for one in own)
        scale = gamma / np.sqrt(variance + BatchNorm.epsilon)
        kernel, offset = (np.asarray(arrays[key], np.float64) for key in (name, f"{name}_offset"))
        found[name] = kernel * (scale if kernel.ndim == 4 else scale[:, None])
        found[f"{name}_offset"] = (offset - mean) * scale + beta
    return found


def _checkpoints(run: Path) -> list[Path]:
    """Returns the checkpoints of a run's folder, the last one first: names sort like steps."""
    return sorted((path for path in (run / "checkpoints").glob("[0-9]*")), reverse=True)


def _from_checkpoint(folder: Path, part: str) -> Arrays:
    reader = tf.train.load_checkpoint(str(folder / FILE))
    suffix = "/.ATTRIBUTES/VARIABLE_VALUE"
    keys = {key.removesuffix(suffix).replace(".S", "/"): key for key in reader.get_variable_to_shape_map()}
    return {
        name.removeprefix(prefix): reader.get_tensor(key)
        for prefix in ("state/", f"weights/{part}/")
        for name, key in keys.items()
        if name.startswith(prefix)
    }


def _from_npz(path: Path) -> Arrays:
    try:
        return parse_npz(read_file(path, _MOST_BYTES), None, _MOST_BYTES)
    except ValueError as error:
        raise problem("weights.read", f"{path} cannot be read as an .npz file: {error}.", _HINT, "weights") from None
