"""Targets: this computer, an SSH host, SSH plus a scheduler. No Qt."""

from __future__ import annotations
