"""What runs on the node: supervisor, nursery, guard, trainer, strategies, peers, exercises and the headless command line."""

from __future__ import annotations
