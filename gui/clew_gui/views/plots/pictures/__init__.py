"""Pictures that runs take while they train."""

from __future__ import annotations
