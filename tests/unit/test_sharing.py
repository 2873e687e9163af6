"""In which order ``make test`` begins its files, and which stay together."""

from __future__ import annotations

import pytest

from tests.sharing import CLUSTER, Sharing, longest_first

SHORT = "tests/unit/test_words.py::test_a"
LONG = "tests/gui/test_real_agent.py::test_a_first_day"
LONGER = "tests/exercises/test_cnn.py::test_the_slides_values"
JOB = f"{CLUSTER}test_thread.py::test_a"
WALLTIME = f"{CLUSTER}test_thread_walltime.py::test_a"


def test_the_cluster_comes_first_then_what_is_granted_most_and_files_stay_together() -> None:
    more = f"{LONG}[again]"
    granted = [(JOB, 300.0), (SHORT, 0.0), (LONG, 300.0), (WALLTIME, 900.0), (LONGER, 400.0), (more, 0.0)]
    order = [granted[place][0] for place in longest_first(granted)]
    assert order == [WALLTIME, JOB, LONGER, LONG, more, SHORT]


@pytest.mark.parametrize(("others", "shares"), [((SHORT, LONG), [[JOB, WALLTIME], [SHORT], [LONG]]), ((), None)])
def test_one_process_has_the_cluster_unless_nothing_else_is_run(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...], shares: object
) -> None:
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", True)
    monkeypatch.setattr(pytestconfig.option, "tx", ["2*popen"])
    sharing = Sharing(pytestconfig)
    sharing.collection = [JOB, WALLTIME, *others]
    scopes: dict[str, list[str]] = {}
    for nodeid in sharing.collection:
        scopes.setdefault(sharing._split_scope(nodeid), []).append(nodeid)
    assert list(scopes.values()) == (shares or [[JOB], [WALLTIME]])
    assert not pytestconfig.option.loadscopereorder, "xdist would begin with the files of most tests"
