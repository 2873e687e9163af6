"""The mini cluster is brought up once for all tests that ask for it, and taken down in the end."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.journey import Student
from tests.cluster.mini import UP_LIMIT_S, MiniCluster


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Each process of a test run brings up a cluster of its own; the first of them may have packages to install."""
    with (Path(tempfile.gettempdir()) / "clew-cluster-up.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A cluster that is up; a test that breaks something mends it."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "data").mkdir()
    (folder / "data/digits.csv").write_text("3,1,4\n")
    mini = MiniCluster(folder / "run", CLEW_DATA=str(folder / "data"))
    with one_at_a_time():
        mini("up", limit_s=UP_LIMIT_S)
    try:
        yield mini
    finally:
        mini("down")


@pytest.fixture(scope="module")
def student(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Student]:
    """Sits at the laptop, with a home of their own for each file of tests."""
    with cluster.network("laptop"):
        yield Student(cluster, tmp_path_factory.mktemp("student"))
