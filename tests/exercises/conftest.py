"""What tests of training share: the built-in digits, and a process where TensorFlow always gives the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import Search
from clew_agent.training import runtime


@pytest.fixture(scope="session", autouse=True)
def deterministic() -> None:
    """As the trainer does before its first operation."""
    runtime.configure()


@pytest.fixture(scope="session")
def small_digits() -> DataSet:
    """1,797 handwritten digits that come with scikit-learn."""
    return load("digits", Search())


@pytest.fixture(scope="session")
def real_mnist() -> DataSet:
    """The real MNIST, for tests marked with ``needs("real-mnist")``."""
    import os

    return load("mnist", Search(own=Path(os.environ["CLEW_DATA"]).absolute()))
