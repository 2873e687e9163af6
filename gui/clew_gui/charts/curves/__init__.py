"""Curves over steps, epochs or time: what of them is in sight, their marks and captions, and what the cursor reads."""

from __future__ import annotations
