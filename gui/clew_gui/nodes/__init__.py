"""Reaches what is on a compute node: the agent, a shell, Jupyter."""

from __future__ import annotations
