"""Data sets: where they are searched, how they are read and checked. NumPy only, no TensorFlow.

``load("mnist", search)`` or ``load("/path/to/mnist.npz", search)`` gives a ``DataSet``; whatever is wrong with the
name, the place or the file becomes a ``ProblemError``. Nothing falls back silently: a missing set is a refusal.
"""

from __future__ import annotations

from clew_agent.datasets.dataset import DataSet, Split
from clew_agent.datasets.search import NAMES, Search, find_search, is_name, load, locate

__all__ = ["NAMES", "DataSet", "Search", "Split", "find_search", "is_name", "load", "locate"]
