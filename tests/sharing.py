"""How ``make test`` shares its files between processes (pytest-xdist): the longest start first.

Each file stays in one process. The files of tests/cluster are split into one share for each process beyond two, and
at least one. Each share brings up its own cluster, and while it waits for jobs and links, two other processes compute.
A process that has done its share takes other files.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import pytest
from xdist.scheduler import LoadFileScheduling

CLUSTER = "tests/cluster/"
_COMPUTING = 2
"""So many processes have no cluster: one for each core of a small computer."""


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out files in the order in which they were collected. If only the cluster's tests were chosen, it hands them
    out like all others."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return self._cluster_shares.get(file_of(nodeid), file_of(nodeid))

    @cached_property
    def _cluster_shares(self) -> dict[str, str]:
        """The share of each of the cluster's files; empty if no other tests were chosen.

        The longest come first, so shares take turns there and back: 0, 1, 2, 2, 1, 0, 0, 1 …
        """
        files = dict.fromkeys(map(file_of, self.collection or ()))
        found = [file for file in files if file.startswith(CLUSTER)]
        shares = max(1, len(self.nodes) - _COMPUTING)
        turns = [*range(shares), *reversed(range(shares))]
        return {file: f"{CLUSTER}{turns[k % len(turns)]}" for k, file in enumerate(found) if len(found) < len(files)}


def longest_first(granted: list[tuple[str, float]]) -> list[int]:
    """The new order of tests, given by name and granted seconds, as positions in the old one.

    The cluster's tests come first, then the files whose tests are granted most in total; nothing else moves.
    """
    sums: Counter[str] = Counter()
    for nodeid, seconds in granted:
        sums[file_of(nodeid)] += round(seconds)

    def rank(place: int) -> tuple[bool, int]:
        nodeid = granted[place][0]
        return not nodeid.startswith(CLUSTER), -sums[file_of(nodeid)]

    return sorted(range(len(granted)), key=rank)


def granted_s(item: pytest.Item) -> float:
    """The seconds that a test's own mark grants it; 0 if it has the usual time."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark is not None else 0.0


def file_of(nodeid: str) -> str:
    """The test's file."""
    return nodeid.partition("::")[0]
