"""Turns what the views show into words and plain data. Imports no widgets."""

from __future__ import annotations
