"""What the window's tabs beside *Run* show, and what their buttons do."""

from __future__ import annotations
