"""How ``make test`` shares its files between processes (pytest-xdist): what takes longest begins first.

Each file stays in one process. Those of tests/cluster are one share for each process beyond two: each brings up a
cluster of its own, and while it waits for jobs and links two others compute. Of three or more processes those with a
cluster do nothing else.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

CLUSTER = "tests/cluster/"
_COMPUTING = 2
"""More processes than that would only be in each other's way on a computer with two cores."""


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out files in the order in which they were collected. Where nothing but the cluster's tests was chosen, they
    are handed out as all others."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _reschedule(self, node: WorkerController) -> None:
        has_cluster = not self.assigned_work[node].keys().isdisjoint(self._cluster_shares.values())
        if not has_cluster or len(self.nodes) <= _COMPUTING:
            super()._reschedule(node)
        elif not node.shutting_down:
            node.shutdown()  # when it has done what it was given

    def _split_scope(self, nodeid: str) -> str:
        return self._cluster_shares.get(file_of(nodeid), file_of(nodeid))

    @cached_property
    def _cluster_shares(self) -> dict[str, str]:
        """The share of each of the cluster's files; nothing where no other tests were chosen.

        The longest come first, so shares take turns there and back: 0, 1, 2, 2, 1, 0, 0, 1 …
        """
        files = dict.fromkeys(map(file_of, self.collection or ()))
        found = [file for file in files if file.startswith(CLUSTER)]
        shares = max(1, len(self.nodes) - _COMPUTING)
        turns = [*range(shares), *reversed(range(shares))]
        return {file: f"{CLUSTER}{turns[k % len(turns)]}" for k, file in enumerate(found) if len(found) < len(files)}


def longest_first(granted: list[tuple[str, float]]) -> list[int]:
    """The new order of tests, of which the name and the granted seconds are told, as places in the old one.

    The cluster's come first, then the files whose tests are granted most in all; nothing else is moved.
    """
    sums: Counter[str] = Counter()
    for nodeid, seconds in granted:
        sums[file_of(nodeid)] += round(seconds)

    def rank(place: int) -> tuple[bool, int]:
        nodeid = granted[place][0]
        return not nodeid.startswith(CLUSTER), -sums[file_of(nodeid)]

    return sorted(range(len(granted)), key=rank)


def granted_s(item: pytest.Item) -> float:
    """What a test's own mark grants it; nothing where it has the usual time."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None else 0.0


def file_of(nodeid: str) -> str:
    """The test's file."""
    return nodeid.partition("::")[0]
