"""The mini cluster is brought up once for all tests that ask for it, and taken down in the end."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site_file import read_site
from clew_gui.sites.store import site_store
from clew_shared.base.places import Places
from tests.cluster.commands import CALL_LIMIT_S, PROGRAM, Clew
from tests.cluster.journey import Student, stand_in
from tests.cluster.mini import FOLDER, UP_LIMIT_S, MiniCluster
from tests.durations import file_of

CLUSTER_FILES = {f"tests/cluster/test_{name}.py" for name in ("life", "site", "jobs", "faults", "ssh")}
"""Files that test the mini cluster and not Clew."""


class MiniClusterTests:
    """Leaves out the tests of the mini cluster itself when they are asked for with all others, and have passed here
    since it last changed. In .ci/run they always run."""

    def __init__(self, config: pytest.Config) -> None:
        driven = [config.rootpath / name for name in (*sorted(CLUSTER_FILES), "tests/cluster/mini.py")]
        files = sorted(path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (*files, *driven)]
        self._now = hashlib.sha256("".join(digests).encode()).hexdigest()
        self._passed = config.rootpath / "build/mini-cluster-passed"
        self._seen: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        known = self._passed.exists() and self._passed.read_text() == self._now
        if (
            not known
            or os.environ.get("CLEW_DEMAND_ALL") == "1"
            or {file_of(one.nodeid) for one in items} <= CLUSTER_FILES
        ):
            return
        config.hook.pytest_deselected(items=[one for one in items if file_of(one.nodeid) in CLUSTER_FILES])
        items[:] = [one for one in items if file_of(one.nodeid) not in CLUSTER_FILES]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen.add(file_of(report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        chosen = session.config.option.keyword or session.config.option.markexpr
        if exitstatus == 0 and self._seen >= CLUSTER_FILES and not chosen:
            self._passed.parent.mkdir(exist_ok=True)
            self._passed.write_text(self._now)


def pytest_configure(config: pytest.Config) -> None:
    """Register what leaves out the tests of the mini cluster itself."""
    config.pluginmanager.register(MiniClusterTests(config), "clew-mini-cluster")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Each process of a test run brings up a cluster of its own; the first of them may have packages to install."""
    with (Path(tempfile.gettempdir()) / "clew-cluster-up.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def brought_up(folder: Path, **settings: str) -> Iterator[MiniCluster]:
    """A cluster that is up until the end."""
    mini = MiniCluster(folder / "run", **settings)
    with one_at_a_time():
        mini("up", limit_s=UP_LIMIT_S)
    try:
        yield mini
    finally:
        mini("down")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A cluster that is up; a test that breaks something mends it."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "data").mkdir()
    (folder / "data/digits.csv").write_text("3,1,4\n")
    with brought_up(folder, CLEW_DATA=str(folder / "data")) as mini:
        yield mini


@pytest.fixture(scope="module")
def uni(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """The cluster with the profile of a university's."""
    with brought_up(tmp_path_factory.mktemp("uni"), CLEW_CLUSTER_PROFILE="uni") as mini:
        yield mini


@pytest.fixture(scope="module")
def student(cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Student]:
    """Sits at the laptop, with a home of their own for each file of tests."""
    with cluster.network("laptop"):
        yield Student(cluster, tmp_path_factory.mktemp("student"))


@pytest.fixture
def clew(cluster: MiniCluster, home: Path) -> Clew:
    """A command on the laptop, with runs of its own."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return cluster.call("on", "laptop", "env", f"CLEW_HOME={home}", *PROGRAM, *words, limit_s=CALL_LIMIT_S)

    return call


@pytest.fixture
def light(cluster: MiniCluster, home: Path) -> None:
    """The sites' jobs train without TensorFlow."""
    places = Places(home=home, private=home)
    for name in ("minicluster", "minicluster-otp"):
        there = read_site(FOLDER / f"sites/{name}.toml")
        site = msgspec.structs.replace(there, prologue=stand_in(cluster.student_home()))
        site_store(places).save(name, site, replace=True)
        consents(places).give(words_of(site))
