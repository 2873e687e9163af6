"""What runs on the node: supervisor, nursery, guard, trainer, strategies, peers, exercises, ``clew-agent``."""

from __future__ import annotations
