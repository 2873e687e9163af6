"""The charts of convergence: curves over steps, their marks and captions, and the crosshair."""

from __future__ import annotations
