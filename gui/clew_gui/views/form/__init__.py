"""The form of the next run."""

from __future__ import annotations
