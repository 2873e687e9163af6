"""How ``make test`` shares its files between processes (pytest-xdist): the longest start first.

Each file stays in one process. The files of tests/cluster are split into one share for each process beyond two, and
at least one; the shares take about equally long. Each brings up its own cluster, and while it waits for jobs and
links, two other processes compute. A process that has done its share takes other files.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.durations import Durations

CLUSTER = "tests/cluster/"
_COMPUTING = 2
"""So many processes have no cluster: one for each core of a small computer."""


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out files in the order in which they were collected. If only the cluster's tests were chosen, it hands them
    out like all others."""

    def __init__(self, config: pytest.Config, log: object = None, durations: Durations | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._durations = durations or Durations.load()

    def schedule(self) -> None:
        """Say how long it will take before the first tests are given out."""
        begins = self.collection is None
        super().schedule()
        if begins and self.collection and (reporter := self.config.pluginmanager.get_plugin("terminalreporter")):
            reporter.write_line(self._durations.sentence(self.collection, os.cpu_count() or 1))

    def _split_scope(self, nodeid: str) -> str:
        return self._cluster_shares.get(file_of(nodeid), file_of(nodeid))

    @cached_property
    def _cluster_shares(self) -> dict[str, str]:
        """The share of each of the cluster's files; empty if no other tests were chosen. The longest come first, and
        each goes to the share that has least."""
        files = Counter(map(file_of, self.collection or ()))
        found = [file for file in files if file.startswith(CLUSTER)]
        if len(found) == len(files):
            return {}
        given: dict[str, str] = {}
        loads = [0.0] * max(1, len(self.nodes) - _COMPUTING)
        for file in found:
            least = loads.index(min(loads))
            loads[least] += self._durations.of(file) or files[file]
            given[file] = f"{CLUSTER}{least}"
        return given


def longest_first(tests: Sequence[str], durations: Durations) -> list[int]:
    """The new order of tests, given by their ids, as positions in the old one.

    The cluster's tests come first, then the files that take longest; nothing else moves.
    """

    def rank(place: int) -> tuple[bool, float]:
        file = file_of(tests[place])
        return not file.startswith(CLUSTER), -durations.of(file)

    return sorted(range(len(tests)), key=rank)


def file_of(nodeid: str) -> str:
    """The test's file."""
    return nodeid.partition("::")[0]
