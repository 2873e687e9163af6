"""The programs of the node: supervisor, nursery, guard, trainer, strategies, exercises, ``clew-agent``."""

from __future__ import annotations
