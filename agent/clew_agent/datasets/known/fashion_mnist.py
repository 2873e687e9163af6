"""Fashion-MNIST: clothes in the form of MNIST (H. Xiao, K. Rasul, R. Vollgraf, arXiv:1708.07747)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.known import mnist
from clew_shared.cards import DataSetCard

_FOLDERS = ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw")
CARD = DataSetCard(
    name="fashion-mnist",
    title="Fashion-MNIST",
    order=3,
    files=(
        *("fashion-mnist.npz", "fashion_mnist.npz"),
        *mnist.IMAGES,
        *(f"{folder}/{file}" for folder in _FOLDERS for file in mnist.IMAGES),
    ),
    wanted="fashion-mnist.npz, or the four IDX files in a folder called fashion-mnist",
    published=(
        "The files are at https://github.com/zalandoresearch/fashion-mnist, and on Debian and Ubuntu in the package"
        " dataset-fashion-mnist (folder /usr/share/datasets/fashion-mnist)."
    ),
)
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
"""As in the paper, table 2."""


def read(path: Path) -> DataSet:
    """Fashion-MNIST in one of MNIST's forms. Raises ``ProblemError`` that names the file and what was found."""
    return msgspec.structs.replace(mnist.read(path), name=CARD.name, class_names=CLASS_NAMES)
