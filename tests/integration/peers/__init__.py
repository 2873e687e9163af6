"""Peers of a run as real processes that do not train."""

from __future__ import annotations
