"""Asserts of helper modules say what differed, as those of tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.integration.faults.lab", "tests.integration.faults.oracle")
