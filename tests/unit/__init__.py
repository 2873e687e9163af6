"""Pure functions and single rooms, no processes of ours, no display."""

from __future__ import annotations
