"""The training loop in blocks, parts, stateless order and randomness, metrics, checkpoints."""

from __future__ import annotations
