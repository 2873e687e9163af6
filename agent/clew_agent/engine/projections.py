"""Codes of many numbers in a plane: principal components, t-SNE, and the groups that k-means finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]

LEAST_DIFFERENT = 3
"""Different codes that groups are looked for in."""
_PERPLEXITY = 30.0
"""About how many neighbours of a point t-SNE keeps near it (van der Maaten and Hinton, 2008)."""


def two_components(codes: npt.ArrayLike) -> tuple[Points, float]:
    """The first two principal components of ``codes`` [n, numbers], as [n, 2], and their share of the variance. What is
    missing is 0."""
    rows = np.asarray(codes, np.float64)
    rows = rows - rows.mean(0)
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    plane = np.zeros((len(rows), 2))
    plane[:, : min(2, len(sizes))] = left[:, :2] * sizes[:2]
    whole = float(np.square(sizes).sum())
    return plane, float(np.square(sizes[:2]).sum()) / whole if whole > 0 else 1.0


class Groups(NamedTuple):
    """What is found in codes without their classes: a plane by t-SNE, and a group for each code by k-means.

    ``purity`` is the share of codes whose class is the most frequent one of their group, ``rand`` the adjusted Rand
    index: 1 where groups are the classes, about 0 where they have nothing to do with them.
    """

    plane: Points
    groups: npt.NDArray[np.int32]
    purity: float
    rand: float


def different(codes: npt.ArrayLike) -> int:
    """How many of ``codes`` [n, numbers] differ by more than a millionth of their deviation."""
    return len(np.unique(np.round(_scaled(codes), 6), axis=0))


def _scaled(codes: npt.ArrayLike) -> Points:
    rows: Points = np.asarray(codes, np.float64)
    rows = rows - rows.mean(0)
    return rows / (float(rows.std()) or 1.0)


def groups_of(codes: npt.ArrayLike, classes: npt.NDArray[Any], count: int) -> Groups | None:
    """Looks for ``count`` groups in ``codes`` [n, numbers], whose ``classes`` [n] only judge them. None where there is
    no scikit-learn. As many codes as ``count``, and ``LEAST_DIFFERENT`` at least, must be ``different``: without any
    distance t-SNE ends the process."""
    try:
        from sklearn.cluster import KMeans  # late: it takes a second, and a site may have none
        from sklearn.manifold import TSNE
        from sklearn.metrics import adjusted_rand_score
        from sklearn.metrics.cluster import contingency_matrix
        from threadpoolctl import threadpool_limits
    except ImportError:
        return None
    rows = _scaled(codes)
    perplexity = min(_PERPLEXITY, (len(rows) - 1) / 3)
    begin = "pca" if rows.shape[1] > 1 else "random"
    with threadpool_limits(1):  # beside a run that trains, several threads mostly wait for each other, spinning
        groups = KMeans(count, n_init=10, random_state=0).fit_predict(rows)
        plane = TSNE(perplexity=perplexity, init=begin, random_state=0).fit_transform(rows)
    shared = contingency_matrix(classes, groups)
    return Groups(plane, groups, shared.max(0).sum() / len(rows), float(adjusted_rand_score(classes, groups)))
