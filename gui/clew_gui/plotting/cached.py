"""The columns of one curve, kept while the pixel grid stays: after an append only the last columns are read again."""

from __future__ import annotations

import numpy as np

from clew_gui.plotting.pyramid import Columns, FloatArray, Pyramid


class CachedView:
    """Columns of a pyramid for a grid of edges. The grid counts as the same when it is the same array object."""

    __slots__ = ("_columns", "_edges", "_generation", "_pyramid", "_size")

    def __init__(self, pyramid: Pyramid) -> None:
        self._pyramid = pyramid
        self._edges: FloatArray | None = None
        self._columns: Columns | None = None
        self._size = 0
        self._generation = 0

    def get(self, edges: FloatArray) -> Columns:
        """As ``Pyramid.view(edges)``, but for which of two neighbouring columns a block on their border counts."""
        pyramid = self._pyramid
        columns = self._columns
        if columns is None or self._edges is not edges or self._generation != pyramid.generation or not self._size:
            columns = pyramid.view(edges)
        elif self._size != len(pyramid):
            last = pyramid.x.at(self._size - 1)
            # From the column before the last one: blocks that were incomplete may lie across their border.
            column = max(int(np.searchsorted(edges, last, side="right")) - 2, 0)
            keep = int(np.searchsorted(columns.x, edges[column]))
            columns = columns.join(keep, pyramid.view(edges[column:]))
        self._columns, self._edges, self._size, self._generation = columns, edges, len(pyramid), pyramid.generation
        return columns
