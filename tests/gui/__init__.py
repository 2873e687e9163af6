"""The real window, offscreen."""

from __future__ import annotations
