"""Training under parameter servers: batches are handed out to workers, whose gradients change the weights."""

from __future__ import annotations
