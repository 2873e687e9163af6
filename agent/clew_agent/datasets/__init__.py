"""Data sets: where they are searched, how they are read and checked, how batches are drawn."""

from __future__ import annotations
