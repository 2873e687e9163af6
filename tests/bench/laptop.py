"""A mini cluster of the benchmarks' own, and its laptop, from which they measure the way to a node."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, Prompt, Prompter, PromptKind
from clew_shared.base.places import Places
from tests.bench.measure import CannotMeasure

if TYPE_CHECKING:
    from tests.cluster.mini import MiniCluster

SITE = "minicluster"
LOGIN = "10.77.0.1"
_CLUSTER = Path(__file__).parents[2] / "packaging/cluster"


class Trusting(Prompter):
    """A person who has compared the fingerprint and knows no password: the key opens the door."""

    def ask(self, prompt: Prompt) -> str | None:
        """See ``Prompter``."""
        return "yes" if prompt.kind is PromptKind.CONFIRM else None


class Laptop:
    """A laptop's files, in ``folder``: places of its own with the site ``minicluster`` in them."""

    def __init__(self, cluster: MiniCluster, folder: Path) -> None:
        self.cluster = cluster
        self.places = Places(folder / "home", folder / "private")
        site = Site(
            title="Mini cluster",
            host=LOGIN,
            user="student",
            key=str(Path(cluster.info()["laptop_home"]) / ".ssh/id_ed25519"),
            scheduler="slurm",
            modules=("tensorflow",),
            data="/opt/data",
            allocation=AllocationRequest(time="30", cpus=4),
        )
        site_store(self.places).save(SITE, site)

    @property
    def asker(self) -> AskOnce:
        """Who is asked."""
        return AskOnce(Trusting())


@contextmanager
def at_laptop(cluster: MiniCluster) -> Iterator[Laptop]:
    """Be at the laptop of a cluster that is up: this thread's connections and what it starts are there."""
    folder = Path(tempfile.mkdtemp(prefix="clew-bench-"))
    try:
        with cluster.network("laptop"):
            yield Laptop(cluster, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def own_laptop() -> Iterator[Laptop]:
    """The same with a cluster that is up as long as this lasts. Raises ``CannotMeasure`` where none can run."""
    sys.path.insert(0, str(_CLUSTER))  # as pytest does it for the tests
    from tests.cluster.mini import UP_LIMIT_S, MiniCluster

    run = Path(tempfile.mkdtemp(prefix="clew-bench-cluster-"))
    data = {"CLEW_DATA": os.environ["CLEW_DATA"]} if os.environ.get("CLEW_DATA") else {}
    cluster = MiniCluster(run, **data)
    try:
        if (told := cluster.call("check")).returncode:
            raise CannotMeasure(f"The mini cluster cannot run here: {(told.stdout + told.stderr).strip()}")
        cluster("up", limit_s=UP_LIMIT_S)
        with at_laptop(cluster) as laptop:
            yield laptop
    finally:
        cluster.call("down")
        shutil.rmtree(run, ignore_errors=True)
