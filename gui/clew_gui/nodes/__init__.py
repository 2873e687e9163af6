"""Reaches what is on a compute node: the agent, a shell, Jupyter, TensorBoard."""

from __future__ import annotations
