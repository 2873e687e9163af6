"""Stacked convergence curves."""

from __future__ import annotations
