"""The lab: exercises in their chapters, and the guide."""

from __future__ import annotations
