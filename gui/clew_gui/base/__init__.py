"""What the rest of the laptop side needs: checked texts, settings, files of lines, times, words for states."""

from __future__ import annotations
