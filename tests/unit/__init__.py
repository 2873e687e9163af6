"""Pure functions and single modules, no processes of ours, no display."""

from __future__ import annotations
