"""The window's tabs beside *Guide* and *Run*, each with its widgets and what fills them."""

from __future__ import annotations
