"""How long each file of tests takes: what takes longest starts first, and the beginning says when the end will be.

``tests/durations.toml`` has the seconds of each file that takes long, as ``make test`` measured them on two cores that
did nothing else. ``CLEW_RECORD=1 make test`` writes those again that have passed.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

FILE = Path(__file__).with_name("durations.toml")
_SHORT_S = 3.0
"""Files that take less are not listed: together they take as long as ``others`` says."""
_COLLECT_S = 20
"""Until each process has collected all tests."""


class Durations:
    """Seconds of files, as they were recorded."""

    def __init__(self, recorded: Mapping[str, float]) -> None:
        self._recorded = recorded

    @classmethod
    def load(cls) -> Durations:
        """Those of the file."""
        return cls(tomllib.loads(FILE.read_text(encoding="utf-8"))["seconds"])

    def of(self, file: str) -> float:
        """Seconds that it took; 0 of a file that is short or new."""
        return self._recorded.get(file, 0.0)

    def sentence(self, tests: Iterable[str], processes: int) -> str:
        """What to expect of these tests, by their ids, in so many processes: ``5,748 tests: about 12 minutes …``."""
        counts = Counter(map(file_of, tests))
        long = [self.of(file) for file in counts]
        short = sum(count for file, count in counts.items() if file not in self._recorded)
        total = sum(long) + short * self._recorded.get("each other test", 0.0)
        minutes = (_COLLECT_S + max([total / processes, *long])) / 60
        return f"{counts.total():,} tests: about {max(1, round(minutes))} min on two cores that do nothing else."


def longest_first(tests: Sequence[str], durations: Durations) -> list[int]:
    """The new order of tests, given by their ids, as positions in the old one: the files that take longest come first,
    and nothing else moves."""
    return sorted(range(len(tests)), key=lambda place: -durations.of(file_of(tests[place])))


def file_of(nodeid: str) -> str:
    """The test's file."""
    return nodeid.partition("::")[0]


class Recorder:
    """Plugin object of the process that gives out the tests: adds up what they took."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._said = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Say how long it will take, as soon as the first process knows its tests."""
        reporter = node.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not self._said:
            reporter.write_line(Durations.load().sentence(ids, len(node.config.option.tx)))
        self._said = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a test to its file."""
        file = file_of(report.nodeid)
        self._seconds[file] += report.duration  # type: ignore[assignment]  # a Counter of floats
        self._counts[file] += report.when == "call"

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file again if all tests have passed."""
        if exitstatus == 0 and os.environ.get("CLEW_RECORD") == "1":
            before = tomllib.loads(FILE.read_text(encoding="utf-8"))["seconds"]
            found = recorded(self._seconds, self._counts, before)
            FILE.write_text(tomli_w.dumps({"seconds": found}), encoding="utf-8")


def recorded(seconds: Mapping[str, float], counts: Mapping[str, int], before: Mapping[str, float]) -> dict[str, float]:
    """What the file holds: long files, longest first, and the mean of a test of all the others. Files that were not
    run this time keep what they had ``before``."""
    long = {file: round(took, 1) for file, took in seconds.items() if took >= _SHORT_S}
    others = [file for file in seconds if file not in long and not file.startswith("tests/cluster/")]
    mean = sum(seconds[file] for file in others) / max(1, sum(counts[file] for file in others))
    kept = {file: took for file, took in before.items() if file not in seconds and file.endswith(".py")}
    ordered = sorted((kept | long).items(), key=lambda item: -item[1])
    return {"each other test": round(mean, 4) if others else before["each other test"], **dict(ordered)}
