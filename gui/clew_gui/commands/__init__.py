"""The commands of ``clew``, one module for each group. None of them needs Qt, but ``start`` when there is a display."""

from __future__ import annotations
