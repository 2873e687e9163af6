"""Curves over steps, epochs or time: what is recorded, what of it is in sight, and what the cursor reads. No Qt."""

from __future__ import annotations
