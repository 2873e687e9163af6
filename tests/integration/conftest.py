"""Asserts of helper modules say what differed, as those of tests do; and one warm process for runs of many files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.agent_runs import Warm
from tests.stand_in import FOLDER
from tests.warm import WarmAgent

pytest.register_assert_rewrite("tests.integration.faults.lab", "tests.integration.faults.oracle")


@pytest.fixture(scope="session")
def warm_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmAgent]:
    """Has imported TensorFlow once for all files of this process."""
    with WarmAgent(tmp_path_factory.mktemp("warm")) as agent:
        yield agent


@pytest.fixture(scope="module")
def warm(warm_agent: WarmAgent) -> Iterator[None]:
    """In this file ``clew-agent run`` begins as a copy of the warm process."""
    Warm.agent = warm_agent
    yield
    Warm.agent = None


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains without TensorFlow: steps that take their time and no processor, whose bits are known."""
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
