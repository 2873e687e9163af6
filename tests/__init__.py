"""Tests of Clew; CONTRIBUTING.md says what each folder is for."""

from __future__ import annotations
