"""Ways from here to an agent's port on a compute node, tried in order until one really leads there."""

from __future__ import annotations

from enum import Enum

import msgspec


class Kind(Enum):
    """Kinds of ways, the best first."""

    LOGIN = "login"
    HOP = "hop"
    RELAY = "relay"


class Way(msgspec.Struct, frozen=True):
    """A way that was found to work. ``text`` is for the status line: "through login, jumping into node1"."""

    kind: Kind
    text: str
