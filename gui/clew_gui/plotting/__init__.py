"""Decimation and series for plots, NumPy only. No Qt."""

from __future__ import annotations
