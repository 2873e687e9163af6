"""The appearance of the window: tokens, fonts, colours, icons, small building blocks."""

from __future__ import annotations
