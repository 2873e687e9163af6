"""The processor of this node. No TensorFlow."""

from __future__ import annotations

import os


def cores() -> int:
    """Returns how many of the processor's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor in words, as far as this process may use it: ``2 CPU cores``."""
    return f"{cores()} CPU core{'s' if cores() > 1 else ''}"
