"""Codes in a plane are scikit-learn's, and so is the judgement on groups; without it there are two components."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import rand_score

from clew_agent.engine.projections import different, groups_of, two_components


def test_two_principal_components_are_scikit_learns() -> None:
    rows = load_digits().data[:300]
    plane, share = two_components(rows)
    theirs = PCA(2, svd_solver="full").fit(rows)
    expected = theirs.transform(rows)
    signs = np.sign((plane * expected).sum(0))
    np.testing.assert_allclose(plane * signs, expected, atol=1e-8)
    assert share == pytest.approx(theirs.explained_variance_ratio_.sum())


def test_codes_of_one_number_or_all_alike_have_a_plane_too() -> None:
    plane, share = two_components(np.array([[1.0], [2.0], [6.0]]))
    np.testing.assert_allclose(abs(plane), [[2, 0], [1, 0], [3, 0]], atol=1e-12)
    assert share == 1
    assert two_components(np.ones((4, 3)))[1] == 1


def test_groups_that_are_there_are_found_and_judged_by_the_classes() -> None:
    rows, classes = make_blobs(90, 6, centers=3, cluster_std=0.3, random_state=2)
    found = groups_of(rows, classes, 3)
    assert found is not None
    assert (found.purity, found.rand) == (1, 1)
    assert found.plane.shape == (90, 2)
    middles = np.stack([found.plane[classes == one].mean(0) for one in range(3)])
    nearest = np.linalg.norm(found.plane[:, np.newaxis] - middles, axis=2).argmin(1)
    assert (nearest == classes).all(), "t-SNE keeps neighbours together"
    mixed = np.where(np.arange(90) % 2, classes, 0)
    by_hand = [np.bincount(mixed[found.groups == group]).max() for group in range(3)]
    judged = groups_of(rows, mixed, 3)
    assert judged is not None
    assert judged.purity == sum(by_hand) / 90
    assert 0 < judged.rand < rand_score(mixed, found.groups) < 1


def test_codes_that_hardly_differ_are_counted_before_groups_are_looked_for() -> None:
    """scikit-learn's t-SNE ends the process where all distances are 0."""
    assert different(np.zeros((50, 4))) == different(np.full((50, 4), 0.5)) == 1
    two = np.repeat(np.eye(2), 20, axis=0)
    assert different(1e-9 * two) == 2
    for rows in (np.repeat(np.eye(3), 20, axis=0), np.arange(40.0)[:, np.newaxis], np.arange(3.0)[:, np.newaxis]):
        found = groups_of(rows, np.zeros(len(rows)), min(10, different(rows)))
        assert found is not None
        assert np.isfinite(found.plane).all()
        assert found.purity == 1


def test_without_scikit_learn_there_are_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    assert groups_of(np.eye(5), np.arange(5), 2) is None
