"""The parts that every plot needs: spans, ticks, the text of numbers, boxes and clipping. No Qt."""

from __future__ import annotations
