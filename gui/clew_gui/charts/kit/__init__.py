"""The parts that every chart needs: shapes and SVG, boxes, spans, ticks and their text, axes, names and read-outs."""

from __future__ import annotations
