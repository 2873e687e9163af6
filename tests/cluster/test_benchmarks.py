"""The benchmark of the way to a cluster, once and short, so that it runs when it is wanted."""

from __future__ import annotations

import pytest

from tests.bench import bench_site
from tests.bench.laptop import at_laptop
from tests.bench.site_clicker import ARRIVED, BEFORE, OF_THE_RUN, clicker, new_place, stages
from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]


def test_a_run_tells_the_moments_on_its_way(cluster: MiniCluster) -> None:
    with at_laptop(cluster) as laptop, clicker(laptop) as program:
        found = stages(program.press("linear-regression", new_place(laptop, 0)))
    assert {*BEFORE, ARRIVED} <= set(found)
    assert {*OF_THE_RUN.values()} & set(found)
    assert all(seconds > -0.02 for seconds, _ in found.values()), found
    assert max(since for _, since in found.values()) == found[ARRIVED][1]
    assert bench_site.rows({"once": [found]})[-1][0] == ARRIVED
