"""Defines where runs go: the interface, and the agent of this computer."""

from __future__ import annotations
