"""The seam between the training loop and what computes the steps, and the counting that all engines share."""

from __future__ import annotations
