"""What all kinds of plot draw with."""

from __future__ import annotations
