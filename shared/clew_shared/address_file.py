"""The file in which an agent says where it listens, ``agents/<uuid>.json``, as its neighbours and viewers read it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clew_shared.foreign import from_json
from clew_shared.messages import AgentAddress


def read_address(path: Path) -> AgentAddress | None:
    """The address in ``path``; None when it is missing or no address."""
    try:
        found: AgentAddress = from_json(path.read_bytes(), AgentAddress)
    except (OSError, msgspec.DecodeError):
        return None
    return found
