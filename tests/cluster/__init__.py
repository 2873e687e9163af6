"""Real sshd and schedulers."""

from __future__ import annotations
