"""The same tests for every implementation of one interface."""

from __future__ import annotations
