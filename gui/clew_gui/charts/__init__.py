"""Charts without Qt: each lays itself out as a list of simple shapes, for the window, for files and for reports."""

from __future__ import annotations
