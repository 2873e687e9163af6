"""The drawing tools that all kinds of plot share."""

from __future__ import annotations
