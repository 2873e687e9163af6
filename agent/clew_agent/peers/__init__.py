"""Processes of one distributed run: roll-call, watching, reaping."""

from __future__ import annotations
