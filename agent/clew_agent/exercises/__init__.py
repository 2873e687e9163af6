"""The built-in exercises, one file each; every file reads from top to bottom as a lesson."""

from __future__ import annotations
