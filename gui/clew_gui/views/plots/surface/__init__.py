"""A loss surface with the paths of runs."""

from __future__ import annotations
