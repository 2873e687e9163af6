"""What the rest of the laptop side needs: checked texts, settings, files of lines, times, locks."""

from __future__ import annotations
