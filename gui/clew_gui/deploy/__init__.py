"""Brings the agent, packages, data and exercises to a site."""

from __future__ import annotations
