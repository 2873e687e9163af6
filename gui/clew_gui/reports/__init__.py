"""Hand-in and report, made from journals. No Qt."""

from __future__ import annotations
