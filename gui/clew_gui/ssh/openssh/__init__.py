"""SSH through the `ssh` of the system."""

from __future__ import annotations
