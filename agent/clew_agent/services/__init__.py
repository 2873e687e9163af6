"""Jupyter on a node, for nobody but the user of the agent."""

from __future__ import annotations
