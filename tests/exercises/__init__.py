"""What each exercise must reach and reproduce."""

from __future__ import annotations
