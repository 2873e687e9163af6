"""The window: widgets, and what joins them to the session."""

from __future__ import annotations
