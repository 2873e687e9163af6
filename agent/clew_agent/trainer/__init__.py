"""The trainer, one process for one attempt of a run: loop, recorder, control, time limit, checkpoints."""

from __future__ import annotations
