"""A lab for each test, and what was done in all of them in the last line of ``make soak``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.faults.chance import Chance, Tally
from tests.integration.faults.lab import Lab
from tests.integration.faults.oracle import judge_end


@pytest.fixture(scope="session")
def tally() -> Iterator[Tally]:
    tally = Tally()
    yield tally
    tally.keep()


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Chance:
    chance = Chance(request.node.name)
    print(f"CLEW_SEED={chance.seed}")  # shown when the test fails
    return chance


@pytest.fixture
def way() -> str:
    """How trainers are started; a test that is to run in both ways is parametrised with it."""
    return "nursery"


@pytest.fixture
def lab(home: object, chance: Chance, tally: Tally, way: str) -> Iterator[Lab]:
    """A lab; whatever lives at the end is ended."""
    lab = Lab(chance, tally, way)
    yield lab
    lab.close()


@pytest.fixture
def judged_lab(lab: Lab) -> Iterator[Lab]:
    """A lab whose agent must end cleanly after the test."""
    yield lab
    judge_end(lab)
