"""How a command shows a run in a terminal."""

from __future__ import annotations
