"""Data sets that a warm process has read once and its copies share, as long as the files have not changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.known.mnist import idx_files
from clew_agent.datasets.load import reader_of
from clew_agent.datasets.search import Search, locate
from clew_shared.base.problem import ProblemError

Signature = tuple[tuple[str, int, int, int], ...]


class DataCache:
    """Data sets in memory: ``load`` returns those that ``keep`` has read without reading them again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, Callable[[Path], DataSet]], tuple[Signature, DataSet]] = {}

    def keep(self, name: str, search: Search) -> bool:
        """Read the data set ``name`` if it is here; whether it is kept now. A damaged one is left to the run."""
        try:
            path = locate(name, search)
            signature = _signature(path)
            read = reader_of(name, path)
            data = read(path)
        except (OSError, ProblemError, MemoryError):
            return False
        self._kept[path, read] = (signature, data)
        return True

    @property
    def kept(self) -> tuple[DataSet, ...]:
        """Returns the data sets that ``keep`` has read."""
        return tuple(data for _, data in self._kept.values())

    def load(self, name: str, search: Search) -> DataSet:
        """The data set, the kept one if its files are still the same. Raises ``ProblemError``."""
        path = locate(name, search)
        read = reader_of(name, path)
        signature, data = self._kept.get((path, read), ((), None))
        return data if data is not None and signature == _signature(path) else read(path)


def _signature(path: Path) -> Signature:
    """Changes when a file of the set is written again: path, length, time of the last change, inode."""
    files = {path, *(file for file in idx_files(path).values() if file is not None)}
    states = ((file, file.stat()) for file in sorted(files))
    return tuple((str(file), state.st_size, state.st_mtime_ns, state.st_ino) for file, state in states)
