"""What is said at a plot's border of values that lie outside."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.charts.kit.clip import stretches


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([], []),
        ([5], [(5, 5)]),
        ([5, 40], [(5, 5), (40, 40)]),
        ([5, 6, 8, 12, 40], [(5, 12), (40, 40)]),
    ],
)
def test_neighbours_become_one_stretch_and_a_lonely_spike_stays_one(
    places: list[float], found: list[tuple[float, float]]
) -> None:
    assert stretches(np.array(places, float), 4.0) == found


@given(st.lists(st.integers(0, 2000), max_size=60))
def test_every_place_lies_in_a_stretch_and_stretches_are_apart(places: list[int]) -> None:
    ordered = np.unique(np.array(places, float))
    found = stretches(ordered, 8.0)
    assert all(any(first <= place <= last for first, last in found) for place in ordered.tolist())
    assert all(before[1] + 8.0 < after[0] for before, after in pairwise(found))
