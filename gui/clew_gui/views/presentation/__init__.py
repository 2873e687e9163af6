"""What the views show, as words and plain data. No widgets."""

from __future__ import annotations
