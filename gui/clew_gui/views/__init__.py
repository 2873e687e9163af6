"""Widgets only, no intelligence."""

from __future__ import annotations
