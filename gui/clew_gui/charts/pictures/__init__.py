"""The pictures that a run takes: a page of tiles, and a file for each form of picture."""

from __future__ import annotations
