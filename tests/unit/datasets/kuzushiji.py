"""A data set as a newcomer would add it: this one file, in ``clew_agent/datasets/known``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.known import mnist
from clew_shared.cards import DataSetCard

CARD = DataSetCard(
    name="kuzushiji",
    title="Kuzushiji-MNIST",
    like="fashion-mnist",
    files=("kuzushiji.npz",),
    whole=("kuzushiji.npz",),
    wanted="kuzushiji.npz",
    published="The files are at https://github.com/rois-codh/kmnist.",
)


def read(path: Path) -> DataSet:
    """Old Japanese characters in one of MNIST's forms."""
    return msgspec.structs.replace(mnist.read(path), name=CARD.name, class_names=tuple("おきすつなはまやれを"))
