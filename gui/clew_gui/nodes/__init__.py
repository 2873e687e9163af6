"""What is reached on a compute node: the agent, a shell, Jupyter, TensorBoard."""

from __future__ import annotations
