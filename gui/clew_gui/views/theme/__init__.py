"""The look: tokens, fonts, colours, icons, small building blocks."""

from __future__ import annotations
