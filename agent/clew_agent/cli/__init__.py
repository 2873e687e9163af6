"""``clew-agent`` and its subcommands."""

from __future__ import annotations
