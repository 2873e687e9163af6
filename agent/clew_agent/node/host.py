"""The processor of this node. No TensorFlow."""

from __future__ import annotations

from clew_shared.base.number_words import counted
from clew_shared.base.operating_system import usable_cores


def processor() -> str:
    """The processor in words, as far as this process may use it: ``2 CPU cores``."""
    return counted(usable_cores(), "CPU core")
