"""The pulse: what a run and its node do, sampled beside the process that trains."""

from __future__ import annotations
