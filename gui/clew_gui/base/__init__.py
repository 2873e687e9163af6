"""The basis of the laptop side: checked texts, settings, files of lines, times, words for states."""

from __future__ import annotations
