"""The supervisor: answers viewers, queues runs, has them started, and adopts those of the one before it."""

from __future__ import annotations
