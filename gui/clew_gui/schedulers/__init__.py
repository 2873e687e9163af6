"""Schedulers: pure functions that write job scripts and commands, and read what the scheduler answers."""

from __future__ import annotations
