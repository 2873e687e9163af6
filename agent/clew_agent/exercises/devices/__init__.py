"""The exercises of the chapter *Many devices*."""

from __future__ import annotations
