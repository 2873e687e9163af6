"""Shows runs in a terminal."""

from __future__ import annotations
