"""Connections through SSH, by paramiko."""

from __future__ import annotations
