"""Plots of measured relations: time against size, accuracy against batch size."""

from __future__ import annotations
