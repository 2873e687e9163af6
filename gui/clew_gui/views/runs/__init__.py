"""The runs: table, card, log, and the Run tab."""

from __future__ import annotations
