"""A trainer for what is around a training."""

from __future__ import annotations

import pytest

from tests.stand_in import FOLDER


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains without TensorFlow: steps that take their time and no processor, whose bits are known."""
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
