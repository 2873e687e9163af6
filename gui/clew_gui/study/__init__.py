"""What is concluded from runs: goals, comparison, speed-up, importance, advice on one run, and its words."""

from __future__ import annotations
