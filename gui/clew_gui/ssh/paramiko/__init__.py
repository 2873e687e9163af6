"""SSH through paramiko."""

from __future__ import annotations
