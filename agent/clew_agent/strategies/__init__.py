"""Strategies: how gradients are reduced, delayed, dropped, compressed and applied."""

from __future__ import annotations
