"""Commands that train: `clew run`, `resume`, `race`, `queue`."""

from __future__ import annotations
