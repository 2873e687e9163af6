"""Charts on the screen and in files: what ``clew_gui.charts`` lays out, painted with Qt."""

from __future__ import annotations
