"""SSH connections against real servers: OpenSSH's own, started on loopback with users and keys of their own."""

from __future__ import annotations
