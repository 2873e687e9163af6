"""Real agents, real processes, real sockets."""

from __future__ import annotations
