"""`clew site` and its subcommands."""

from __future__ import annotations
